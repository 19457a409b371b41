#include "monitor/reports.h"

#include "base/failpoint.h"
#include "base/log.h"

static const char ROLE[] = "monitor";

// 0 = the usual number. Redis reads each requested report whole, so request large ones one by one.
static int64_t reports_count(const scan_t *scan) { return scan_has_large(scan) || scan->reports.large_bytes ? 1 : 0; }

outcome_t reports_read(const call_t *call, scan_t *scan) {
    reports_walk_t walk = {.count = reports_count(scan), .ended = scan->status.reports == 0};
    *call->error = (redis_error_t){0};
    bool kept = scan->state == SCAN_SEARCH ? !scan_search(scan)->knows_all : scan_pass(scan)->reports_kept;
    if (kept) return OUTCOME_OK;
    while (!walk.ended && !scan->reports.full)
        if (reports_scan(call, &walk, report_table_add, &scan->reports) != OUTCOME_OK) return call->error->outcome;
    report_table_keep_listed(&scan->reports);
    scan->timer.reports_read = mono_now();
    return OUTCOME_OK;
}

typedef struct orphans {
    const call_t *call;
    scan_t *scan;
    redis_error_t error; // error of a removal
} orphans_t;

// The table has only the digests of jobs, which may be large. The walk reads the bytes of the jobs.
static void reports_remove_orphan(void *self, const report_ref_t *report) {
    orphans_t *orphans = self;
    scan_t *scan = orphans->scan;
    call_t call = *orphans->call;
    report_removed_t done;
    char sha256[DIGEST_HEX_SIZE];
    digest_t digest = digest_of(report->job.data, report->job.len);
    const worker_report_t *orphan = report_table_find_orphan(&scan->reports, &digest);
    if (!orphan || orphans->error.outcome != OUTCOME_OK) return;
    call.error = &orphans->error;
    failpoint("report_before");
    if (report_remove(&call, report->job, orphan->id, &done) != OUTCOME_OK) return;
    failpoint("report_answered");
    report_table_remove(&scan->reports, orphan);
    if (!done.removed) return;
    scan_changed(scan, true, mono_now()); // the monitor's own write has cleared the tracking of the errors hash
    digest_hex(&digest, sha256);
    // The text is gone now. `job` makes the log keep each line.
    log_warn(ROLE, scan->config->name, "removed a report whose job is not in progress", F_STR("job", sha256),
             F_INT("bytes", done.bytes), F_SLICE("text", ((slice_t){done.head, done.len})));
    anomaly_sample(scan->metrics, ANOMALY_orphan_reports, "of a job of sha256 %s in %s", sha256, scan->config->errors);
    anomaly_add(scan->metrics, ANOMALY_orphan_reports, 1, scan->clock.now);
}

outcome_t reports_remove_orphans(const call_t *call, scan_t *scan) {
    orphans_t orphans = {.call = call, .scan = scan};
    reports_walk_t walk = {.count = reports_count(scan)};
    *call->error = (redis_error_t){0};
    while (!walk.ended && call->error->outcome == OUTCOME_OK && report_table_has_orphans(&scan->reports))
        if (reports_scan(call, &walk, reports_remove_orphan, &orphans) == OUTCOME_OK) *call->error = orphans.error;
    return call->error->outcome;
}
