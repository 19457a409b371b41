#include "monitor/reports.h"

#include "base/failpoint.h"
#include "base/log.h"

static const char ROLE[] = "monitor";

outcome_t monitor_reports_read(conn_t *conn, const keyspace_t *keys, size_t queue, ward_t *ward, redis_error_t *error) {
    // Redis reads as many as it is asked for before anybody knows how large they are.
    reports_walk_t walk = {.count = ward_meets_large(ward) ? 1 : 0, .ended = ward->look.reports == 0};
    *error = (redis_error_t){0};
    while (!walk.ended && !ward->reports_full)
        if (reports_scan(conn, keys, queue, &walk, ward_report, ward, error) != OUTCOME_OK) return error->outcome;
    ward_reports_end(ward);
    return OUTCOME_OK;
}

typedef struct strays {
    conn_t *conn;
    const keyspace_t *keys;
    size_t queue;
    const char *token;
    ward_t *ward;
    bool fenced;
    redis_error_t error;
} strays_t;

// The ward knows no more than digests, so that large jobs take no room: their bytes are those that the walk tells.
static void drop_stray(void *self, const report_ref_t *report) {
    strays_t *s = self;
    bool removed;
    digest_t digest = digest_of(report->job.data, report->job.len);
    const ward_report_t *stray = ward_stray_report(s->ward, &digest);
    if (!stray || s->fenced || s->error.outcome != OUTCOME_OK) return;
    failpoint("report_before");
    report_remove(s->conn, s->keys, s->queue, s->token, report->job, stray->sha1, &removed, &s->fenced, &s->error);
    if (s->error.outcome == OUTCOME_OK) failpoint("report_answered");
    if (s->fenced || s->error.outcome != OUTCOME_OK) return;
    ward_drop_report(s->ward, stray);
    if (!removed) return;
    ward_changed(s->ward, true, mono_now()); // our own write has made Redis forget to tell of the next report
    log_warn(ROLE, s->ward->config->name, "removed a report whose job is not in progress");
    metric_add(&s->ward->metrics->stray_reports, 1);
}

outcome_t monitor_reports_drop(conn_t *conn, const keyspace_t *keys, size_t queue, const char *token, ward_t *ward, bool *fenced,
                               redis_error_t *error) {
    strays_t strays = {.conn = conn, .keys = keys, .queue = queue, .token = token, .ward = ward};
    reports_walk_t walk = {.count = ward_meets_large(ward) ? 1 : 0};
    *error = (redis_error_t){0};
    while (!walk.ended && !strays.fenced && error->outcome == OUTCOME_OK && ward_has_strays(ward))
        if (reports_scan(conn, keys, queue, &walk, drop_stray, &strays, error) == OUTCOME_OK) *error = strays.error;
    *fenced = strays.fenced;
    return error->outcome;
}
