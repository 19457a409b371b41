#include "monitor/reports.h"

#include "base/failpoint.h"
#include "base/log.h"

static const char ROLE[] = "monitor";

outcome_t monitor_reports_read(const call_t *call, ward_t *ward) {
    // Redis reads as many as it is asked for before anybody knows how large they are.
    reports_walk_t walk = {.count = ward_meets_large(ward) ? 1 : 0, .ended = ward->look.reports == 0};
    *call->error = (redis_error_t){0};
    while (!walk.ended && !ward->reports_full)
        if (reports_scan(call, &walk, ward_report, ward) != OUTCOME_OK) return call->error->outcome;
    ward_reports_end(ward);
    return OUTCOME_OK;
}

typedef struct strays {
    const call_t *call;
    ward_t *ward;
    redis_error_t error; // of a removal
} strays_t;

// The ward knows no more than digests, so that large jobs take no room: their bytes are those that the walk tells.
static void drop_stray(void *self, const report_ref_t *report) {
    strays_t *s = self;
    const call_t call = {s->call->conn, s->call->keys, s->call->queue, s->call->token, &s->error};
    bool removed;
    digest_t digest = digest_of(report->job.data, report->job.len);
    const ward_report_t *stray = ward_stray_report(s->ward, &digest);
    if (!stray || s->error.outcome != OUTCOME_OK) return;
    failpoint("report_before");
    if (report_remove(&call, report->job, stray->sha1, &removed) != OUTCOME_OK) return;
    failpoint("report_answered");
    ward_drop_report(s->ward, stray);
    if (!removed) return;
    ward_changed(s->ward, true, mono_now()); // our own write has made Redis forget to tell of the next report
    log_warn(ROLE, s->ward->config->name, "removed a report whose job is not in progress");
    metric_add(&s->ward->metrics->stray_reports, 1);
}

outcome_t monitor_reports_drop(const call_t *call, ward_t *ward) {
    strays_t strays = {.call = call, .ward = ward};
    reports_walk_t walk = {.count = ward_meets_large(ward) ? 1 : 0};
    *call->error = (redis_error_t){0};
    while (!walk.ended && call->error->outcome == OUTCOME_OK && ward_has_strays(ward))
        if (reports_scan(call, &walk, drop_stray, &strays) == OUTCOME_OK) *call->error = strays.error;
    return call->error->outcome;
}
