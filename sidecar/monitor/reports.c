#include "monitor/reports.h"

#include "base/failpoint.h"
#include "base/log.h"

static const char ROLE[] = "monitor";

outcome_t monitor_reports_read(const call_t *call, scan_t *scan) {
    // Redis reads as many as it is asked for before anybody knows how large they are.
    reports_walk_t walk = {.count = scan_has_large(scan) ? 1 : 0, .ended = scan->look.reports == 0};
    *call->error = (redis_error_t){0};
    while (!walk.ended && !scan->reports_full)
        if (reports_scan(call, &walk, scan_add_report, scan) != OUTCOME_OK) return call->error->outcome;
    scan_reports_end(scan);
    return OUTCOME_OK;
}

typedef struct orphans {
    const call_t *call;
    scan_t *scan;
    redis_error_t error; // of a removal
} orphans_t;

// The scan knows no more than digests, so that large jobs take no room: their bytes are those that the walk tells.
static void reports_drop_orphan(void *self, const report_ref_t *report) {
    orphans_t *s = self;
    const call_t call = {s->call->conn, s->call->keys, s->call->queue, s->call->token, &s->error};
    bool removed;
    digest_t digest = digest_of(report->job.data, report->job.len);
    const scan_report_t *orphan = scan_orphan_report(s->scan, &digest);
    if (!orphan || s->error.outcome != OUTCOME_OK) return;
    failpoint("report_before");
    if (report_remove(&call, report->job, orphan->sha1, &removed) != OUTCOME_OK) return;
    failpoint("report_answered");
    scan_drop_report(s->scan, orphan);
    if (!removed) return;
    scan_changed(s->scan, true, mono_now()); // our own write has made Redis forget to tell of the next report
    log_warn(ROLE, s->scan->config->name, "removed a report whose job is not in progress");
    metric_add(&s->scan->metrics->stray_reports, 1);
}

outcome_t monitor_reports_drop(const call_t *call, scan_t *scan) {
    orphans_t orphans = {.call = call, .scan = scan};
    reports_walk_t walk = {.count = scan_has_large(scan) ? 1 : 0};
    *call->error = (redis_error_t){0};
    while (!walk.ended && call->error->outcome == OUTCOME_OK && scan_has_orphan_reports(scan))
        if (reports_scan(call, &walk, reports_drop_orphan, &orphans) == OUTCOME_OK) *call->error = orphans.error;
    return call->error->outcome;
}
