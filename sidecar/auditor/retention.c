// The part of the audit writer that keeps the log within its limits, and warns before rows are removed.

#include "auditor/writer.h"
#include "base/log.h"
#include "role/role.h"

enum {
    CLOCK_AHEAD_MS = 60000, // a row further ahead of Redis's clock was written before the clock went back
    RETAIN_S = 60,          // time between two checks of the limits while no row is written
    SCRUB_REST_S = 5,       // a rewrite of the log waits until no erasure has come for so long
    SCRUB_LATEST_S = 300,   // but not longer than this
    SCRUB_AGAIN_S = 1,      // time between two attempts while another process needs the -wal file
    MIB = 1024 * 1024,
    CHECK_WAL_S = 30,      // time between two checks whether a reader still pins the -wal file
    REPORT_S = 60,         // time between two reports of removed rows
    STEP_US = 4000,        // duration of one step
    STEP_MAX_US = 60000,   // duration of one step while retention falls behind
    FALLING_BEHIND = 105,  // percent of a limit at which retention falls behind
    SHRINK_SHARE = 4,      // then it may take so many times as long as the transactions since, before the next one
    NEARLY_FULL = 90,      // percent of a limit or of the age at which the warning comes
    NEARLY_FULL_ENDS = 80, // percent below which the warning may come again
};

static const char ROLE[] = "auditor";
static const int64_t CLOCKS_APART_MAX_MS = INT64_C(24) * 3600 * 1000;

static int64_t retention_percent(int64_t of, int64_t limit) {
    return limit > 0 ? (int64_t)((double)of * 100 / (double)limit) : 0;
}

static int64_t retention_fullness(const log_retention_t *retention, const audit_usage_t *usage) {
    int64_t rows = retention_percent(usage->rows, retention->limits.rows);
    int64_t bytes = retention_percent(usage->used_bytes, retention->limits.bytes);
    return rows > bytes ? rows : bytes;
}

bool audit_writer_clocks_agree(const audit_writer_t *writer, int64_t redis_ms) {
    int64_t max_ms = writer->retention.limits.retain_ms / 2;
    if (max_ms > CLOCKS_APART_MAX_MS) max_ms = CLOCKS_APART_MAX_MS;
    return llabs(redis_ms - (int64_t)time(NULL) * 1000) <= max_ms;
}

// Returns Redis's time, or 0 (unknown) while the clocks disagree: one of the clocks is wrong, and a removed row cannot be
// restored.
static int64_t retention_trusted_clock(audit_writer_t *writer, int64_t redis_ms) {
    bool apart = redis_ms > 0 && !audit_writer_clocks_agree(writer, redis_ms);
    if (condition_update(&writer->retention.clocks_apart, apart) == CONDITION_BEGAN)
        log_warn(ROLE, NULL, "clocks of redis and this machine are too far apart; no rows expire until they agree",
                 F_INT("redis_ms", redis_ms), F_INT("local_ms", (int64_t)time(NULL) * 1000));
    return apart ? 0 : redis_ms;
}

static void retention_warn_full(audit_writer_t *writer, const audit_usage_t *usage, int64_t full) {
    log_retention_t *retention = &writer->retention;
    bool holds = full >= (retention->nearly_full.holds ? NEARLY_FULL_ENDS : NEARLY_FULL);
    if (condition_update(&retention->nearly_full, holds) != CONDITION_BEGAN) return;
    log_warn(
        ROLE, NULL,
        "audit log is nearly full; its oldest rows will be removed (raise audit.retain_rows or audit.retain_bytes, or keep a "
        "copy with `audit export`)",
        F_STR("path", writer->path), F_INT("rows", usage->rows), F_INT("retain_rows", retention->limits.rows),
        F_INT("bytes", usage->used_bytes), F_INT("retain_bytes", retention->limits.bytes));
}

// Once rows expire, further rows expire all the time. So warn once.
static void retention_warn_expire(audit_writer_t *writer, const audit_usage_t *usage, int64_t now_ms) {
    log_retention_t *retention = &writer->retention;
    int64_t age_ms = now_ms > 0 && usage->oldest_ms != INT64_MAX ? now_ms - usage->oldest_ms : 0;
    bool holds = retention->rows_expire.holds || retention_percent(age_ms, retention->limits.retain_ms) >= NEARLY_FULL;
    if (condition_update(&retention->rows_expire, holds) != CONDITION_BEGAN) return;
    log_warn(ROLE, NULL,
             "oldest rows of the audit log reach audit.retain and will be removed (raise it, or keep a copy with `audit export`)",
             F_STR("path", writer->path), F_INT("oldest_ms", usage->oldest_ms), F_INT("retain_ms", retention->limits.retain_ms));
}

// A reader may never end, such as a shell with an open transaction. Then the -wal file grows until the disk is full.
static void retention_warn_pinned_wal(audit_writer_t *writer) {
    log_retention_t *retention = &writer->retention;
    mono_t now = mono_now();
    if (!mono_reached(retention->check_wal_at, now)) return;
    int64_t bytes = audit_pinned_wal_bytes(writer->audit);
    if (bytes) retention->check_wal_at = mono_add(now, CHECK_WAL_S * NS_PER_S);
    condition_change_t change = condition_update(&retention->wal_pinned, bytes > 0);
    if (change == CONDITION_BEGAN)
        log_warn(ROLE, NULL,
                 "a reader lets the -wal file of the audit log grow; end the reader's transaction or process (`fuser` on that "
                 "file finds the process)",
                 F_STR("path", writer->path), F_INT("wal_bytes", bytes));
    if (change == CONDITION_ENDED)
        log_info(ROLE, NULL, "-wal file of the audit log has stopped growing", F_STR("path", writer->path));
}

static void retention_report(audit_writer_t *writer, const audit_usage_t *usage, int64_t now_ms) {
    int64_t full = retention_fullness(&writer->retention, usage);
    writer->retention.falling_behind = full >= FALLING_BEHIND;
    metric_set(&writer->metrics->audit_bytes, usage->bytes);
    metric_set(&writer->metrics->audit_kept_rows, usage->rows);
    metric_set(&writer->metrics->audit_full_percent, full);
    metric_set(&writer->metrics->audit_oldest_ms, usage->oldest_ms != INT64_MAX ? usage->oldest_ms : 0);
    retention_warn_pinned_wal(writer);
    retention_warn_full(writer, usage, full);
    retention_warn_expire(writer, usage, now_ms);
}

static void retention_report_removed(audit_writer_t *writer, int64_t removed) {
    log_retention_t *retention = &writer->retention;
    mono_t now = mono_now();
    retention->removed += removed;
    metric_add(&writer->metrics->audit_dropped, removed);
    if (retention->removed == 0 || !mono_reached(retention->report_at, now)) return;
    log_info(ROLE, NULL, "removed the oldest rows of the audit log", F_STR("path", writer->path),
             F_INT("rows", retention->removed));
    retention->removed = 0;
    retention->report_at = mono_add(now, REPORT_S * NS_PER_S);
}

// While retention falls behind, a step lasts as long as the last transaction.
static int64_t retention_budget_us(const audit_writer_t *writer) {
    int64_t took_us = writer->transaction.took_us;
    if (!writer->retention.falling_behind || took_us < STEP_US) return STEP_US;
    return took_us < STEP_MAX_US ? took_us : STEP_MAX_US;
}

static void retention_report_scrub(audit_writer_t *writer, audit_scrub_t result, int64_t bytes, int64_t took_ms) {
    log_scrub_t *scrub = &writer->retention.scrub;
    if (result == AUDIT_SCRUBBED)
        log_info(ROLE, NULL, "rewrote audit log; nothing of the erased texts is left in it", F_STR("path", writer->path),
                 F_INT("erasures", scrub->erasures), F_INT("bytes", bytes), F_INT("took_ms", took_ms));
    if (condition_update(&scrub->waits, result == AUDIT_SCRUB_LATER && !atomic_load(writer->stop)) == CONDITION_BEGAN)
        log_info(ROLE, NULL, "erased texts stay in the files of the audit log until no other process reads or writes it",
                 F_STR("path", writer->path));
    const char *reason = result == AUDIT_SCRUB_FAILED ? buffer_text(&writer->why) : NULL;
    if (condition_update_reason(&scrub->fails, reason) == CONDITION_BEGAN)
        log_warn(ROLE, NULL, "cannot rewrite audit log; parts of erased texts may stay in its file", F_STR("path", writer->path),
                 F_STR("reason", reason));
    buffer_free(&writer->why);
}

// A large log takes seconds. A health check must not mistake them for a hang.
static bool retention_rewrite(audit_writer_t *writer, int64_t bytes) {
    log_scrub_t *scrub = &writer->retention.scrub;
    mono_t began = mono_now();
    role_extend_tick(3 * bytes / MIB / SLOWEST_DISK_MIB_S); // each byte is written three times
    audit_scrub_t result = audit_scrub(writer->audit, &writer->why);
    if (result == AUDIT_SCRUB_FAILED && audit_is_damaged(writer->audit)) return audit_writer_fail(writer);
    audit_release_memory(writer->audit);
    mono_t now = mono_now();
    retention_report_scrub(writer, result, bytes, mono_diff(now, began) / NS_PER_MS);
    scrub->at = scrub->latest_at = mono_add(now, (result == AUDIT_SCRUB_LATER ? SCRUB_AGAIN_S : RETAIN_S) * NS_PER_S);
    if (result == AUDIT_SCRUBBED) scrub->erasures = 0;
    return true;
}

// A rewrite stops the copying of records, which wait in their streams. So make one for erasures that come together.
static bool retention_scrub(audit_writer_t *writer, int64_t bytes) {
    log_scrub_t *scrub = &writer->retention.scrub;
    mono_t now = mono_now();
    int64_t erasures;
    if (!audit_count_unscrubbed(writer->audit, &erasures, &writer->why)) return audit_writer_fail(writer);
    if (erasures != scrub->erasures) {
        if (scrub->erasures == 0) scrub->latest_at = mono_add(now, SCRUB_LATEST_S * NS_PER_S);
        scrub->at = mono_min(mono_add(now, SCRUB_REST_S * NS_PER_S), scrub->latest_at);
        scrub->erasures = erasures;
    }
    return erasures == 0 || !mono_reached(scrub->at, now) || retention_rewrite(writer, bytes);
}

void audit_writer_note_added(audit_writer_t *writer) {
    audit_usage_t usage;
    if (!audit_measure(writer->audit, &usage, &writer->why)) {
        audit_writer_fail(writer);
        return;
    }
    writer->retention.falling_behind = retention_fullness(&writer->retention, &usage) >= FALLING_BEHIND;
    writer->retention.owed_us += writer->transaction.took_us;
}

bool audit_writer_must_shrink(const audit_writer_t *writer) {
    return writer->audit && writer->retention.falling_behind && writer->retention.owed_us > 0;
}

bool audit_writer_retain(audit_writer_t *writer, int64_t now_ms) {
    log_retention_t *retention = &writer->retention;
    audit_usage_t usage;
    audit_retain_result_t result;
    mono_t now = mono_now();
    if (!writer->audit || writer->transaction.open || !mono_reached(retention->next_at, now)) return false;
    if (!audit_measure(writer->audit, &usage, &writer->why)) return audit_writer_fail(writer);
    if (!retention_scrub(writer, usage.used_bytes)) return false;
    retention->limits.latest_ms = now_ms > 0 ? now_ms + CLOCK_AHEAD_MS : 0;
    now_ms = retention_trusted_clock(writer, now_ms);
    retention_report(writer, &usage, now_ms);
    // Rows expire one by one. Remove them in one transaction a minute.
    bool expire = mono_reached(retention->expire_at, now);
    if (!audit_retain(writer->audit, &retention->limits, expire ? now_ms : 0, retention_budget_us(writer), &result,
                      &writer->why)) {
        writer->transaction.open = true; // audit_writer_fail rolls back only an open transaction
        return audit_writer_fail(writer);
    }
    retention->owed_us = result.more ? retention->owed_us - mono_diff(mono_now(), now) / NS_PER_US / SHRINK_SHARE : 0;
    retention_report_removed(writer, result.removed);
    if (result.more) return true;
    retention->next_at = mono_add(now, RETAIN_S * NS_PER_S);
    if (retention->scrub.erasures) retention->next_at = mono_min(retention->next_at, retention->scrub.at);
    if (expire && now_ms > 0) retention->expire_at = mono_add(now, RETAIN_S * NS_PER_S);
    return false;
}
