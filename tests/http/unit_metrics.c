/* Counters and the histogram of lateness. */
#include "dialects/registry.h"
#include "model/metrics.h"
#include "suite.h"

#include <stdint.h>

static const int64_t BOUNDS[METRICS_LATENESS_BUCKETS - 1] = METRICS_LATENESS_BOUNDS;

Test(unit_metrics, metrics_begin_at_zero) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(3);
    cr_assert_eq(metrics->queue_count, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(metric_get(&metrics->queues[i].promoted), 0);
        for (int k = 0; k < METRICS_LATENESS_BUCKETS; k++) cr_assert_eq(metric_get(&metrics->queues[i].lateness[k]), 0);
    }
    metric_add(&metrics->terms, 2);
    metric_add(&metrics->terms, -1);
    cr_assert_eq(metric_get(&metrics->terms), 1);
    metric_set(&metrics->terms, 7);
    cr_assert_eq(metric_get(&metrics->terms), 7);
    metrics_free(NULL);
}

/* Prometheus refuses a page that describes a family twice. */
Test(unit_metrics, families_of_the_instance_differ) {
#define X(name, kind, family, scale, help) family,
    static const char *const families[] = {METRICS_INSTANCE(X)};
#undef X
    size_t count = sizeof families / sizeof *families;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++) cr_expect_str_neq(families[i], families[k]);
}

Test(unit_metrics, bucket_bounds_are_inclusive) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    metrics_queue_t *queue = &metrics->queues[0];
    for (size_t i = 0; i < METRICS_LATENESS_BUCKETS - 1; i++) {
        metrics_lateness(queue, BOUNDS[i], 1);
        cr_assert_eq(metric_get(&queue->lateness[i]), 1, "%lld us", (long long)BOUNDS[i]);
        metrics_lateness(queue, BOUNDS[i] + 1, 10);
        cr_assert_eq(metric_get(&queue->lateness[i + 1]), 10, "%lld us", (long long)BOUNDS[i] + 1);
        metric_set(&queue->lateness[i + 1], 0);
        if (i > 0) cr_assert_gt(BOUNDS[i], BOUNDS[i - 1]);
    }
}

Test(unit_metrics, lateness_counts_jobs_and_never_goes_below_zero) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
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
}

Test(unit_metrics, buckets_have_upper_bounds) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    metrics_queue_t *queue = &metrics->queues[0];
    metrics_lateness(queue, 250, 90);
    metrics_lateness(queue, 3000, 9);
    metrics_lateness(queue, INT64_MAX / 2, 1);
    cr_assert_eq(metric_get(&queue->lateness[0]), 90);
    cr_assert_eq(metric_get(&queue->lateness[4]), 9);
    cr_assert_eq(metric_get(&queue->lateness[METRICS_LATENESS_BUCKETS - 1]), 1);
}

static config_t *config_of(queue_config_t *queues, size_t count) {
    static config_t config;
    config = (config_t){.queues = queues, .queue_count = count};
    return &config;
}

Test(unit_metrics, queue_keeps_its_row_and_numbers) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(2);
    queue_config_t queues[] = {{.name = (char[]){"a"}, .dialect = dialect_list.settings},
                               {.name = (char[]){"b"}, .dialect = dialect_list.settings},
                               {.name = (char[]){"c"}, .dialect = dialect_list.settings}};
    metrics_serve(metrics, config_of(queues, 2));
    metrics_queue_t *a = metrics_queue(metrics, "a");
    metrics_queue_t *b = metrics_queue(metrics, "b");
    metric_add(&a->promoted, 3);
    metrics_lateness(b, 700, 5);
    cr_assert(a != b && metrics_queue(metrics, "a") == a);
    cr_assert_null(metrics_queue(metrics, "c"), "both places belong to served queues");
    metrics_serve(metrics, config_of(queues, 1));
    cr_assert(a->served && !b->served);
    cr_assert_eq(metrics_queue(metrics, "b"), b, "a removed queue finds its place again");
    cr_assert_eq(metric_get(&b->lateness[2]), 5);
    cr_assert_eq(metrics_queue(metrics, "c"), b, "a new queue gets the place of a removed one");
    cr_assert_eq(metric_get(&b->lateness[2]), 0);
    cr_assert_eq(metric_get(&a->promoted), 3);
}

/* A queue has its place before the config that brings it is in effect: no settings are exposed yet. */
Test(unit_metrics, settings_are_reported_once_in_effect) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    queue_config_t queues[] = {{.name = "a", .dialect = dialect_list.settings, .policy.retry.times = 3}};
    metrics_serve(metrics, config_of(queues, 1));
    metrics_queue_t *queue = metrics_queue(metrics, "a");
    cr_assert_eq(metric_get(&queue->set_retries), 3);
    metrics_serve(metrics, config_of(queues, 0));
    cr_assert_eq(metrics_queue(metrics, "b"), queue);
    cr_assert_eq(metric_get(&queue->set_retries), -1, "no setting of the removed queue, and not 0");
    cr_assert_eq(metric_get(&queue->set_alive_ms), -1, "not 0: that would mean off");
}

static mono_t at_s(int64_t seconds) { return (mono_t){(1000 + seconds) * NS_PER_S}; }

Test(unit_metrics, sizes_are_wanted_for_two_minutes_after_a_scrape) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    cr_assert_not(metrics_wanted(metrics, at_s(0)), "nobody has scraped yet");
    cr_assert_not(metrics_wanted(metrics, at_s(-999)), "nobody has scraped yet, and the machine has just started");
    cr_assert(metrics_scraped(metrics, at_s(0)), "the leader must be woken");
    cr_assert_not(metrics_scraped(metrics, at_s(59)));
    cr_assert(metrics_wanted(metrics, at_s(59 + 119)) && !metrics_wanted(metrics, at_s(59 + 120)));
    cr_assert(metrics_scraped(metrics, at_s(59 + 60)), "half of the time is over: wake the leader");
    cr_assert(metrics_scraped(metrics, at_s(1000)));
}

Test(unit_metrics, sizes_are_reported_for_a_minute_and_ages_grow) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    metrics_queue_t *queue = &metrics->queues[0];
    cr_assert_not(metrics_counted(queue, at_s(0)));
    metric_set(&queue->counted_ns, at_s(0).ns);
    cr_assert(metrics_counted(queue, at_s(59)) && !metrics_counted(queue, at_s(60)));
    metric_set(&metrics->redis_ahead_ms, 500000); /* Redis's clock is at 1,500 s now */
    cr_assert_eq(metrics_age_ms(metrics, 1490000, at_s(0)), 10000);
    cr_assert_eq(metrics_age_ms(metrics, 1490000, at_s(7)), 17000);
    cr_assert_eq(metrics_age_ms(metrics, 1500001, at_s(0)), 0);
    cr_assert_eq(metrics_age_ms(metrics, INT64_MAX, at_s(0)), 0);
}

Test(unit_metrics, ends_and_stalls_are_counted_by_label_and_in_total) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(1);
    metrics_queue_t *queue = &metrics->queues[0];
    static const char *const reasons[] = {"retries_exhausted", "reported",    "alive_timeout", "unreadable",
                                          "invalid_target",    "dead_letter", "worker_failed"};
    cr_assert_eq(sizeof reasons / sizeof *reasons, METRICS_REASON_COUNT);
    for (size_t i = 0; i < METRICS_REASON_COUNT; i++) metrics_end(queue, reasons[i], (int64_t)i + 1);
    for (size_t i = 0; i < METRICS_REASON_COUNT; i++) cr_assert_eq(metric_get(&queue->ended_by[i]), i + 1, "%s", reasons[i]);
    metrics_end(queue, "of a later version", 1);
    cr_assert_eq(metric_get(&queue->ended_by[REASON_worker_failed]), 8);
    cr_assert_eq(metric_get(&queue->ended), 29);
    metrics_stall(queue, CAUSE_lock_lost);
    cr_assert(metric_get(&queue->stalled) == 1 && metric_get(&queue->stalled_by[CAUSE_lock_lost]) == 1);
}

/* Refused requests are retried every 5 s, so 15 s without a refusal mean that it is over. */
Test(unit_metrics, queue_counts_as_refused_while_its_requests_are) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(4);
    queue_config_t queues[] = {{.name = "a", .dialect = dialect_list.settings}, {.name = "b", .dialect = dialect_list.settings}};
    char *first;
    metrics_serve(metrics, config_of(queues, 2));
    cr_assert(metrics_refusing(metrics, at_s(0), &first) == 0 && !first);
    metrics_refused(metrics_queue(metrics, "b"), at_s(0));
    cr_assert_eq(metric_get(&metrics_queue(metrics, "b")->faults), 1);
    cr_assert_eq(metrics_refusing(metrics, at_s(14), &first), 1);
    cr_assert_str_eq(first, "b");
    free(first);
    cr_assert(metrics_refusing(metrics, at_s(15), &first) == 0 && !first);
}

/* An instance that has never led counts nothing of a queue. Its first scrapes as leader begin at 0, so that `increase` has what
 * it counted before them; two Prometheus servers that ask every 15 s have both seen the 0 after 30 s. */
Test(unit_metrics, counters_are_withheld_until_a_term_and_then_begin_at_zero) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(2);
    queue_config_t queues[] = {{.name = "a", .dialect = dialect_list.settings}, {.name = "b", .dialect = dialect_list.settings}};
    static const struct {
        int64_t at_s;
        int led;
        metrics_shown_t shown;
    } scrapes[] = {
        {0, 0, METRICS_WITHHELD}, {15, 0, METRICS_WITHHELD},    {500, 1, METRICS_ZERO},       {514, 1, METRICS_ZERO},
        {529, 1, METRICS_ZERO},   {530, 1, METRICS_AS_COUNTED}, {531, 1, METRICS_AS_COUNTED}, {9000, 1, METRICS_AS_COUNTED},
    };
    metrics_serve(metrics, config_of(queues, 2));
    metrics_queue_t *a = metrics_queue(metrics, "a"), *b = metrics_queue(metrics, "b");
    metric_set(&b->led, 1);
    for (size_t i = 0; i < sizeof scrapes / sizeof *scrapes; i++) {
        metric_set(&a->led, scrapes[i].led);
        metrics_begin_scrape(metrics, at_s(scrapes[i].at_s));
        cr_expect_eq(metric_get(&a->shown), scrapes[i].shown, "scrape %zu", i);
        cr_expect_eq(metric_get(&b->shown), METRICS_AS_COUNTED, "no scrape has lacked its counters");
    }
}
