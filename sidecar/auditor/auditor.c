#include "auditor/auditor.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auditor/internal.h"
#include "base/failpoint.h"
#include "base/log.h"

enum {
    BLOCK_MAX_MS = 60000,                // the longest wait of one XREAD
    BLOCK_ONE_STREAM_MS = 1000,          // and where each stream must be waited for by itself
    RENEW_ACKS_S = 3600,                 // between two acknowledgements of the same position
    TRIM_S = 60,                         // between two trims of a stream
    TRIM_UNCOPIED_S = 300,               // the same where others have yet to copy it
    TICK_MAX_MS = 100,                   // a tick comes up for air at least this often
    REPLY_MAX_ENTRIES = 3000,            // entries of one reply, which is one transaction: each costs an fsync
    REPLY_MAX_MEMORY = 12 * 1024 * 1024, // of memory, that one reply should take at the most: REPLY_MAX_ENTRIES small entries do
    ENTRY_OVERHEAD = 3584,               // that an entry takes beside its values: hiredis makes 37 objects of it
    REPLY_MAX_BYTES = 4 * 1024 * 1024,   // received: one that is longer is thrown away, and asked for in smaller parts
    RELEASE_MEMORY_FROM = 1024 * 1024,   // what malloc does not give back to the system by itself
    CLOCK_SUSPECT_MS = 60000,            // a new record that is older than this is reason to ask for the time
};

static const char ROLE[] = "auditor";

auditor_t *auditor_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    auditor_t *a = mem_alloc(sizeof *a);
    *a = (auditor_t){.keys = keys, .leases = leases, .metrics = metrics, .stop = stop, .redis.backoff = BACKOFF_REDIS};
    const audit_limits_t limits = {.retain_ms = keys->config->audit.retain_ms,
                                   .rows = keys->config->audit.retain_rows,
                                   .bytes = keys->config->audit.retain_bytes};
    audit_writer_init(&a->writer, keys->config->audit.path, &limits, metrics, stop);
    a->redis.conn = conn_new(&keys->config->redis, "queue-sidecar-auditor", stop);
    a->cursors = mem_array(keys->queue_count, sizeof *a->cursors);
    a->states = mem_array(keys->queue_count, sizeof *a->states);
    a->read.positions = mem_array(keys->queue_count, sizeof *a->read.positions);
    a->reply.ends = mem_array(keys->queue_count, sizeof *a->reply.ends);
    a->read.budget = 1;
    for (size_t i = 0; i < keys->queue_count; i++)
        a->cursors[i] = (stream_cursor_t){.read_id = STREAM_ID_NONE, .logged_id = STREAM_ID_NONE};
    return a;
}

void auditor_finish(void *self) {
    auditor_t *a = self;
    audit_writer_finish(&a->writer);
}

void auditor_free(auditor_t *a) {
    if (!a) return;
    audit_writer_finish(&a->writer);
    conn_free(a->redis.conn);
    free(a->cursors);
    free(a->states);
    free(a->read.positions);
    free(a->reply.ends);
    free(a);
}

static void auditor_reset_cursors(auditor_t *a) {
    for (size_t i = 0; i < a->keys->queue_count; i++) stream_id_set(a->cursors[i].read_id, STREAM_ID_NONE);
}

// Opens the log if it is closed, and takes its positions over. False: not now.
static bool auditor_open_log(auditor_t *a) {
    bool fresh;
    bool other;
    if (!audit_writer_open(&a->writer, &fresh, &other)) return false;
    for (size_t i = 0; fresh && i < a->keys->queue_count; i++) {
        char position[AUDIT_POSITION_SIZE];
        stream_cursor_t *cursor = &a->cursors[i];
        if (!audit_writer_position(&a->writer, auditor_queue_name(a, i), position)) return false;
        if (other || stream_id_compare(position, cursor->logged_id) != 0)
            stream_id_set(cursor->read_id, STREAM_ID_NONE); // not what we wrote
        stream_id_set(cursor->logged_id, position);
    }
    if (!fresh) return true;
    if (a->read.in_flight) conn_close(a->redis.conn); // what it asked for is not what this log lacks
    a->read.in_flight = false;
    a->acks_unverified = a->read.catching_up = true;
    a->timers.reconcile_at = mono_now();
    return true;
}

static bool auditor_connect(auditor_t *a) {
    redis_error_t error;
    char history[STREAM_HISTORY_SIZE];
    bool fresh = !conn_is_open(a->redis.conn);
    if (a->read.in_flight) return true;
    if (conn_open(a->redis.conn, &error) != OUTCOME_OK) return auditor_back_off(a, &error);
    if (!fresh) return true;
    if (stream_history(a->redis.conn, history, &error) != OUTCOME_OK) {
        error.outcome = OUTCOME_DISCONNECTED; // without it nothing can be read: begin anew
        return auditor_back_off(a, &error);
    }
    if (strcmp(history, a->redis.history) != 0) auditor_reset_cursors(a);
    snprintf(a->redis.history, sizeof a->redis.history, "%s", history);
    a->timers.reconcile_at = a->timers.renew_acks_at = mono_now();
    a->read.catching_up = true;
    return true;
}

static int64_t auditor_redis_ms(const auditor_t *a) {
    return a->redis.now_ms + mono_diff(mono_now(), a->redis.now_at) / NS_PER_MS;
}

static int64_t auditor_entry_age_ms(const auditor_t *a, const char *id) {
    int64_t age = auditor_redis_ms(a) - stream_id_ms(id);
    return age > 0 ? age : 0;
}

// asks holds the positions. What is refused for one queue is said, and tried again at the next renewal.
static bool auditor_acknowledge(auditor_t *a) {
    redis_error_t error;
    outcome_t outcome =
        stream_acknowledge(a->redis.conn, a->keys, a->writer.instance, (const stream_id_t *)a->read.positions, &error);
    if (outcome == OUTCOME_OK) {
        backoff_reset(&a->redis.backoff);
        return true;
    }
    if (outcome != OUTCOME_REFUSED) {
        a->timers.renew_acks_at = mono_now(); // as soon as it can be
        return auditor_back_off(a, &error);
    }
    log_error(ROLE, NULL, "a copy cannot be acknowledged: the failure stream is not trimmed", F_STR("reason", error.text));
    metric_add(&a->metrics->audit_faults, 1);
    return true;
}

static bool auditor_renew_acks(auditor_t *a) {
    for (size_t i = 0; i < a->keys->queue_count; i++)
        stream_id_set(a->read.positions[i], strcmp(a->cursors[i].read_id, STREAM_ID_NONE) != 0 && !a->cursors[i].unreadable
                                                ? a->cursors[i].read_id
                                                : "");
    a->timers.renew_acks_at = mono_add(mono_now(), RENEW_ACKS_S * NS_PER_S);
    return auditor_acknowledge(a);
}

// The lease under which this stream may be trimmed; false when there is none, or nothing to trim: what we have not copied
// ourselves is seldom older than what others have not.
static bool auditor_may_trim(auditor_t *a, size_t queue, lease_t *lease) {
    const stream_cursor_t *cursor = &a->cursors[queue];
    bool some = !cursor->unreadable && cursor->growth_left < 0 && strcmp(cursor->read_id, STREAM_ID_NONE) != 0;
    return some && lease_get(a->leases, a->keys->queues[queue].lock, lease);
}

static bool auditor_trim(auditor_t *a, size_t queue, const lease_t *lease) {
    stream_cursor_t *cursor = &a->cursors[queue];
    redis_error_t error;
    stream_trimmed_t done;
    failpoint("trim_before");
    outcome_t outcome = stream_trim(a->redis.conn, a->keys, queue, lease->token, &done, &error);
    mono_t now = mono_now();
    cursor->trim_at = mono_add(now, TRIM_S * NS_PER_S);
    if (outcome == OUTCOME_REFUSED) {
        log_error(ROLE, auditor_queue_name(a, queue), "the failure stream cannot be trimmed", F_STR("reason", error.text));
        metric_add(&a->metrics->audit_faults, 1);
        return true;
    }
    if (outcome != OUTCOME_OK) return auditor_back_off(a, &error);
    failpoint("trim_answered");
    if (done.fenced) {
        lease_suspect(a->leases, a->keys->queues[queue].lock, lease->term);
        return true;
    }
    log_debug(ROLE, auditor_queue_name(a, queue), "trimmed", F_INT("removed", done.removed), F_INT("left", done.left));
    cursor->growth_left = done.wait_ms < 0 ? a->keys->config->stream.min_records - done.left : -1;
    if (done.wait_ms > TRIM_S * 1000) cursor->trim_at = mono_add(now, done.wait_ms * NS_PER_MS);
    if (done.wait_ms == 0) cursor->trim_at = done.removed ? now : mono_add(now, TRIM_UNCOPIED_S * NS_PER_S);
    return true;
}

static bool auditor_prune_requeue_markers(auditor_t *a) {
    redis_error_t error;
    size_t queue = a->timers.markers.queue;
    if (!audit_writer_clocks_agree(&a->writer,
                                   auditor_redis_ms(a))) { // a mark that is forgotten too early lets a job be put back twice
        a->timers.markers.at = a->timers.reconcile_at;
        return true;
    }
    outcome_t outcome = requeue_markers_step(&a->timers.markers, a->redis.conn, a->keys, a->leases, auditor_redis_ms(a), &error);
    if (outcome == OUTCOME_RETRY || outcome == OUTCOME_DISCONNECTED) return auditor_back_off(a, &error);
    if (outcome == OUTCOME_REFUSED)
        log_error(ROLE, auditor_queue_name(a, queue), "marks of jobs put back cannot be forgotten", F_STR("reason", error.text));
    return true;
}

// What is due besides reading. False: not now.
static bool auditor_run_timers(auditor_t *a) {
    if (mono_reached(a->timers.reconcile_at, mono_now()) && !auditor_reconcile(a, NULL)) return false;
    if (mono_reached(a->timers.renew_acks_at, mono_now()) && !auditor_renew_acks(a)) return false;
    if (mono_reached(a->timers.markers.at, mono_now()) && !auditor_prune_requeue_markers(a)) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        lease_t lease;
        if (!mono_reached(a->cursors[i].trim_at, mono_now()) || !auditor_may_trim(a, i, &lease)) continue;
        if (!auditor_trim(a, i, &lease)) return false;
    }
    return true;
}

static mono_t auditor_next_timer(auditor_t *a) {
    mono_t next = mono_min(mono_min(a->timers.reconcile_at, a->timers.renew_acks_at), a->timers.markers.at);
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        lease_t lease;
        if (a->cursors[i].trim_at.ns < next.ns && auditor_may_trim(a, i, &lease)) next = a->cursors[i].trim_at;
    }
    return next;
}

// Chooses the streams of the next XREAD, whose positions are in asks then. False: there is none.
static bool auditor_choose_streams(auditor_t *a) {
    size_t count = a->keys->queue_count;
    bool behind = false;
    for (size_t i = 0; i < count; i++) behind = behind || (a->cursors[i].behind && !a->cursors[i].unreadable);
    a->read.catching_up = a->read.catching_up && behind;
    bool one = a->read.catching_up || a->read.one_by_one;
    size_t chosen = 0;
    size_t last = 0;
    for (size_t n = 0; n < count; n++) {
        size_t queue = (a->read.first + n) % count;
        bool wanted =
            !a->cursors[queue].unreadable && (!one || chosen == 0) && (!a->read.catching_up || a->cursors[queue].behind);
        stream_id_set(a->read.positions[queue], wanted ? a->cursors[queue].read_id : "");
        if (!wanted) continue;
        chosen++;
        last = queue;
    }
    if (chosen == 0) return false;
    a->read.first = one ? (last + 1) % count : 0;
    if (one) a->read.streams = 1;
    return true;
}

// How long the next XREAD may wait in Redis.
static int64_t auditor_block_ms(auditor_t *a, mono_t now) {
    int64_t most_ms = a->read.one_by_one ? BLOCK_ONE_STREAM_MS : BLOCK_MAX_MS;
    int64_t block_ms = mono_diff(auditor_next_timer(a), now) / NS_PER_MS;
    if (a->read.catching_up || a->reply.full) return 0; // there may be more, and if not that is to be known
    return block_ms < 1 ? 1 : block_ms < most_ms ? block_ms : most_ms;
}

// Sends the next XREAD, which Redis answers when there is something or the next duty is due. False: there is nothing to read, or
// not now.
static bool auditor_send_read(auditor_t *a) {
    redis_error_t error;
    mono_t now = mono_now();
    if (!auditor_choose_streams(a)) return false;
    int64_t block_ms = auditor_block_ms(a, now);
    a->read.count = a->read.budget / (a->read.streams ? a->read.streams : 1);
    if (a->read.count < 1) a->read.count = 1;
    a->read.received_before = conn_received(a->redis.conn);
    if (a->read.release_memory && !a->read.catching_up && !a->reply.full) malloc_trim(0); // what came at once is over for now
    a->read.release_memory = a->read.release_memory && (a->read.catching_up || a->reply.full);
    stream_read_append(a->redis.conn, a->keys, (const stream_id_t *)a->read.positions, a->read.count, block_ms);
    if (conn_flush(a->redis.conn, &error) != OUTCOME_OK) return auditor_back_off(a, &error);
    a->read.in_flight = true;
    a->read.deadline = mono_add(now, (block_ms + a->keys->config->redis.timeout_ms) * NS_PER_MS);
    return true;
}

// A new record that is old by what we know of Redis's clock has waited, or the clock went back: retention must know which.
static void auditor_check_clock(auditor_t *a, int64_t at) {
    mono_t now = mono_now();
    if (auditor_redis_ms(a) - at > CLOCK_SUSPECT_MS && mono_diff(now, a->redis.now_at) > BLOCK_ONE_STREAM_MS * NS_PER_MS)
        a->timers.reconcile_at = now;
}

static void auditor_on_entry(void *self, size_t queue, const char *id, const event_t *entry, size_t bytes) {
    auditor_t *a = self;
    event_t event = *entry;
    char ref[EVENT_REF_SIZE];
    bool added = false;
    stream_id_set(a->reply.ends[queue], id);
    a->reply.entries++;
    a->reply.bytes += (int64_t)bytes + ENTRY_OVERHEAD;
    if (a->reply.write_failed) return;
    if (!event_ref(event.event, ref)) {
        log_warn(ROLE, auditor_queue_name(a, queue), "an entry of the failure stream is no record of ours: it is left out",
                 F_STR("id", id));
        metric_add(&a->metrics->audit_faults, 1);
        return;
    }
    if (event.queue.len == 0) event.queue = slice_text(auditor_queue_name(a, queue));
    bool new = stream_id_compare(id, a->cursors[queue].logged_id) > 0;
    if (new) a->cursors[queue].growth_left--; // the stream has grown
    if (new &&auditor_entry_age_ms(a, id) > a->reply.oldest_ms) a->reply.oldest_ms = auditor_entry_age_ms(a, id);
    // Only what was here before can have been removed: a new one may be older than that, after a step back of Redis's clock.
    if (!new &&audit_has_removed(a->writer.audit, event.at)) return;
    if (new) auditor_check_clock(a, event.at);
    a->reply.write_failed = !audit_writer_begin(&a->writer) || !audit_writer_insert(&a->writer, &event, &added);
    if (added) a->reply.added++;
}

// Rows and positions of this reply, in one transaction. False: the log refuses, and everything is as before.
static bool auditor_store(auditor_t *a) {
    if (a->reply.write_failed || !audit_writer_begin(&a->writer)) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        if (!*a->reply.ends[i] || stream_id_compare(a->reply.ends[i], a->cursors[i].logged_id) <= 0) continue;
        if (!audit_writer_set_position(&a->writer, auditor_queue_name(a, i), a->reply.ends[i])) return false;
    }
    failpoint("audit_before_commit");
    if (!audit_writer_commit(&a->writer)) return false;
    failpoint("audit_committed");
    a->retained = false;
    metric_add(&a->metrics->audit_rows, a->reply.added);
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        stream_cursor_t *cursor = &a->cursors[i];
        if (!*a->reply.ends[i]) continue;
        stream_id_set(cursor->read_id, a->reply.ends[i]);
        if (stream_id_compare(cursor->read_id, cursor->logged_id) > 0) stream_id_set(cursor->logged_id, cursor->read_id);
    }
    return true;
}

// How many entries the next reply may have: as many as should fit, approached in steps from what was seen, because XREAD counts
// entries and not bytes.
static void auditor_adapt_budget(auditor_t *a) {
    int64_t each = a->reply.bytes / a->reply.entries + 1;
    a->read.budget = 4 * a->reply.entries;
    if (a->reply.bytes > RELEASE_MEMORY_FROM) a->read.release_memory = true;
    if (a->read.budget > REPLY_MAX_MEMORY / each) a->read.budget = REPLY_MAX_MEMORY / each;
    if (a->read.budget > REPLY_MAX_BYTES / (each - ENTRY_OVERHEAD)) a->read.budget = REPLY_MAX_BYTES / (each - ENTRY_OVERHEAD);
    if (a->read.budget > REPLY_MAX_ENTRIES) a->read.budget = REPLY_MAX_ENTRIES;
    if (a->read.budget < 1) a->read.budget = 1;
}

// What follows this reply is at most as old as the oldest of the entries that it ends with.
static int64_t auditor_next_age_ms(const auditor_t *a) {
    int64_t age = 0;
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*a->reply.ends[i] && auditor_entry_age_ms(a, a->reply.ends[i]) > age) age = auditor_entry_age_ms(a, a->reply.ends[i]);
    return age;
}

// The log lacks an entry for `auditor_entry_age_ms`; whoever cannot look knows of none, and calls it with 0.
static void auditor_note_missing(const auditor_t *a, int64_t auditor_entry_age_ms) {
    int64_t then_ns = mono_now().ns - auditor_entry_age_ms * NS_PER_MS;
    int64_t known_ns = metric_get(&a->metrics->audit_lacks_ns);
    if (known_ns == 0 || then_ns < known_ns) metric_set(&a->metrics->audit_lacks_ns, then_ns > 1 ? then_ns : 1);
}

// It has all that there is while Redis has nothing for it, and would tell.
static void auditor_note_lag(const auditor_t *a) {
    if (a->writer.audit && a->read.in_flight && !a->read.catching_up && !a->reply.full)
        metric_set(&a->metrics->audit_lacks_ns, 0);
    else
        auditor_note_missing(a, 0);
}

// Everything about a reply with entries. False: not now.
static bool auditor_store_reply(auditor_t *a) {
    a->reply.full = a->reply.entries >= a->read.count; // of one stream, or of several together
    auditor_adapt_budget(a);
    a->read.streams = 0;
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*a->reply.ends[i]) a->read.streams++;
    auditor_note_missing(a, a->reply.oldest_ms);
    if (!auditor_store(a)) return false;
    metric_set(&a->metrics->audit_lacks_ns, 0);
    if (a->reply.full) auditor_note_missing(a, auditor_next_age_ms(a));
    for (size_t i = 0; i < a->keys->queue_count; i++) stream_id_set(a->read.positions[i], a->reply.ends[i]);
    failpoint("audit_before_acknowledge");
    if (!auditor_acknowledge(a)) return false;
    failpoint("audit_acknowledged");
    return true;
}

// The XREAD was refused. One stream of the wrong type is enough for that: it is found and left out.
static bool auditor_on_read_refused(auditor_t *a, redis_error_t *error) {
    bool found = false;
    if (error->outcome != OUTCOME_REFUSED) return auditor_back_off(a, error);
    if (!a->read.one_by_one && strncmp(error->text, "CROSSSLOT", 9) == 0) return a->read.one_by_one = true;
    if (!auditor_reconcile(a, &found)) return false;
    if (found) return true;
    error->outcome = OUTCOME_DISCONNECTED; // nobody knows why: begin anew
    return auditor_back_off(a, error);
}

// The reply under way has become too long while more than one entry may be in it: it ends here, and memory is what it was. Redis
// keeps no more of it either. False: it may go on.
static bool auditor_abort_oversized(auditor_t *a) {
    size_t asked = 0;
    if (conn_received(a->redis.conn) - a->read.received_before <= REPLY_MAX_BYTES) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++) asked += *a->read.positions[i] != '\0';
    if (a->read.count == 1 && asked == 1) return false;
    log_debug(ROLE, NULL, "a reply with large records is asked for in smaller parts", F_INT("entries", a->read.count));
    conn_close(a->redis.conn);
    a->read.in_flight = false;
    a->read.release_memory = true;
    a->read.budget = a->read.count > 16 ? a->read.count / 16 : 1;
    a->timers.reconcile_at = mono_now();
    return true;
}

// Takes the reply, if it is there. False: it is not, or nothing more can be done now.
static bool auditor_read_reply(auditor_t *a) {
    redis_error_t error;
    bool arrived;
    for (size_t i = 0; i < a->keys->queue_count; i++) *a->reply.ends[i] = '\0';
    a->reply.entries = a->reply.bytes = a->reply.added = a->reply.oldest_ms = 0;
    a->reply.write_failed = false;
    outcome_t outcome = stream_read_take(a->redis.conn, a->keys, auditor_on_entry, a, &arrived, &error);
    if (outcome == OUTCOME_OK && !arrived) {
        if (auditor_abort_oversized(a)) return false;
        if (!mono_reached(a->read.deadline, mono_now())) return false;
        outcome = redis_error_set(&error, OUTCOME_DISCONNECTED, "%s: no reply in time", conn_target(a->redis.conn));
        a->read.budget = a->read.budget > 4 ? a->read.budget / 4 : 1; // it may have been too long for this network
    }
    a->read.in_flight = false;
    if (outcome != OUTCOME_OK) {
        audit_writer_rollback(&a->writer);
        return auditor_on_read_refused(a, &error);
    }
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*a->read.positions[i]) a->cursors[i].behind = a->read.catching_up && a->reply.entries >= a->read.count;
    if (a->reply.entries > 0) return auditor_store_reply(a);
    backoff_reset(&a->redis.backoff);
    a->reply.full = false;
    if (a->read.catching_up) return true;
    a->read.budget = 1;
    a->read.streams = 0;
    return true;
}

// True: it only comes up for air, and there is more to do at once.
static bool auditor_work(auditor_t *a) {
    mono_t started = mono_now();
    while (!atomic_load(a->stop)) {
        if (a->read.in_flight ? !auditor_read_reply(a) : !auditor_run_timers(a) || !auditor_send_read(a)) return false;
        if (mono_diff(mono_now(), started) >= TICK_MAX_MS * NS_PER_MS) return true;
    }
    return false;
}

// Keeps the log within its limits; when to come back for that. A reply arrives in hundreds of parts, and a step between two of
// them is a commit that the next one waits for: as long as no limit is far exceeded there is one step for each transaction of new
// rows.
static mono_t auditor_retain(auditor_t *a) {
    bool more = false;
    bool receiving = a->read.in_flight && conn_received(a->redis.conn) > a->read.received_before;
    if (receiving && a->retained && !a->writer.retention.falling_behind) return a->writer.file.check_at;
    a->retained = true;
    if (!atomic_load(a->stop) && audit_writer_retain(&a->writer, a->redis.now_ms ? auditor_redis_ms(a) : 0, &more) && more)
        return mono_now();
    return mono_min(a->writer.file.check_at, a->writer.retention.next_at);
}

void auditor_tick(void *self, role_wait_t *wait) {
    auditor_t *a = self;
    audit_writer_check_file(&a->writer);
    if (!auditor_open_log(a)) {
        wait->trouble = true;
        auditor_note_lag(a);
        wait->until = a->writer.failure.retry_at;
        return;
    }
    bool more = mono_reached(a->redis.retry_at, mono_now()) && auditor_connect(a) && auditor_work(a);
    mono_t keep_at = auditor_retain(a);
    auditor_note_lag(a);
    wait->until = more ? mono_now() : a->read.in_flight ? a->read.deadline : auditor_next_timer(a);
    if (role_backing_off(wait, a->redis.retry_at))
        wait->until = a->redis.retry_at;
    else if (a->read.in_flight && a->writer.audit)
        role_wait_fd(wait, conn_fd(a->redis.conn));
    wait->trouble = wait->trouble || !a->writer.audit;
    if (a->writer.audit)
        wait->until = mono_min(wait->until, keep_at);
    else
        wait->until = a->writer.failure.retry_at;
}
