// The pen's part that keeps the log within its limits, and says so before anything is removed.
#include <stdlib.h>
#include <time.h>

#include "auditor/writer.h"
#include "base/log.h"

enum {
    AHEAD_MS = 60000,     // a row that is newer than Redis's clock by more was written before the clock went back
    LOOK_S = 60,          // between two looks at the limits while nothing is written
    PIN_S = 30,           // between two looks at whether a reader has ended
    SAY_S = 60,           // between two words on what was removed
    STEP_US = 4000,       // work of one step
    STEP_MOST_US = 60000, // the same while more comes in than goes out
    PRESSED = 105,        // percent of a limit at which it does
    FULL = 90,            // percent of a limit, or of the age, at which a warning is due
    FULL_OVER = 80,       // and below which it will be due again
};

static const char ROLE[] = "auditor";
static const int64_t CLOCKS_APART_MS = INT64_C(24) * 3600 * 1000;

static int64_t percent(int64_t of, int64_t limit) { return limit > 0 ? (int64_t)((double)of * 100 / (double)limit) : 0; }

static int64_t fullness(const pen_t *pen, const audit_use_t *use) {
    int64_t rows = percent(use->rows, pen->limits.rows);
    int64_t bytes = percent(use->kept, pen->limits.bytes);
    return rows > bytes ? rows : bytes;
}

bool pen_clocks_agree(const pen_t *pen, int64_t redis_ms) {
    int64_t most_ms = pen->limits.retain_ms / 2 < CLOCKS_APART_MS ? pen->limits.retain_ms / 2 : CLOCKS_APART_MS;
    return llabs(redis_ms - (int64_t)time(NULL) * 1000) <= most_ms;
}

// Nothing is removed for its age while Redis's clock and this machine's are too far apart: one of them was set wrong, and what it
// would remove is gone for good. 0 = unknown.
static int64_t trusted(pen_t *pen, int64_t now_ms) {
    int64_t here_ms = (int64_t)time(NULL) * 1000;
    bool apart = now_ms > 0 && !pen_clocks_agree(pen, now_ms);
    if (apart && !pen->warned_clock)
        log_warn(
            ROLE, NULL,
            "the clocks of Redis and of this machine are too far apart: no row is removed from the audit log for its age until "
            "they agree",
            F_INT("redis_ms", now_ms), F_INT("here_ms", here_ms));
    pen->warned_clock = apart;
    return apart ? 0 : now_ms;
}

static void warn(pen_t *pen, const audit_use_t *use, int64_t now_ms) {
    int64_t full = fullness(pen, use);
    int64_t age_ms = now_ms > 0 && use->oldest_ms != INT64_MAX ? now_ms - use->oldest_ms : 0;
    metric_set(&pen->metrics->audit_bytes, use->bytes);
    metric_set(&pen->metrics->audit_kept_rows, use->rows);
    metric_set(&pen->metrics->audit_full_percent, full);
    metric_set(&pen->metrics->audit_oldest_ms, use->oldest_ms != INT64_MAX ? use->oldest_ms : 0);
    if (full >= FULL && !pen->warned_full)
        log_warn(
            ROLE, NULL,
            "the audit log is nearly full, then its oldest rows are removed: raise audit.retain_rows or audit.retain_bytes, or "
            "keep a copy by `audit export`",
            F_STR("path", pen->path), F_INT("rows", use->rows), F_INT("retain_rows", pen->limits.rows), F_INT("bytes", use->kept),
            F_INT("retain_bytes", pen->limits.bytes));
    if (full >= FULL) pen->warned_full = true;
    if (full < FULL_OVER) pen->warned_full = false;
    if (pen->limits.retain_ms > 0 && percent(age_ms, pen->limits.retain_ms) >= FULL && !pen->warned_age) {
        pen->warned_age = true;
        log_warn(ROLE, NULL,
                 "the oldest rows of the audit log reach audit.retain, and then are removed: raise it, or keep a copy by `audit "
                 "export`",
                 F_STR("path", pen->path), F_INT("oldest_ms", use->oldest_ms), F_INT("retain_ms", pen->limits.retain_ms));
    }
}

// A reader that does not end, such as a shell with an open transaction, lets the file beside the log grow until the disk is full.
static void warn_pinned(pen_t *pen) {
    mono_t now = mono_now();
    if (!mono_reached(pen->pin_at, now)) return;
    int64_t bytes = audit_pinned(pen->audit);
    if (bytes && !pen->warned_pin)
        log_warn(ROLE, NULL,
                 "somebody reads the audit log and does not end: until then its -wal grows; end that transaction, or the process "
                 "(`fuser` on the -wal file tells which)",
                 F_STR("path", pen->path), F_INT("wal_bytes", bytes));
    if (!bytes && pen->warned_pin) log_info(ROLE, NULL, "the audit log's -wal grows no more", F_STR("path", pen->path));
    if (bytes) pen->pin_at = mono_add(now, PIN_S * NS_PER_S);
    pen->warned_pin = bytes > 0;
}

static void say_dropped(pen_t *pen) {
    mono_t now = mono_now();
    if (pen->dropped == 0 || !mono_reached(pen->say_at, now)) return;
    log_info(ROLE, NULL, "removed the oldest rows of the audit log", F_STR("path", pen->path), F_INT("rows", pen->dropped));
    pen->dropped = 0;
    pen->say_at = mono_add(now, SAY_S * NS_PER_S);
}

// As long as the last write took, where more comes than goes.
static int64_t budget_us(const pen_t *pen) {
    if (!pen->pressed || pen->write_us < STEP_US) return STEP_US;
    return pen->write_us < STEP_MOST_US ? pen->write_us : STEP_MOST_US;
}

bool pen_retain(pen_t *pen, int64_t now_ms, bool *more) {
    buffer_t why = {0};
    audit_use_t use;
    audit_retained_t done;
    mono_t now = mono_now();
    *more = false;
    if (!pen->audit || pen->writing || !mono_reached(pen->retain_at, now)) return true;
    if (!audit_use(pen->audit, &use, &why)) return pen_fail(pen, &why);
    pen->pressed = fullness(pen, &use) >= PRESSED;
    warn_pinned(pen);
    pen->limits.latest_ms = now_ms > 0 ? now_ms + AHEAD_MS : 0;
    now_ms = trusted(pen, now_ms);
    warn(pen, &use, now_ms);
    // One transaction a minute for rows that grow old one by one.
    bool expire = mono_reached(pen->expire_at, now);
    if (!audit_retain(pen->audit, &pen->limits, expire ? now_ms : 0, budget_us(pen), &done, &why)) {
        pen->writing = true; // for the rollback
        return pen_fail(pen, &why);
    }
    *more = done.more;
    pen->dropped += done.dropped;
    metric_add(&pen->metrics->audit_dropped, done.dropped);
    say_dropped(pen);
    if (*more) return true;
    pen->retain_at = mono_add(now, LOOK_S * NS_PER_S);
    if (expire && now_ms > 0) pen->expire_at = pen->retain_at;
    return true;
}
