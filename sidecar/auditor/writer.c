#include "auditor/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/log.h"
#include "role/role.h"

enum {
    BUSY_TIMEOUT_MS = 500, // another writer is waited for no longer than a stop may take
    CHECK_FILE_MS = 1000,
    SETTLE_MS = 1000, // a file that was written to so lately may still be on its way
    MIB = 1024 * 1024,
    SLOWEST_DISK_MIB_S = 1, // a disk that reads a log any slower counts as hanging
    SLOW_CHECK_MIB = 256,   // a log of which it is said that it is read
};

static const char ROLE[] = "auditor";

void audit_writer_init(audit_writer_t *writer, const char *path, const audit_limits_t *limits, metrics_t *metrics,
                       const atomic_bool *stop) {
    *writer = (audit_writer_t){.path = path,
                               .metrics = metrics,
                               .stop = stop,
                               .lock = audit_lock_new(path),
                               .failure.backoff = {.first_ms = 100, .most_ms = 10000},
                               .retention.limits = *limits};
}

void audit_writer_rollback(audit_writer_t *writer) {
    if (writer->transaction.open) audit_rollback(writer->audit);
    writer->transaction.open = false;
}

void audit_writer_close(audit_writer_t *writer) {
    audit_writer_rollback(writer);
    audit_close(writer->audit);
    writer->audit = NULL;
}

void audit_writer_finish(audit_writer_t *writer) {
    audit_writer_close(writer);
    audit_lock_free(writer->lock);
    free(writer->failure.reason);
    writer->lock = NULL;
    writer->failure.reason = NULL;
}

// The same trouble, whatever it was met at: what stands in the last parentheses does not count.
static bool writer_same_reason(const char *a, const char *b) {
    const char *end_a = strrchr(a, '(');
    const char *end_b = strrchr(b, '(');
    size_t len_a = end_a ? (size_t)(end_a - a) : strlen(a);
    size_t len_b = end_b ? (size_t)(end_b - b) : strlen(b);
    return len_a == len_b && strncmp(a, b, len_a) == 0;
}

bool audit_writer_fail(audit_writer_t *writer, buffer_t *why) {
    const char *reason = buffer_text(why);
    bool told = writer->failure.active && writer->failure.reason && writer_same_reason(writer->failure.reason, reason);
    if (!told && !atomic_load(writer->stop))
        log_error(ROLE, NULL, "the audit log cannot be written: nothing is copied until it can", F_STR("path", writer->path),
                  F_STR("reason", reason));
    writer->failure.active = true;
    metric_set(&writer->metrics->audit_bad, 1);
    metrics_say(writer->metrics, WHY_AUDIT, reason);
    free(writer->failure.reason);
    writer->failure.reason = mem_str(reason);
    buffer_free(why);
    if (writer->audit && audit_is_damaged(writer->audit)) writer->file.damaged = true;
    audit_writer_close(writer);
    writer->failure.retry_at = backoff_failed(&writer->failure.backoff, mono_now());
    metric_add(&writer->metrics->audit_faults, 1);
    return false;
}

static void writer_report_loss(audit_writer_t *writer) {
    const audit_loss_t *loss = audit_loss(writer->audit);
    if (!loss) return;
    metric_add(&writer->metrics->audit_lost, 1);
    log_error(ROLE, NULL,
              "the audit log was lost and a new one is begun: it is filled with what the failure streams hold; for the rest use "
              "`audit import` with the log of another instance, or sqlite3's .recover on the file that was moved aside",
              F_STR("path", writer->path), F_STR("reason", loss->reason),
              F_STR("moved_to", *loss->set_aside_as ? loss->set_aside_as : NULL));
}

// After a failure all that was committed is written to the disk once more.
static bool writer_checkpoint(audit_writer_t *writer) {
    buffer_t why = {0};
    return !writer->failure.active || audit_checkpoint(writer->audit, &why) || audit_writer_fail(writer, &why);
}

// The file is another one, or none: what is in the opened one is lost to others.
static bool writer_file_replaced(audit_writer_t *writer) {
    buffer_t why = {0};
    if (audit_is_in_place(writer->audit)) return false;
    writer->file.checked = false; // nobody has read the one that is there now
    writer->file.overwritten = audit_is_overwritten(writer->audit);
    buffer_printf(&why,
                  "audit log %s: the file was removed, replaced, emptied or written over while it was open: it is opened anew",
                  writer->path);
    audit_writer_fail(writer, &why);
    return true;
}

// Whether somebody is writing a file over the log.
static bool writer_file_changing(const audit_writer_t *writer) {
    struct stat at;
    struct timespec now;
    if (!writer->file.overwritten || stat(writer->path, &at) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return false;
    int64_t age_ms = (now.tv_sec - at.st_mtim.tv_sec) * 1000 + (now.tv_nsec - at.st_mtim.tv_nsec) / NS_PER_MS;
    return age_ms >= 0 && age_ms < SETTLE_MS;
}

// All of it is read before it is written to. Who asks for our health must not take that for a hang: it would kill us, again and
// again.
static void writer_allow_check(const audit_writer_t *writer) {
    struct stat at;
    if (stat(writer->path, &at) != 0) return;
    role_extend_tick(at.st_size / MIB / SLOWEST_DISK_MIB_S);
    if (at.st_size / MIB >= SLOW_CHECK_MIB)
        log_info(ROLE, NULL, "the audit log is checked; failures are copied when that is done", F_STR("path", writer->path),
                 F_INT("bytes", at.st_size));
}

bool audit_writer_open(audit_writer_t *writer, bool *fresh, bool *other) {
    buffer_t why = {0};
    *fresh = *other = false;
    if (writer->audit) return true;
    if (!mono_reached(writer->failure.retry_at, mono_now())) return false;
    if (writer_file_changing(writer)) {
        writer->failure.retry_at = mono_add(mono_now(), SETTLE_MS * NS_PER_MS);
        return false;
    }
    bool first = !writer->file.checked;
    if (first) writer_allow_check(writer);
    const audit_open_options_t options = {.check = first,
                                          .set_aside = writer->file.damaged,
                                          .overwritten = writer->file.overwritten,
                                          .keep_file = !first,
                                          .max_bytes = writer->retention.limits.bytes,
                                          .stop = writer->stop,
                                          .busy_timeout_ms = BUSY_TIMEOUT_MS};
    writer->audit = audit_open_locked(writer->lock, &options, &why);
    if (!writer->audit) return audit_writer_fail(writer, &why);
    buffer_free(&why); // of a damaged log that is moved aside by now
    writer->file.checked = true;
    writer->file.damaged = writer->file.overwritten = false;
    if (!writer_checkpoint(writer) || writer_file_replaced(writer))
        return false; // the first look tells later ones what they are to find
    if (first && audit_has_no_auto_vacuum(writer->audit))
        log_warn(ROLE, NULL,
                 "the audit log is of an older version and could not be written anew: its file does not shrink; make room on the "
                 "disk for a second one and restart",
                 F_STR("path", writer->path));
    writer_report_loss(writer);
    *fresh = true;
    *other = strcmp(writer->instance, audit_instance(writer->audit)) != 0;
    snprintf(writer->instance, sizeof writer->instance, "%s", audit_instance(writer->audit));
    writer->file.check_at = mono_add(mono_now(), CHECK_FILE_MS * NS_PER_MS);
    writer->retention.next_at = mono_now();
    return true;
}

void audit_writer_check_file(audit_writer_t *writer) {
    if (!writer->audit || writer->transaction.open || !mono_reached(writer->file.check_at, mono_now())) return;
    writer->file.check_at = mono_add(mono_now(), CHECK_FILE_MS * NS_PER_MS);
    writer_file_replaced(writer);
}

bool audit_writer_position(audit_writer_t *writer, const char *queue, char position[AUDIT_POSITION_SIZE]) {
    buffer_t why = {0};
    return audit_position(writer->audit, queue, position, &why) || audit_writer_fail(writer, &why);
}

bool audit_writer_begin(audit_writer_t *writer) {
    buffer_t why = {0};
    if (writer->transaction.open) return true;
    if (writer_file_replaced(writer)) return false;
    if (!audit_begin(writer->audit, &why)) return audit_writer_fail(writer, &why);
    writer->transaction.open = true;
    writer->transaction.began_at = mono_now();
    return true;
}

bool audit_writer_insert(audit_writer_t *writer, const event_t *event, bool *added) {
    buffer_t why = {0};
    return audit_insert(writer->audit, event, added, &why) || audit_writer_fail(writer, &why);
}

bool audit_writer_set_position(audit_writer_t *writer, const char *queue, const char *position) {
    buffer_t why = {0};
    return audit_set_position(writer->audit, queue, position, &why) || audit_writer_fail(writer, &why);
}

// It works: what was wrong is over.
static void writer_recovered(audit_writer_t *writer) {
    backoff_reset(&writer->failure.backoff);
    if (writer->failure.active) log_info(ROLE, NULL, "the audit log is written again", F_STR("path", writer->path));
    if (writer->failure.active) metrics_say(writer->metrics, WHY_AUDIT, NULL);
    writer->failure.active = false;
    metric_set(&writer->metrics->audit_bad, 0);
}

bool audit_writer_commit(audit_writer_t *writer) {
    buffer_t why = {0};
    if (writer_file_replaced(writer)) return false;
    if (!audit_commit(writer->audit, &why)) return audit_writer_fail(writer, &why);
    writer->transaction.open = false;
    if (writer_file_replaced(writer)) return false;
    writer_recovered(writer);
    writer->transaction.took_us = mono_diff(mono_now(), writer->transaction.began_at) / NS_PER_US;
    writer->retention.next_at = mono_now();
    return true;
}

bool audit_writer_clear_loss(audit_writer_t *writer) {
    buffer_t why = {0};
    return audit_clear_loss(writer->audit, &why) || audit_writer_fail(writer, &why);
}
