/* Anomalies of a queue: a role notes them, the leader tells them, `status` reads them. */
#include "fixture.h"
#include "model/anomaly.h"

#define NOW_MS INT64_C(1795226400000)
static metrics_t *metrics;
static metrics_queue_t *queue;

SUITE(unit_anomaly, metrics = metrics_new(1); queue = metrics_queue(metrics, "email"), metrics_free(metrics));

static mono_t at(int64_t ms) { return mono_add(mono_now(), ms * NS_PER_MS); }

static bool tells(int64_t told_ms, char field[ANOMALY_TEXT]) {
    const char *name = NULL;
    bool told = anomaly_to_tell(queue, at(told_ms), &name, field);
    if (told) cr_assert_str_eq(name, "large_in_progress");
    return told;
}

/* What `status` finds `later_ms` after the leader has told it; false = nothing. */
static bool status_sees(int64_t told_ms, int64_t later_ms, anomaly_seen_t *seen) {
    char field[ANOMALY_TEXT];
    cr_assert(tells(told_ms, field), "nothing to tell");
    return anomaly_read(field, NOW_MS + told_ms + later_ms, seen);
}

Test(unit_anomaly, a_metric_is_the_sum_of_the_last_looks) {
    anomaly_set(queue, ANOMALY_large_in_progress, 0, NOW_MS);
    cr_assert_null(queue->anomalies, "a queue without one takes no memory");
    anomaly_set(queue, ANOMALY_large_in_progress, 2, NOW_MS);
    anomaly_set(queue, ANOMALY_large_delayed, 5, NOW_MS);
    cr_assert_eq(metric_get(&queue->large), 7);
    anomaly_set(queue, ANOMALY_large_in_progress, 1, NOW_MS);
    cr_assert_eq(metric_get(&queue->large), 6);
    anomaly_set(queue, ANOMALY_large_delayed, 0, NOW_MS);
    anomaly_set(queue, ANOMALY_large_in_progress, 0, NOW_MS);
    cr_assert_eq(metric_get(&queue->large), 0);
}

Test(unit_anomaly, status_reads_number_age_and_sample) {
    anomaly_seen_t seen;
    anomaly_sample(queue, ANOMALY_large_in_progress, "two\nlines in %s", "email:backup");
    anomaly_set(queue, ANOMALY_large_in_progress, 2, NOW_MS - 7000);
    anomaly_set(queue, ANOMALY_large_in_progress, 3, NOW_MS);
    anomaly_set(queue, ANOMALY_large_in_progress, 4, NOW_MS);
    cr_assert(status_sees(1000, 0, &seen));
    cr_assert_eq(seen.number, 4);
    cr_assert_eq(seen.since_ms, NOW_MS - 7000);
    cr_assert_str_eq(seen.sample, "two?lines in email:backup");
}

/* A reconnect ends a look. The age stays, and the log says it once. */
Test(unit_anomaly, a_look_that_was_interrupted_goes_on) {
    enum { MINUTES_MS = 181000 };
    const char *message = "a heartbeat without a TTL";
    anomaly_seen_t seen;
    char field[ANOMALY_TEXT];
    const char *name;
    fixture_capture_log();
    for (int i = 0; i < 3; i++) {
        anomaly_set(queue, ANOMALY_endless_heartbeats, 1, NOW_MS + i);
        anomaly_set(queue, ANOMALY_endless_heartbeats, 0, NOW_MS + i);
    }
    anomaly_set(queue, ANOMALY_endless_heartbeats, 1, NOW_MS + 3);
    cr_assert_eq(fixture_log_count(message), 1);
    cr_assert(anomaly_to_tell(queue, at(0), &name, field) && anomaly_read(field, NOW_MS, &seen));
    cr_assert_eq(seen.since_ms, NOW_MS);
    anomaly_set(queue, ANOMALY_endless_heartbeats, 0, NOW_MS + 3);
    fixture_step_boottime(MINUTES_MS);
    anomaly_set(queue, ANOMALY_endless_heartbeats, 1, NOW_MS + MINUTES_MS);
    cr_assert_eq(fixture_log_count(message), 2);
}

/* A leader that has died tells nothing more. */
Test(unit_anomaly, a_look_is_told_again_each_minute_and_ends_without_a_leader) {
    anomaly_seen_t seen;
    char field[ANOMALY_TEXT];
    anomaly_set(queue, ANOMALY_large_in_progress, 1, NOW_MS);
    cr_assert(status_sees(0, 170000, &seen));
    cr_assert_not(tells(59000, field), "it has not changed");
    cr_assert_not(status_sees(61000, 190000, &seen));
}

Test(unit_anomaly, the_field_goes_when_the_last_one_is_gone) {
    char field[ANOMALY_TEXT];
    anomaly_set(queue, ANOMALY_large_in_progress, 1, NOW_MS);
    cr_assert(tells(0, field));
    anomaly_set(queue, ANOMALY_large_in_progress, 0, NOW_MS);
    cr_assert_not(tells(500, field), "one write a second");
    cr_assert(tells(1500, field));
    cr_assert_str_eq(field, "");
    cr_assert_not(tells(100000, field), "there is no field any more");
}
