#include "auditor/writer.h"

#include <sys/stat.h>

#include "audit/kept_config.h"
#include "base/log.h"
#include "role/role.h"

enum {
    CHECK_FILE_MS = 1000,
    SETTLE_MS = 1000, // another process may still be writing a file that changed so recently
    MIB = 1024 * 1024,
    SLOW_CHECK_MIB = 256, // the check of a log above this size is logged
};

static const char ROLE[] = "auditor";

void audit_writer_init(audit_writer_t *writer, const char *path, const audit_limits_t *limits, metrics_t *metrics,
                       const atomic_bool *stop) {
    *writer = (audit_writer_t){.path = path,
                               .metrics = metrics,
                               .stop = stop,
                               .lock = audit_lock_new(path),
                               .backoff = {.first_ms = 100, .most_ms = 10000},
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
    writer->lock = NULL;
    condition_free(&writer->failure);
    condition_free(&writer->retention.scrub.fails);
    metrics_say(writer->metrics, WHY_AUDIT, writer, NULL);
}

// The last parentheses of the text name the failed call. The same failure at another call is not logged again.
static bool writer_is_new_failure(audit_writer_t *writer, const char *reason) {
    char *cause = mem_str(reason), *call = strrchr(cause, '(');
    if (call) *call = '\0';
    bool new = condition_update_reason(&writer->failure, cause) == CONDITION_BEGAN;
    free(cause);
    return new;
}

bool audit_writer_fail(audit_writer_t *writer) {
    const char *reason = buffer_text(&writer->why);
    if (writer_is_new_failure(writer, reason) && !atomic_load(writer->stop))
        log_error(ROLE, NULL, "cannot write audit log; no record is copied until a write succeeds", F_STR("path", writer->path),
                  F_STR("reason", reason));
    metric_set(&writer->metrics->audit_bad, 1);
    metrics_say(writer->metrics, WHY_AUDIT, writer, reason);
    buffer_free(&writer->why);
    if (writer->audit && audit_is_damaged(writer->audit)) writer->file.damaged = true;
    audit_writer_close(writer);
    backoff_failed(&writer->backoff, mono_now());
    metric_add(&writer->metrics->audit_faults, 1);
    return false;
}

static void writer_report_loss(audit_writer_t *writer) {
    const audit_loss_t *loss = audit_loss(writer->audit);
    if (!loss) return;
    metric_add(&writer->metrics->audit_lost, 1);
    log_error(ROLE, NULL,
              "audit log was lost; filling a new one from the failure streams (for lost rows, `audit import` the log of another "
              "instance and the file that was set aside)",
              F_STR("path", writer->path), F_STR("reason", loss->reason),
              F_STR("moved_to", *loss->set_aside_as ? loss->set_aside_as : NULL));
}

static bool writer_file_replaced(audit_writer_t *writer) {
    if (audit_is_in_place(writer->audit)) return false;
    writer->file.checked = false; // this process has not yet checked the new file
    writer->file.overwritten = audit_is_overwritten(writer->audit);
    buffer_printf(&writer->why, "audit log %s: the file was removed, replaced, emptied or overwritten while it was open",
                  writer->path);
    audit_writer_fail(writer);
    return true;
}

// Another process may still be writing a file over the log.
static bool writer_file_changing(const audit_writer_t *writer) {
    struct stat at;
    struct timespec now;
    if (!writer->file.overwritten || stat(writer->path, &at) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return false;
    int64_t age_ms = (now.tv_sec - at.st_mtim.tv_sec) * 1000 + (now.tv_nsec - at.st_mtim.tv_nsec) / NS_PER_MS;
    return age_ms >= 0 && age_ms < SETTLE_MS;
}

// The check of a whole log takes time. A health check must not mistake this time for a hang and kill the process each time.
static void writer_allow_check(const audit_writer_t *writer) {
    struct stat at;
    if (stat(writer->path, &at) != 0) return;
    role_extend_tick(at.st_size / MIB / SLOWEST_DISK_MIB_S);
    if (at.st_size / MIB >= SLOW_CHECK_MIB)
        log_info(ROLE, NULL, "checking audit log before copying", F_STR("path", writer->path), F_INT("bytes", at.st_size));
}

static bool writer_open_log(audit_writer_t *writer) {
    bool first = !writer->file.checked;
    if (first) writer_allow_check(writer);
    const audit_open_options_t options = {.check = first,
                                          .set_aside = writer->file.damaged,
                                          .overwritten = writer->file.overwritten,
                                          .keep_file = !first,
                                          .max_bytes = writer->retention.limits.bytes,
                                          .stop = writer->stop};
    writer->audit = audit_open_locked(writer->lock, &options, &writer->why);
    if (!writer->audit) return audit_writer_fail(writer);
    buffer_free(&writer->why); // it may name the damage of a log that was set aside
    writer->file.checked = true;
    writer->file.damaged = writer->file.overwritten = false;
    if (writer->failure.holds && !audit_checkpoint(writer->audit, &writer->why)) return audit_writer_fail(writer);
    if (writer_file_replaced(writer)) return false; // later checks compare the file with this first result
    if (first && audit_has_no_auto_vacuum(writer->audit))
        log_warn(ROLE, NULL,
                 "cannot rewrite audit log of an older version; its file will not shrink (make room on the disk for a second "
                 "one, and restart)",
                 F_STR("path", writer->path));
    writer_report_loss(writer);
    return true;
}

// Also when the log cannot be opened: a copy of the config before would no longer be in effect.
static void writer_keep_config(audit_writer_t *writer) {
    buffer_t why = {0};
    if (!writer->to_keep || !audit_lock_is_ours(writer->lock)) return;
    if (kept_config_write(writer->path, writer->to_keep, &why))
        writer->to_keep = NULL;
    else
        log_warn(ROLE, NULL, "cannot keep a copy of the configuration; commands fail while the file is refused",
                 F_STR("reason", buffer_text(&why)));
    buffer_free(&why);
}

bool audit_writer_open(audit_writer_t *writer) {
    mono_t now = mono_now();
    if (writer->audit) return true;
    if (!mono_reached(writer->backoff.retry_at, now)) return false;
    if (writer_file_changing(writer)) {
        writer->backoff.retry_at = mono_add(now, SETTLE_MS * NS_PER_MS);
        return false;
    }
    bool opened = writer_open_log(writer);
    writer_keep_config(writer);
    if (!opened) return false;
    writer->file.other = strcmp(writer->instance, audit_instance(writer->audit)) != 0;
    snprintf(writer->instance, sizeof writer->instance, "%s", audit_instance(writer->audit));
    writer->opened++;
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
    return audit_position(writer->audit, slice_text(queue), position, &writer->why) || audit_writer_fail(writer);
}

bool audit_writer_begin(audit_writer_t *writer) {
    if (writer->transaction.open) return true;
    if (writer_file_replaced(writer)) return false;
    if (!audit_begin(writer->audit, &writer->why)) return audit_writer_fail(writer);
    writer->transaction.open = true;
    writer->transaction.began_at = mono_now();
    return true;
}

bool audit_writer_answer_fits(audit_writer_t *writer, const event_t *event, bool *fits) {
    return audit_answer_fits(writer->audit, event, fits, &writer->why) || audit_writer_fail(writer);
}

bool audit_writer_insert(audit_writer_t *writer, const event_t *event, bool *added) {
    return audit_insert(writer->audit, event, added, &writer->why) || audit_writer_fail(writer);
}

bool audit_writer_insert_later(audit_writer_t *writer, const event_t *event) {
    return audit_insert_later(writer->audit, event, &writer->why) || audit_writer_fail(writer);
}

bool audit_writer_flush(audit_writer_t *writer) { return audit_flush(writer->audit, &writer->why) || audit_writer_fail(writer); }

bool audit_writer_set_position(audit_writer_t *writer, const char *queue, const char *position) {
    return audit_set_position(writer->audit, queue, position, &writer->why) || audit_writer_fail(writer);
}

static void writer_recovered(audit_writer_t *writer) {
    backoff_reset(&writer->backoff);
    metric_set(&writer->metrics->audit_bad, 0);
    if (condition_update_reason(&writer->failure, NULL) != CONDITION_ENDED) return;
    log_info(ROLE, NULL, "audit log is writable again", F_STR("path", writer->path));
    metrics_say(writer->metrics, WHY_AUDIT, writer, NULL);
}

bool audit_writer_commit(audit_writer_t *writer) {
    if (writer_file_replaced(writer)) return false;
    if (!audit_writer_flush(writer)) return false;
    int64_t added = audit_added(writer->audit);
    if (!audit_commit(writer->audit, &writer->why)) return audit_writer_fail(writer);
    metric_add(&writer->metrics->audit_rows, added);
    writer->transaction.open = false;
    if (writer_file_replaced(writer)) return false;
    writer_recovered(writer);
    writer->transaction.took_us = mono_diff(mono_now(), writer->transaction.began_at) / NS_PER_US;
    writer->retention.next_at = mono_now();
    return true;
}

bool audit_writer_clear_loss(audit_writer_t *writer) {
    return audit_clear_loss(writer->audit, &writer->why) || audit_writer_fail(writer);
}
