/* Counters and the histogram of lateness. */
#include "metrics.h"

#include <criterion/criterion.h>
#include <stdint.h>

static const int64_t BOUNDS[METRICS_LATENESS_BUCKETS - 1] = METRICS_LATENESS_BOUNDS;

Test(unit_metrics, begin_at_zero) {
    metrics_t *metrics = metrics_new(3);
    cr_assert_eq(metrics->queue_count, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(metric_get(&metrics->queues[i].promoted), 0);
        cr_assert_eq(metrics_lateness_quantile(&metrics->queues[i], 0.99), 0);
    }
    metric_add(&metrics->terms, 2);
    metric_add(&metrics->terms, -1);
    cr_assert_eq(metric_get(&metrics->terms), 1);
    metric_set(&metrics->terms, 7);
    cr_assert_eq(metric_get(&metrics->terms), 7);
    metrics_free(metrics);
    metrics_free(NULL);
}

Test(unit_metrics, bounds_belong_to_the_bucket_below) {
    metrics_t *metrics = metrics_new(1);
    metrics_queue_t *queue = &metrics->queues[0];
    for (size_t i = 0; i < METRICS_LATENESS_BUCKETS - 1; i++) {
        metrics_lateness(queue, BOUNDS[i], 1);
        cr_assert_eq(metric_get(&queue->lateness[i]), 1, "%lld us", (long long)BOUNDS[i]);
        metrics_lateness(queue, BOUNDS[i] + 1, 10);
        cr_assert_eq(metric_get(&queue->lateness[i + 1]), 10, "%lld us", (long long)BOUNDS[i] + 1);
        metric_set(&queue->lateness[i + 1], 0);
        if (i > 0) cr_assert_gt(BOUNDS[i], BOUNDS[i - 1]);
    }
    metrics_free(metrics);
}

Test(unit_metrics, lateness_counts_jobs_and_never_goes_below_zero) {
    metrics_t *metrics = metrics_new(1);
    metrics_queue_t *queue = &metrics->queues[0];
    metrics_lateness(queue, -5000000, 3);
    cr_assert_eq(metric_get(&queue->lateness[0]), 3);
    cr_assert_eq(metric_get(&queue->lateness_us), 0);
    cr_assert_eq(metric_get(&queue->lateness_max_us), 0);
    metrics_lateness(queue, 700, 4);
    cr_assert_eq(metric_get(&queue->lateness[2]), 4);
    cr_assert_eq(metric_get(&queue->lateness_us), 2800);
    cr_assert_eq(metric_get(&queue->lateness_max_us), 700);
    metrics_lateness(queue, 600, 1);
    cr_assert_eq(metric_get(&queue->lateness_max_us), 700);
    metrics_free(metrics);
}

Test(unit_metrics, quantiles_are_upper_bounds) {
    metrics_t *metrics = metrics_new(1);
    metrics_queue_t *queue = &metrics->queues[0];
    metrics_lateness(queue, 100, 90);
    metrics_lateness(queue, 3000, 9);
    metrics_lateness(queue, INT64_MAX / 2, 1);
    cr_assert_eq(metrics_lateness_quantile(queue, 0), 250);
    cr_assert_eq(metrics_lateness_quantile(queue, 0.5), 250);
    cr_assert_eq(metrics_lateness_quantile(queue, 0.9), 250);
    cr_assert_eq(metrics_lateness_quantile(queue, 0.91), 5000);
    cr_assert_eq(metrics_lateness_quantile(queue, 0.99), 5000);
    cr_assert_eq(metrics_lateness_quantile(queue, 1), INT64_MAX);
    metrics_free(metrics);
}
