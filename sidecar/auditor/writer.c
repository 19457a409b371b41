#include "auditor/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/log.h"
#include "role/role.h"

enum {
    PATIENCE_MS = 500, // another writer is waited for no longer than a stop may take
    WATCH_MS = 1000,
    STILL_MS = 1000, // a file that was written to so lately may still be on its way
    MIB = 1024 * 1024,
    SLOWEST_MIB_S = 1, // a disk that reads a log any slower counts as hanging
    LARGE_MIB = 256,   // a log of which it is said that it is read
};

static const char ROLE[] = "auditor";

void pen_init(pen_t *pen, const char *path, const audit_limits_t *limits, metrics_t *metrics, const atomic_bool *stop) {
    *pen = (pen_t){.path = path,
                   .limits = *limits,
                   .metrics = metrics,
                   .stop = stop,
                   .lock = audit_lock_new(path),
                   .backoff = {.first_ms = 100, .most_ms = 10000}};
}

void pen_rollback(pen_t *pen) {
    if (pen->writing) audit_rollback(pen->audit);
    pen->writing = false;
}

void pen_close(pen_t *pen) {
    pen_rollback(pen);
    audit_close(pen->audit);
    pen->audit = NULL;
}

void pen_end(pen_t *pen) {
    pen_close(pen);
    audit_lock_free(pen->lock);
    free(pen->reason);
    pen->lock = NULL;
    pen->reason = NULL;
}

// The same trouble, whatever it was met at: what stands in the last parentheses does not count.
static bool same(const char *a, const char *b) {
    const char *end_a = strrchr(a, '(');
    const char *end_b = strrchr(b, '(');
    size_t len_a = end_a ? (size_t)(end_a - a) : strlen(a);
    size_t len_b = end_b ? (size_t)(end_b - b) : strlen(b);
    return len_a == len_b && strncmp(a, b, len_a) == 0;
}

bool pen_fail(pen_t *pen, buffer_t *why) {
    const char *reason = buffer_text(why);
    bool told = pen->failed && pen->reason && same(pen->reason, reason);
    if (!told && !atomic_load(pen->stop))
        log_error(ROLE, NULL, "the audit log cannot be written: nothing is copied until it can", F_STR("path", pen->path),
                  F_STR("reason", reason));
    pen->failed = true;
    metric_set(&pen->metrics->audit_bad, 1);
    metrics_say(pen->metrics, WHY_AUDIT, reason);
    free(pen->reason);
    pen->reason = mem_str(reason);
    buffer_free(why);
    if (pen->audit && audit_is_damaged(pen->audit)) pen->damaged = true;
    pen_close(pen);
    pen->retry_at = mono_add(mono_now(), backoff_next_ns(&pen->backoff));
    metric_add(&pen->metrics->audit_faults, 1);
    return false;
}

static void say_loss(pen_t *pen) {
    const audit_loss_t *loss = audit_loss(pen->audit);
    if (!loss) return;
    metric_add(&pen->metrics->audit_lost, 1);
    log_error(ROLE, NULL,
              "the audit log was lost and a new one is begun: it is filled with what the failure streams hold; for the rest use "
              "`audit import` with the log of another instance, or sqlite3's .recover on the file that was moved aside",
              F_STR("path", pen->path), F_STR("reason", loss->reason), F_STR("moved_to", *loss->aside ? loss->aside : NULL));
}

// After a failure all that was committed is written to the disk once more.
static bool merge(pen_t *pen) {
    buffer_t why = {0};
    return !pen->failed || audit_merge(pen->audit, &why) || pen_fail(pen, &why);
}

// The file is another one, or none: what is in the opened one is lost to others.
static bool gone(pen_t *pen) {
    buffer_t why = {0};
    if (audit_is_in_place(pen->audit)) return false;
    pen->checked = false; // nobody has read the one that is there now
    pen->overwritten = audit_is_overwritten(pen->audit);
    buffer_printf(&why,
                  "audit log %s: the file was removed, replaced, emptied or written over while it was open: it is opened anew",
                  pen->path);
    pen_fail(pen, &why);
    return true;
}

// Whether somebody is writing a file over the log.
static bool still_comes(const pen_t *pen) {
    struct stat at;
    struct timespec now;
    if (!pen->overwritten || stat(pen->path, &at) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return false;
    int64_t age_ms = (now.tv_sec - at.st_mtim.tv_sec) * 1000 + (now.tv_nsec - at.st_mtim.tv_nsec) / NS_PER_MS;
    return age_ms >= 0 && age_ms < STILL_MS;
}

// All of it is read before it is written to. Who asks for our health must not take that for a hang: it would kill us, again and
// again.
static void expect_check(const pen_t *pen) {
    struct stat at;
    if (stat(pen->path, &at) != 0) return;
    role_allow(at.st_size / MIB / SLOWEST_MIB_S);
    if (at.st_size / MIB >= LARGE_MIB)
        log_info(ROLE, NULL, "the audit log is checked; failures are copied when that is done", F_STR("path", pen->path),
                 F_INT("bytes", at.st_size));
}

bool pen_open(pen_t *pen, bool *fresh, bool *other) {
    buffer_t why = {0};
    *fresh = *other = false;
    if (pen->audit) return true;
    if (!mono_reached(pen->retry_at, mono_now())) return false;
    if (still_comes(pen)) {
        pen->retry_at = mono_add(mono_now(), STILL_MS * NS_PER_MS);
        return false;
    }
    bool first = !pen->checked;
    if (first) expect_check(pen);
    const audit_care_t care = {.check = first,
                               .aside = pen->damaged,
                               .overwritten = pen->overwritten,
                               .as_it_is = !first,
                               .most_bytes = pen->limits.bytes,
                               .stop = pen->stop,
                               .patience_ms = PATIENCE_MS};
    pen->audit = audit_open_own(pen->lock, &care, &why);
    if (!pen->audit) return pen_fail(pen, &why);
    buffer_free(&why); // of a damaged log that is moved aside by now
    pen->checked = true;
    pen->damaged = pen->overwritten = false;
    if (!merge(pen) || gone(pen)) return false; // the first look tells later ones what they are to find
    if (first && audit_is_stiff(pen->audit))
        log_warn(ROLE, NULL,
                 "the audit log is of an older version and could not be written anew: its file does not shrink; make room on the "
                 "disk for a second one and restart",
                 F_STR("path", pen->path));
    say_loss(pen);
    *fresh = true;
    *other = strcmp(pen->instance, audit_instance(pen->audit)) != 0;
    snprintf(pen->instance, sizeof pen->instance, "%s", audit_instance(pen->audit));
    pen->watch_at = mono_add(mono_now(), WATCH_MS * NS_PER_MS);
    pen->retain_at = mono_now();
    return true;
}

void pen_watch(pen_t *pen) {
    if (!pen->audit || pen->writing || !mono_reached(pen->watch_at, mono_now())) return;
    pen->watch_at = mono_add(mono_now(), WATCH_MS * NS_PER_MS);
    gone(pen);
}

bool pen_position(pen_t *pen, const char *queue, char position[AUDIT_POSITION_SIZE]) {
    buffer_t why = {0};
    return audit_position(pen->audit, queue, position, &why) || pen_fail(pen, &why);
}

bool pen_begin(pen_t *pen) {
    buffer_t why = {0};
    if (pen->writing) return true;
    if (gone(pen)) return false;
    if (!audit_begin(pen->audit, &why)) return pen_fail(pen, &why);
    pen->writing = true;
    pen->began_at = mono_now();
    return true;
}

bool pen_put(pen_t *pen, const event_t *event, bool *added) {
    buffer_t why = {0};
    return audit_put(pen->audit, event, added, &why) || pen_fail(pen, &why);
}

bool pen_move(pen_t *pen, const char *queue, const char *position) {
    buffer_t why = {0};
    return audit_move(pen->audit, queue, position, &why) || pen_fail(pen, &why);
}

// It works: what was wrong is over.
static void well(pen_t *pen) {
    backoff_reset(&pen->backoff);
    if (pen->failed) log_info(ROLE, NULL, "the audit log is written again", F_STR("path", pen->path));
    if (pen->failed) metrics_say(pen->metrics, WHY_AUDIT, NULL);
    pen->failed = false;
    metric_set(&pen->metrics->audit_bad, 0);
}

bool pen_commit(pen_t *pen) {
    buffer_t why = {0};
    if (gone(pen)) return false;
    if (!audit_commit(pen->audit, &why)) return pen_fail(pen, &why);
    pen->writing = false;
    if (gone(pen)) return false;
    well(pen);
    pen->write_us = mono_diff(mono_now(), pen->began_at) / NS_PER_US;
    pen->retain_at = mono_now();
    return true;
}

bool pen_settle_loss(pen_t *pen) {
    buffer_t why = {0};
    return audit_loss_settled(pen->audit, &why) || pen_fail(pen, &why);
}
