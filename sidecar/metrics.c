#include "metrics.h"

#include <stdlib.h>

#include "base/buffer.h"

static const int64_t BOUNDS[METRICS_LATENESS_BUCKETS - 1] = METRICS_LATENESS_BOUNDS;

metrics_t *metrics_new(size_t queue_count) {
    metrics_t *metrics = mem_alloc(sizeof *metrics);
    metrics->queues = mem_array(queue_count, sizeof *metrics->queues);
    metrics->queue_count = queue_count;
    return metrics;
}

void metrics_free(metrics_t *metrics) {
    if (!metrics) return;
    free(metrics->queues);
    free(metrics);
}

void metrics_lateness(metrics_queue_t *queue, int64_t us, int64_t jobs) {
    if (us < 0) us = 0;
    size_t bucket = 0;
    while (bucket < METRICS_LATENESS_BUCKETS - 1 && us > BOUNDS[bucket]) bucket++;
    metric_add(&queue->lateness[bucket], jobs);
    metric_add(&queue->lateness_us, us * jobs);
    if (us > metric_get(&queue->lateness_max_us)) metric_set(&queue->lateness_max_us, us); // one writer: the dispatcher
}

int64_t metrics_lateness_quantile(const metrics_queue_t *queue, double quantile) {
    int64_t total = 0;
    int64_t seen = 0;
    for (size_t i = 0; i < METRICS_LATENESS_BUCKETS; i++) total += metric_get(&queue->lateness[i]);
    if (total == 0) return 0;
    for (size_t i = 0; i < METRICS_LATENESS_BUCKETS - 1; i++) {
        seen += metric_get(&queue->lateness[i]);
        if ((double)seen >= quantile * (double)total) return BOUNDS[i];
    }
    return INT64_MAX;
}
