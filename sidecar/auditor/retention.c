// The pen's part that keeps the log within its limits, and says so before anything is removed.
#include <stdlib.h>
#include <time.h>

#include "auditor/writer.h"
#include "base/log.h"

enum {
    CLOCK_AHEAD_MS = 60000, // a row that is newer than Redis's clock by more was written before the clock went back
    RETAIN_S = 60,          // between two looks at the limits while nothing is written
    CHECK_WAL_S = 30,       // between two looks at whether a reader has ended
    REPORT_S = 60,          // between two words on what was removed
    STEP_US = 4000,         // work of one step
    STEP_MAX_US = 60000,    // the same while more comes in than goes out
    FALLING_BEHIND = 105,   // percent of a limit at which it does
    NEARLY_FULL = 90,       // percent of a limit, or of the age, at which a warning is due
    NEARLY_FULL_ENDS = 80,  // and below which it will be due again
};

static const char ROLE[] = "auditor";
static const int64_t CLOCKS_APART_MAX_MS = INT64_C(24) * 3600 * 1000;

static int64_t retention_percent(int64_t of, int64_t limit) {
    return limit > 0 ? (int64_t)((double)of * 100 / (double)limit) : 0;
}

static int64_t retention_fullness(const audit_writer_t *writer, const audit_usage_t *use) {
    int64_t rows = retention_percent(use->rows, writer->retention.limits.rows);
    int64_t bytes = retention_percent(use->used_bytes, writer->retention.limits.bytes);
    return rows > bytes ? rows : bytes;
}

bool audit_writer_clocks_agree(const audit_writer_t *writer, int64_t redis_ms) {
    int64_t most_ms = writer->retention.limits.retain_ms / 2 < CLOCKS_APART_MAX_MS ? writer->retention.limits.retain_ms / 2
                                                                                   : CLOCKS_APART_MAX_MS;
    return llabs(redis_ms - (int64_t)time(NULL) * 1000) <= most_ms;
}

// Nothing is removed for its age while Redis's clock and this machine's are too far apart: one of them was set wrong, and what it
// would remove is gone for good. 0 = unknown.
static int64_t retention_trusted_clock(audit_writer_t *writer, int64_t now_ms) {
    int64_t here_ms = (int64_t)time(NULL) * 1000;
    bool apart = now_ms > 0 && !audit_writer_clocks_agree(writer, now_ms);
    if (condition_update(&writer->retention.clocks_apart, apart) == CONDITION_BEGAN)
        log_warn(
            ROLE, NULL,
            "the clocks of Redis and of this machine are too far apart: no row is removed from the audit log for its age until "
            "they agree",
            F_INT("redis_ms", now_ms), F_INT("here_ms", here_ms));
    return apart ? 0 : now_ms;
}

static void retention_warn_full(audit_writer_t *writer, const audit_usage_t *use, int64_t full) {
    log_retention_t *retention = &writer->retention;
    bool holds = full >= (retention->nearly_full.holds ? NEARLY_FULL_ENDS : NEARLY_FULL);
    if (condition_update(&retention->nearly_full, holds) != CONDITION_BEGAN) return;
    log_warn(ROLE, NULL,
             "the audit log is nearly full, then its oldest rows are removed: raise audit.retain_rows or audit.retain_bytes, or "
             "keep a copy by `audit export`",
             F_STR("path", writer->path), F_INT("rows", use->rows), F_INT("retain_rows", retention->limits.rows),
             F_INT("bytes", use->used_bytes), F_INT("retain_bytes", retention->limits.bytes));
}

// Said once: rows expire all the time from then on.
static void retention_warn_expire(audit_writer_t *writer, const audit_usage_t *use, int64_t now_ms) {
    log_retention_t *retention = &writer->retention;
    int64_t age_ms = now_ms > 0 && use->oldest_ms != INT64_MAX ? now_ms - use->oldest_ms : 0;
    bool holds = retention->rows_expire.holds || retention_percent(age_ms, retention->limits.retain_ms) >= NEARLY_FULL;
    if (condition_update(&retention->rows_expire, holds) != CONDITION_BEGAN) return;
    log_warn(ROLE, NULL,
             "the oldest rows of the audit log reach audit.retain, and then are removed: raise it, or keep a copy by `audit "
             "export`",
             F_STR("path", writer->path), F_INT("oldest_ms", use->oldest_ms), F_INT("retain_ms", retention->limits.retain_ms));
}

static void retention_report(audit_writer_t *writer, const audit_usage_t *use, int64_t now_ms) {
    int64_t full = retention_fullness(writer, use);
    metric_set(&writer->metrics->audit_bytes, use->bytes);
    metric_set(&writer->metrics->audit_kept_rows, use->rows);
    metric_set(&writer->metrics->audit_full_percent, full);
    metric_set(&writer->metrics->audit_oldest_ms, use->oldest_ms != INT64_MAX ? use->oldest_ms : 0);
    retention_warn_full(writer, use, full);
    retention_warn_expire(writer, use, now_ms);
}

// A reader that does not end, such as a shell with an open transaction, lets the file beside the log grow until the disk is full.
static void retention_report_pinned_wal(audit_writer_t *writer) {
    log_retention_t *retention = &writer->retention;
    mono_t now = mono_now();
    if (!mono_reached(retention->check_wal_at, now)) return;
    int64_t bytes = audit_pinned_wal_bytes(writer->audit);
    if (bytes) retention->check_wal_at = mono_add(now, CHECK_WAL_S * NS_PER_S);
    condition_change_t change = condition_update(&retention->wal_pinned, bytes > 0);
    if (change == CONDITION_BEGAN)
        log_warn(ROLE, NULL,
                 "somebody reads the audit log and does not end: until then its -wal grows; end that transaction, or the process "
                 "(`fuser` on the -wal file tells which)",
                 F_STR("path", writer->path), F_INT("wal_bytes", bytes));
    if (change == CONDITION_ENDED) log_info(ROLE, NULL, "the audit log's -wal grows no more", F_STR("path", writer->path));
}

static void retention_report_removed(audit_writer_t *writer) {
    log_retention_t *retention = &writer->retention;
    mono_t now = mono_now();
    if (retention->removed == 0 || !mono_reached(retention->report_at, now)) return;
    log_info(ROLE, NULL, "removed the oldest rows of the audit log", F_STR("path", writer->path),
             F_INT("rows", retention->removed));
    retention->removed = 0;
    retention->report_at = mono_add(now, REPORT_S * NS_PER_S);
}

// As long as the last write took, where more comes than goes.
static int64_t retention_budget_us(const audit_writer_t *writer) {
    if (!writer->retention.falling_behind || writer->transaction.took_us < STEP_US) return STEP_US;
    return writer->transaction.took_us < STEP_MAX_US ? writer->transaction.took_us : STEP_MAX_US;
}

bool audit_writer_retain(audit_writer_t *writer, int64_t now_ms, bool *more) {
    log_retention_t *retention = &writer->retention;
    buffer_t why = {0};
    audit_usage_t use;
    audit_retain_result_t done;
    mono_t now = mono_now();
    *more = false;
    if (!writer->audit || writer->transaction.open || !mono_reached(retention->next_at, now)) return true;
    if (!audit_measure(writer->audit, &use, &why)) return audit_writer_fail(writer, &why);
    retention->falling_behind = retention_fullness(writer, &use) >= FALLING_BEHIND;
    retention_report_pinned_wal(writer);
    retention->limits.latest_ms = now_ms > 0 ? now_ms + CLOCK_AHEAD_MS : 0;
    now_ms = retention_trusted_clock(writer, now_ms);
    retention_report(writer, &use, now_ms);
    // One transaction a minute for rows that grow old one by one.
    bool expire = mono_reached(retention->expire_at, now);
    if (!audit_retain(writer->audit, &retention->limits, expire ? now_ms : 0, retention_budget_us(writer), &done, &why)) {
        writer->transaction.open = true; // for the rollback
        return audit_writer_fail(writer, &why);
    }
    *more = done.more;
    retention->removed += done.removed;
    metric_add(&writer->metrics->audit_dropped, done.removed);
    retention_report_removed(writer);
    if (*more) return true;
    retention->next_at = mono_add(now, RETAIN_S * NS_PER_S);
    if (expire && now_ms > 0) retention->expire_at = retention->next_at;
    return true;
}
