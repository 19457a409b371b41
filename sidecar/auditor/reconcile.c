// What the auditor learns by a look at the streams: gaps, streams that began anew, and what a lost log means for Redis.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auditor/internal.h"
#include "base/failpoint.h"
#include "base/log.h"

enum {
    RECONCILE_S = 60,            // between two looks at where all streams begin and end
    RECONCILE_UNREADABLE_S = 30, // the same while a stream cannot be read
};

static const char ROLE[] = "auditor";

const char *auditor_queue_name(const auditor_t *a, size_t queue) { return a->keys->queues[queue].config->name; }

void stream_id_set(stream_id_t id, const char *text) { snprintf(id, STREAM_ID_SIZE, "%s", text); }

bool auditor_back_off(auditor_t *a, const redis_error_t *error) {
    a->redis.retry_at = backoff_failed(&a->redis.backoff, mono_now());
    bool refused = strncmp(error->text, "NOPERM", 6) == 0;
    log_warn(ROLE, NULL,
             refused                           ? "redis refuses the auditor: nothing is copied"
             : error->outcome == OUTCOME_RETRY ? "redis is not ready"
                                               : "cannot reach redis",
             F_STR("reason", error->text));
    if (error->outcome == OUTCOME_DISCONNECTED) conn_close(a->redis.conn);
    if (!conn_is_open(a->redis.conn)) {
        a->read.in_flight = false;
        metric_add(&a->metrics->reconnects, 1);
    }
    return false;
}

// A gap is a row of its own: `range` are the stream ids after and up to which records may be missing. It is written once: its id
// is made of the range, and of `life`, which tells logs apart.
static bool reconcile_insert_gap(auditor_t *a, size_t queue, event_t gap, const char *from, const char *to, int64_t life,
                                 bool *added) {
    char id[EVENT_ID_SIZE];
    char *range = mem_printf("%s..%s", from, to);
    gap.kind = slice_text("gap");
    gap.dialect = slice_text(config_dialect_word(a->keys->queues[queue].config->dialect));
    gap.queue = slice_text(auditor_queue_name(a, queue));
    gap.job = slice_text(range);
    event_id(&gap, life, 0, id);
    gap.event = slice_text(id);
    bool ok = audit_writer_insert(&a->writer, &gap, added);
    if (ok && *added) {
        metric_add(&a->metrics->gaps, 1);
        metric_add(&a->metrics->audit_rows, 1);
    }
    free(range);
    return ok;
}

// What lies above the log's position and is trimmed was never here.
static bool reconcile_record_trimmed(auditor_t *a, size_t queue, const stream_look_t *look) {
    const event_t gap = {.reason = slice_text("trimmed"),
                         .error = slice_text("records after the first of these ids, up to the second, were trimmed from the "
                                             "failure stream before this log had them"),
                         .at = a->redis.now_ms};
    const char *kept = a->cursors[queue].logged_id;
    bool added;
    bool ok = reconcile_insert_gap(a, queue, gap, kept, look->trimmed, 0, &added);
    if (ok && added)
        log_warn(ROLE, auditor_queue_name(a, queue), "records were trimmed before this log had them", F_STR("after", kept),
                 F_STR("up_to", look->trimmed));
    return ok;
}

// The entry that the log ends with is gone, and not by our trim: somebody else has trimmed or deleted the stream, or Redis has
// lost it.
static bool reconcile_removed_by_others(const stream_cursor_t *cursor, const stream_look_t *look) {
    bool begun = strcmp(cursor->logged_id, STREAM_ID_NONE) != 0 && strcmp(look->first, STREAM_ID_NONE) != 0;
    return begun && stream_id_compare(look->first, cursor->logged_id) > 0 &&
           stream_id_compare(look->trimmed, cursor->logged_id) < 0;
}

// `to`: the first id that is there again.
static bool reconcile_insert_removed(auditor_t *a, size_t queue, const char *to) {
    const event_t gap = {.reason = slice_text("removed_by_others"),
                         .error =
                             slice_text("records after the first of these ids and before the second may be missing: the failure "
                                        "stream was trimmed or deleted by somebody else before this log had them"),
                         .at = a->redis.now_ms};
    const char *kept = a->cursors[queue].logged_id;
    bool added;
    if (!reconcile_insert_gap(a, queue, gap, kept, to, 0, &added)) return false;
    if (added)
        log_warn(ROLE, auditor_queue_name(a, queue),
                 "somebody else has trimmed or deleted the failure stream: records may be missing from the audit log",
                 F_STR("after", kept), F_STR("before", to));
    return true;
}

static bool reconcile_record_removed(auditor_t *a, size_t queue, const stream_look_t *look) {
    return audit_writer_begin(&a->writer) && reconcile_insert_removed(a, queue, look->first) && audit_writer_commit(&a->writer);
}

// Sixty bits of a name, so that each lost log has gap rows of its own.
static int64_t reconcile_life(const char *instance) {
    char digits[16];
    snprintf(digits, sizeof digits, "%.15s", instance);
    return (int64_t)strtoull(digits, NULL, 16);
}

// The log that was here is lost: of each queue this one holds only what the stream holds.
static bool reconcile_record_loss(auditor_t *a, const audit_loss_t *loss) {
    char *text =
        mem_printf("this log was begun anew (%s%s%s): of what happened before it holds only what the failure stream still "
                   "held. Other instances may have the rest: `audit import FILE`",
                   loss->reason, *loss->set_aside_as ? ", the old one is " : "", loss->set_aside_as);
    bool ok = audit_writer_begin(&a->writer);
    for (size_t i = 0; ok && i < a->keys->queue_count; i++) {
        stream_cursor_t *cursor = &a->cursors[i];
        const stream_look_t *look = &a->states[i];
        bool trimmed =
            stream_id_compare(look->trimmed, cursor->logged_id) > 0 && stream_id_compare(look->trimmed, look->last) <= 0;
        const event_t gap = {.reason = slice_text(loss->reason), .error = slice_text(text), .at = a->redis.now_ms};
        const char *to = trimmed ? look->trimmed : cursor->logged_id;
        bool added;
        ok = reconcile_insert_gap(a, i, gap, STREAM_ID_NONE, to, reconcile_life(a->writer.instance), &added) &&
             (!trimmed || audit_writer_set_position(&a->writer, auditor_queue_name(a, i), to));
        if (ok && trimmed) stream_id_set(cursor->logged_id, to);
    }
    free(text);
    failpoint("audit_loss_before_commit");
    return ok && audit_writer_commit(&a->writer);
}

// What Redis believes of a log that is lost, or of more than an older copy holds, would count as copies that nobody has.
static bool auditor_revoke_acks(auditor_t *a) {
    redis_error_t error;
    int64_t removed;
    const audit_loss_t *loss = audit_loss(a->writer.audit);
    if (!a->acks_unverified) return true;
    if (loss && stream_forget(a->redis.conn, a->keys, loss->instance, NULL, &removed, &error) != OUTCOME_OK)
        return auditor_back_off(a, &error);
    for (size_t i = 0; i < a->keys->queue_count; i++) stream_id_set(a->read.positions[i], a->cursors[i].logged_id);
    if (stream_forget(a->redis.conn, a->keys, a->writer.instance, (const stream_id_t *)a->read.positions, &removed, &error) !=
        OUTCOME_OK)
        return auditor_back_off(a, &error);
    if (removed > 0)
        log_warn(ROLE, NULL, "the audit log is older than what it has acknowledged: it is filled from the failure streams again",
                 F_STR("path", a->writer.path), F_INT("queues", removed));
    failpoint("audit_loss_forgotten");
    if (loss && !reconcile_record_loss(a, loss)) return false;
    failpoint("audit_loss_noted");
    if (loss && !audit_writer_clear_loss(&a->writer)) return false;
    a->acks_unverified = false;
    return true;
}

static bool reconcile_set_position(auditor_t *a, size_t queue, const char *kept) {
    if (!audit_writer_set_position(&a->writer, auditor_queue_name(a, queue), kept) || !audit_writer_commit(&a->writer))
        return false;
    stream_id_set(a->cursors[queue].logged_id, kept);
    return true;
}

// The stream ends before the log does: it was lost in part, or as a whole, and may hold other records by the same ids. So nothing
// in it counts as copied. Of one that is gone nobody knows what it had above the log's position, up to now.
static bool reconcile_restart_stream(auditor_t *a, size_t queue, const stream_look_t *look, bool trimmed) {
    stream_cursor_t *cursor = &a->cursors[queue];
    bool gone = strcmp(look->last, STREAM_ID_NONE) == 0;
    stream_id_t to;
    log_info(ROLE, auditor_queue_name(a, queue), "the failure stream began anew: it is read from its beginning",
             F_STR("was_at", cursor->logged_id), F_STR("is_at", look->last));
    stream_id_set(cursor->read_id, STREAM_ID_NONE);
    snprintf(to, sizeof to, "%lld-0", (long long)a->redis.now_ms);
    if (!audit_writer_begin(&a->writer) || (gone && !reconcile_insert_removed(a, queue, to))) return false;
    return reconcile_set_position(a, queue, trimmed ? look->trimmed : STREAM_ID_NONE);
}

// Keeps the log's position in step with the stream. False: the log refuses.
static bool reconcile_stream(auditor_t *a, size_t queue, const stream_look_t *look) {
    stream_cursor_t *cursor = &a->cursors[queue];
    // A mark above all that the stream ever had is of an earlier life.
    bool trimmed = stream_id_compare(look->trimmed, look->last) <= 0;
    if (stream_id_compare(look->last, cursor->logged_id) < 0) return reconcile_restart_stream(a, queue, look, trimmed);
    if (trimmed && stream_id_compare(look->trimmed, cursor->logged_id) > 0)
        return audit_writer_begin(&a->writer) && reconcile_record_trimmed(a, queue, look) &&
               reconcile_set_position(a, queue, look->trimmed);
    return !reconcile_removed_by_others(cursor, look) || reconcile_record_removed(a, queue, look);
}

bool auditor_reconcile(auditor_t *a, bool *found) {
    redis_error_t error;
    bool held = false;
    if (stream_look(a->redis.conn, a->keys, a->states, &a->redis.now_ms, &error) != OUTCOME_OK)
        return auditor_back_off(a, &error);
    a->redis.now_at = mono_now();
    if (!auditor_revoke_acks(a)) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        stream_cursor_t *cursor = &a->cursors[i];
        const stream_look_t *of = &a->states[i];
        bool was = cursor->unreadable;
        cursor->unreadable = *of->error != '\0';
        held = held || cursor->unreadable;
        if (cursor->unreadable && !was) {
            log_error(ROLE, auditor_queue_name(a, i), "the failure stream cannot be read: it is left out",
                      F_STR("reason", of->error));
            metric_add(&a->metrics->audit_faults, 1);
            if (found) *found = true;
        }
        if (cursor->unreadable) continue;
        if (was) log_info(ROLE, auditor_queue_name(a, i), "the failure stream can be read again");
        cursor->growth_left = of->bytes > stream_room(a->keys) ? -1 : a->keys->config->stream.min_records - of->length;
        if (!reconcile_stream(a, i, of)) return false;
        cursor->behind = stream_id_compare(of->last, cursor->read_id) > 0;
    }
    a->timers.reconcile_at = mono_add(a->redis.now_at, (held ? RECONCILE_UNREADABLE_S : RECONCILE_S) * NS_PER_S);
    return true;
}
