// Acknowledges copied records, trims records that enough auditors have, and prunes requeue markers.
//
// The leader's auditor trims. An urgent trim follows each reply that leaves a stream above stream_room. So a storm fills a stream
// only if records come faster than enough auditors copy them. While Redis is nearly full every trim is urgent, and there is no
// room.

#include "auditor/internal.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "dialects/requeue.h"
#include "redis/reply.h"

enum {
    RENEW_ACKS_S = 3600,    // time between two acknowledgements of the same position
    AUDITORS_S = 3600,      // time between two trims of a stream from which no entry can be removed; they remove auditors
    TRIM_S = 60,            // time between two trims of a stream
    TRIM_UNCOPIED_S = 300,  // time between two trims while other auditors have yet to copy the stream
    TRIM_STANDBY_S = 5,     // a standby looks so often whether it leads, while a stream is above stream_room
    TRIM_BURST_MS = 100,    // longest series of trims of one stream, unless the last transactions had more records
    EARLY_S = 3600,         // after so long without an early trim, the next one is logged again
    MARKERS_S = 3600,       // time between two rounds of pruning requeue markers
    MARKERS_STEP_MS = 1000, // time between two steps in one hash; a million markers take half an hour
    MEMORY_S = 10,          // time between two looks at Redis's memory, while streams could give back
    MEMORY_LEAST = 1 << 20, // this many bytes;
    MEMORY_SOON_S = 1,      // while Redis is nearly full, or after new records
    MEMORY_TIGHT = 90,      // of maxmemory: Redis is nearly full
    MEMORY_ENOUGH = 85,     // until it is below this
};

static const char ROLE[] = "auditor";

static bool trim_renew_acks(auditor_t *a) {
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        const stream_cursor_t *cursor = &a->cursors[i];
        bool known = strcmp(cursor->read_id, STREAM_ID_NONE) != 0 && !cursor->unreadable;
        stream_id_set(a->read.positions[i], known ? cursor->read_id : "");
    }
    a->timers.renew_acks_at = mono_add(mono_now(), RENEW_ACKS_S * NS_PER_S);
    return auditor_acknowledge(a, (const stream_id_t *)a->read.positions);
}

static int64_t trim_held_bytes(const auditor_t *a, size_t queue) { return stream_room(a->keys) - a->cursors[queue].room_left; }

static bool trim_is_urgent(const auditor_t *a, size_t queue) {
    const stream_cursor_t *cursor = &a->cursors[queue];
    return cursor->room_left < 0 || cursor->shrinking || (a->redis.full && trim_held_bytes(a, queue) > 0);
}

// Whether this instance leads and a trim may remove entries. Before this auditor has copied an entry, the other auditors have
// seldom copied one either, so a trim would be useless.
static bool trim_is_possible(auditor_t *a, size_t queue, lease_t *lease) {
    const stream_cursor_t *cursor = &a->cursors[queue];
    bool due = cursor->growth_left < 0 || cursor->prune_auditors || trim_is_urgent(a, queue);
    return due && strcmp(cursor->read_id, STREAM_ID_NONE) != 0 && !cursor->unreadable &&
           lease_get(a->leases, a->keys->queues[queue].lock, lease);
}

static mono_t trim_due_at(const auditor_t *a, size_t queue) {
    const stream_cursor_t *cursor = &a->cursors[queue];
    return trim_is_urgent(a, queue) ? mono_min(cursor->trim_at, cursor->urgent.retry_at) : cursor->trim_at;
}

// Sends short trims, one after the other, so that other clients of Redis have their turn between two. *done is the
// last answer, with the sums of all.
static outcome_t trim_burst(auditor_t *a, const call_t *call, stream_trimmed_t *done) {
    stream_cursor_t *cursor = &a->cursors[call->queue];
    const bool urgent = trim_is_urgent(a, call->queue);
    const int64_t room = a->redis.full ? 0 : urgent ? stream_room_low(a->keys) : stream_room(a->keys);
    const int64_t slice_us = a->keys->config->redis.slice_us / AUDITOR_SHARE;
    int64_t removed = 0, early = 0;
    mono_t end = mono_add(mono_now(), TRIM_BURST_MS * NS_PER_MS);
    outcome_t outcome;
    bool more, late;
    do {
        failpoint("trim_before");
        outcome = stream_trim(call, room, pace_jobs(&a->trim_pace, slice_us, STREAM_TRIM_FIRST, STREAM_TRIM_MAX), done);
        if (done->removed > 0) pace_note_fixed(&a->trim_pace, done->fixed_us);
        pace_note(&a->trim_pace, done->removed, done->took_us - done->fixed_us);
        more = (done->removed > 0 && done->wait_ms == 0) || done->crowded;
        done->removed = removed += done->removed;
        done->early = early += done->early;
        // Twice the last transaction, or copied records that were there before stay, and fill the stream in a storm.
        late = mono_reached(end, mono_now()) && (done->crowded || removed >= 2 * a->committed);
        failpoint("trim_answered");
    } while (outcome == OUTCOME_OK && more && !late && !atomic_load(a->stop));
    cursor->shrinking = urgent && more && !a->redis.full;
    if (outcome == OUTCOME_OK) cursor->prune_auditors = done->crowded;
    return outcome;
}

static void trim_report_early(auditor_t *a, size_t queue, const stream_trimmed_t *done) {
    stream_cursor_t *cursor = &a->cursors[queue];
    mono_t now = mono_now();
    bool news = !cursor->early_at.ns || mono_diff(now, cursor->early_at) > EARLY_S * NS_PER_S;
    if (done->early == 0) return;
    cursor->early_at = now;
    metric_add(&metrics_queue(a->metrics, auditor_queue_name(a, queue))->trimmed_early, done->early);
    if (news)
        log_warn(ROLE, auditor_queue_name(a, queue),
                 a->redis.full
                     ? "trimming copied records before stream.retain; redis is nearly full"
                     : "trimming copied records before stream.retain; the failure stream is above half of stream.max_bytes",
                 F_INT("max_bytes", a->keys->config->stream.max_bytes), F_INT("min_copies", a->keys->config->stream.min_copies));
}

bool auditor_leads(auditor_t *a) {
    lease_t lease;
    for (size_t i = 0; i < a->keys->lock_count; i++)
        if (lease_get(a->leases, i, &lease)) return true;
    return false;
}

void auditor_want_memory(auditor_t *a) {
    if (auditor_leads(a)) a->timers.memory_at = mono_min(a->timers.memory_at, mono_add(mono_now(), MEMORY_SOON_S * NS_PER_S));
}

// False: the request failed. Redis may refuse it (docs/services.md); then only stream.max_bytes limits the streams.
static bool trim_read_memory(auditor_t *a) {
    redis_error_t error = {0}, refusal;
    request_append(a->redis.conn, "INFO", "memory");
    redisReply *reply = conn_read_or_refusal(a->redis.conn, &refusal, &error);
    const int64_t used = reply_info_number(reply, "\nused_memory:"), most = reply_info_number(reply, "\nmaxmemory:");
    const double percent = most > 0 ? 100 * (double)used / (double)most : 0;
    conn_reply_free(reply);
    if (error.outcome != OUTCOME_OK) return auditor_back_off(a, &error);
    a->redis.full = percent > (a->redis.full ? MEMORY_ENOUGH : MEMORY_TIGHT);
    a->timers.memory_at = mono_add(mono_now(), (a->redis.full ? MEMORY_SOON_S : MEMORY_S) * NS_PER_S);
    return true;
}

static bool trim_stream(auditor_t *a, size_t queue, const lease_t *lease) {
    stream_cursor_t *cursor = &a->cursors[queue];
    redis_error_t error;
    stream_trimmed_t done;
    const call_t call = {a->redis.conn, a->keys, queue, lease->token, &error};
    outcome_t outcome = trim_burst(a, &call, &done);
    mono_t now = mono_now();
    trim_report_early(a, queue, &done);
    cursor->trim_at = mono_add(now, TRIM_S * NS_PER_S);
    if (done.removed == 0)
        backoff_failed(&cursor->urgent, now);
    else
        cursor->urgent = BACKOFF_TRIM;
    if (outcome == OUTCOME_REFUSED) {
        log_error(ROLE, auditor_queue_name(a, queue), "cannot trim failure stream", F_STR("reason", error.text));
        metric_add(&a->metrics->audit_faults, 1);
        return true;
    }
    if (outcome == OUTCOME_FENCED) {
        lease_suspect(a->leases, a->keys->queues[queue].lock, lease->term);
        return true;
    }
    if (outcome != OUTCOME_OK) return auditor_back_off(a, &error);
    log_debug(ROLE, auditor_queue_name(a, queue), "trimmed failure stream", F_INT("removed", done.removed),
              F_INT("left", done.left));
    cursor->room_left = stream_room(a->keys) - done.bytes;
    cursor->growth_left = done.wait_ms < 0 ? a->keys->config->stream.min_records - done.left : -1;
    if (done.wait_ms > TRIM_S * 1000) cursor->trim_at = mono_add(now, done.wait_ms * NS_PER_MS);
    if (done.wait_ms == 0) cursor->trim_at = done.removed ? now : mono_add(now, TRIM_UNCOPIED_S * NS_PER_S);
    if (done.crowded) cursor->trim_at = now;
    return !a->redis.full || trim_read_memory(a); // the next stream may keep its records
}

// Asks how full Redis is, if the streams that this instance leads hold enough.
static bool trim_look_at_memory(auditor_t *a) {
    lease_t lease;
    int64_t held = 0;
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (!a->cursors[i].unreadable && lease_get(a->leases, a->keys->queues[i].lock, &lease)) held += trim_held_bytes(a, i);
    if (held >= MEMORY_LEAST) return trim_read_memory(a);
    a->redis.full = false;
    a->timers.memory_at = mono_never();
    return true;
}

// Finds the next queue that this instance leads. False: no queue is left in this round.
static bool requeue_markers_find_queue(requeue_markers_t *markers, const keyspace_t *keys, leases_t *leases, lease_t *lease) {
    for (; markers->queue < keys->queue_count; markers->queue++) {
        if (lease_get(leases, keys->queues[markers->queue].lock, lease)) return true;
        markers->cursor = 0;
    }
    return false;
}

outcome_t requeue_markers_step(requeue_markers_t *markers, conn_t *conn, const keyspace_t *keys, leases_t *leases,
                               int64_t redis_ms, redis_error_t *error) {
    lease_t lease;
    mono_t now = mono_now();
    *error = (redis_error_t){0};
    if (!mono_reached(markers->at, now)) return OUTCOME_OK;
    if (!requeue_markers_find_queue(markers, keys, leases, &lease)) {
        *markers = (requeue_markers_t){.at = mono_add(now, MARKERS_S * NS_PER_S)};
        return OUTCOME_OK;
    }
    const call_t call = {conn, keys, markers->queue, lease.token, error};
    outcome_t outcome = requeue_prune(&call, redis_ms - keys->config->audit.retain_ms, &markers->cursor);
    if (outcome == OUTCOME_RETRY || outcome == OUTCOME_DISCONNECTED) return outcome;
    if (outcome == OUTCOME_FENCED) lease_suspect(leases, keys->queues[markers->queue].lock, lease.term);
    if (outcome != OUTCOME_OK) markers->cursor = 0;
    if (markers->cursor == 0) markers->queue++;
    markers->at = markers->cursor ? mono_add(now, MARKERS_STEP_MS * NS_PER_MS) : now;
    return outcome == OUTCOME_FENCED ? OUTCOME_OK : outcome;
}

static bool trim_requeue_markers(auditor_t *a) {
    redis_error_t error;
    requeue_markers_t *markers = &a->timers.markers;
    size_t queue = markers->queue;
    // A marker that is pruned too early would let an operator requeue a job twice.
    if (!audit_writer_clocks_agree(a->writer, auditor_redis_ms(a))) {
        markers->at = a->timers.reconcile_at;
        return true;
    }
    outcome_t outcome = requeue_markers_step(markers, a->redis.conn, a->keys, a->leases, auditor_redis_ms(a), &error);
    if (outcome == OUTCOME_RETRY || outcome == OUTCOME_DISCONNECTED) return auditor_back_off(a, &error);
    if (outcome == OUTCOME_REFUSED)
        log_error(ROLE, auditor_queue_name(a, queue), "cannot prune requeue markers", F_STR("reason", error.text));
    return true;
}

static void trim_prune_auditors(auditor_t *a) {
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        a->cursors[i].prune_auditors = true;
        a->cursors[i].trim_at = mono_now();
    }
    a->timers.auditors_at = mono_add(mono_now(), AUDITORS_S * NS_PER_S);
}

bool auditor_run_timers(auditor_t *a) {
    lease_t lease;
    if (mono_reached(a->timers.reconcile_at, mono_now()) && !auditor_reconcile_next(a)) return false;
    if (mono_reached(a->timers.renew_acks_at, mono_now()) && !trim_renew_acks(a)) return false;
    if (mono_reached(a->timers.markers.at, mono_now()) && !trim_requeue_markers(a)) return false;
    if (mono_reached(a->timers.auditors_at, mono_now())) trim_prune_auditors(a);
    if (mono_reached(a->timers.memory_at, mono_now()) && !trim_look_at_memory(a)) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (mono_reached(trim_due_at(a, i), mono_now()) && trim_is_possible(a, i, &lease) && !trim_stream(a, i, &lease))
            return false;
    return true;
}

mono_t auditor_trim_for_others(auditor_t *a) {
    redis_error_t error;
    lease_t lease;
    int64_t now_ms;
    mono_t next = mono_never();
    if (stream_read_ends(a->redis.conn, a->keys, NULL, a->states, &now_ms, &error) != OUTCOME_OK) {
        auditor_back_off(a, &error);
        return next;
    }
    for (size_t i = 0; i < a->keys->queue_count; i++) a->cursors[i].room_left = stream_room(a->keys) - a->states[i].bytes;
    if (!trim_look_at_memory(a)) return next;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        if (!trim_is_urgent(a, i) || a->states[i].error || !lease_get(a->leases, a->keys->queues[i].lock, &lease)) continue;
        if (mono_reached(trim_due_at(a, i), mono_now()) && !trim_stream(a, i, &lease)) return mono_never();
        if (trim_is_urgent(a, i)) next = mono_min(next, trim_due_at(a, i));
    }
    return next;
}

mono_t auditor_next_timer(auditor_t *a) {
    lease_t lease;
    mono_t next = mono_min(mono_min(a->timers.reconcile_at, a->timers.renew_acks_at), a->timers.markers.at);
    next = mono_min(next, mono_min(a->timers.memory_at, a->timers.auditors_at));
    mono_t look_at = mono_add(mono_now(), TRIM_STANDBY_S * NS_PER_S);
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        const stream_cursor_t *cursor = &a->cursors[i];
        if (trim_is_possible(a, i, &lease))
            next = mono_min(next, trim_due_at(a, i));
        else if (trim_is_urgent(a, i) && !cursor->unreadable)
            next = mono_min(next, look_at);
    }
    return next;
}
