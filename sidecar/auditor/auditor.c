#include "auditor/auditor.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auditor/internal.h"
#include "base/failpoint.h"
#include "base/log.h"

enum {
    BLOCK_MS = 60000,              // the longest wait of one XREAD
    TURN_MS = 1000,                // and where each stream must be waited for by itself
    RENEW_S = 3600,                // between two acknowledgements of the same position
    TRIM_S = 60,                   // between two trims of a stream
    TRIM_UNCOPIED_S = 300,         // the same where others have yet to copy it
    TICK_MS = 100,                 // a tick comes up for air at least this often
    ROOM_MOST = 3000,              // entries of one reply, which is one transaction: each costs an fsync
    ROOM_BYTES = 12 * 1024 * 1024, // of memory, that one reply should take at the most: ROOM_MOST small entries do
    ENTRY_BYTES = 3584,            // that an entry takes beside its values: hiredis makes 37 objects of it
    REPLY_MOST = 4 * 1024 * 1024,  // received: one that is longer is thrown away, and asked for in smaller parts
    BULKY = 1024 * 1024,           // what malloc does not give back to the system by itself
    CLOCK_APART_MS = 60000,        // a new record that is older than this is reason to ask for the time
};

static const char ROLE[] = "auditor";

auditor_t *auditor_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    auditor_t *a = mem_alloc(sizeof *a);
    *a = (auditor_t){.keys = keys, .leases = leases, .metrics = metrics, .stop = stop, .backoff = BACKOFF_REDIS};
    const audit_limits_t limits = {.retain_ms = keys->config->audit.retain_ms,
                                   .rows = keys->config->audit.retain_rows,
                                   .bytes = keys->config->audit.retain_bytes};
    pen_init(&a->pen, keys->config->audit.path, &limits, metrics, stop);
    a->conn = conn_new(&keys->config->redis, "queue-sidecar-auditor", stop);
    a->copies = mem_array(keys->queue_count, sizeof *a->copies);
    a->looks = mem_array(keys->queue_count, sizeof *a->looks);
    a->asks = mem_array(keys->queue_count, sizeof *a->asks);
    a->next = mem_array(keys->queue_count, sizeof *a->next);
    a->room = 1;
    for (size_t i = 0; i < keys->queue_count; i++) a->copies[i] = (copy_t){.at = STREAM_ID_NONE, .kept = STREAM_ID_NONE};
    return a;
}

void auditor_finish(void *self) {
    auditor_t *a = self;
    pen_end(&a->pen);
}

void auditor_free(auditor_t *a) {
    if (!a) return;
    pen_end(&a->pen);
    conn_free(a->conn);
    free(a->copies);
    free(a->looks);
    free(a->asks);
    free(a->next);
    free(a);
}

static void read_again(auditor_t *a) {
    for (size_t i = 0; i < a->keys->queue_count; i++) auditor_set_id(a->copies[i].at, STREAM_ID_NONE);
}

// Opens the log if it is closed, and takes its positions over. False: not now.
static bool log_open(auditor_t *a) {
    bool fresh;
    bool other;
    if (!pen_open(&a->pen, &fresh, &other)) return false;
    for (size_t i = 0; fresh && i < a->keys->queue_count; i++) {
        char position[AUDIT_POSITION_SIZE];
        copy_t *copy = &a->copies[i];
        if (!pen_position(&a->pen, auditor_queue_name(a, i), position)) return false;
        if (other || stream_id_compare(position, copy->kept) != 0) auditor_set_id(copy->at, STREAM_ID_NONE); // not what we wrote
        auditor_set_id(copy->kept, position);
    }
    if (!fresh) return true;
    if (a->flying) conn_close(a->conn); // what it asked for is not what this log lacks
    a->flying = false;
    a->unsettled = a->alone = true;
    a->look_at = mono_now();
    return true;
}

static bool connected(auditor_t *a) {
    fault_t fault;
    char history[STREAM_HISTORY_SIZE];
    bool fresh = !conn_is_open(a->conn);
    if (a->flying) return true;
    if (conn_open(a->conn, &fault) != OUTCOME_OK) return auditor_put_off(a, &fault);
    if (!fresh) return true;
    if (stream_history(a->conn, history, &fault) != OUTCOME_OK) {
        fault.outcome = OUTCOME_LOST; // without it nothing can be read: begin anew
        return auditor_put_off(a, &fault);
    }
    if (strcmp(history, a->history) != 0) read_again(a);
    snprintf(a->history, sizeof a->history, "%s", history);
    a->look_at = a->renew_at = mono_now();
    a->alone = true;
    return true;
}

static int64_t redis_now_ms(const auditor_t *a) { return a->redis_ms + mono_diff(mono_now(), a->redis_at) / NS_PER_MS; }

static int64_t age_ms(const auditor_t *a, const char *id) {
    int64_t age = redis_now_ms(a) - stream_id_ms(id);
    return age > 0 ? age : 0;
}

// asks holds the positions. What is refused for one queue is said, and tried again at the next renewal.
static bool acknowledge(auditor_t *a) {
    fault_t fault;
    outcome_t outcome = stream_acknowledge(a->conn, a->keys, a->pen.instance, (const stream_id_t *)a->asks, &fault);
    if (outcome == OUTCOME_OK) {
        backoff_reset(&a->backoff);
        return true;
    }
    if (outcome != OUTCOME_FAULT) {
        a->renew_at = mono_now(); // as soon as it can be
        return auditor_put_off(a, &fault);
    }
    log_error(ROLE, NULL, "a copy cannot be acknowledged: the failure stream is not trimmed", F_STR("reason", fault.text));
    metric_add(&a->metrics->audit_faults, 1);
    return true;
}

static bool renew(auditor_t *a) {
    for (size_t i = 0; i < a->keys->queue_count; i++)
        auditor_set_id(a->asks[i], strcmp(a->copies[i].at, STREAM_ID_NONE) != 0 && !a->copies[i].held ? a->copies[i].at : "");
    a->renew_at = mono_add(mono_now(), RENEW_S * NS_PER_S);
    return acknowledge(a);
}

// The lease under which this stream may be trimmed; false when there is none, or nothing to trim: what we have not copied
// ourselves is seldom older than what others have not.
static bool trimmable(auditor_t *a, size_t queue, lease_t *lease) {
    const copy_t *copy = &a->copies[queue];
    bool some = !copy->held && copy->spare < 0 && strcmp(copy->at, STREAM_ID_NONE) != 0;
    return some && lease_get(a->leases, a->keys->queues[queue].seat, lease);
}

static bool trim(auditor_t *a, size_t queue, const lease_t *lease) {
    copy_t *copy = &a->copies[queue];
    fault_t fault;
    stream_trimmed_t done;
    crash_at("trim_before");
    outcome_t outcome = stream_trim(a->conn, a->keys, queue, lease->token, &done, &fault);
    mono_t now = mono_now();
    copy->trim_at = mono_add(now, TRIM_S * NS_PER_S);
    if (outcome == OUTCOME_FAULT) {
        log_error(ROLE, auditor_queue_name(a, queue), "the failure stream cannot be trimmed", F_STR("reason", fault.text));
        metric_add(&a->metrics->audit_faults, 1);
        return true;
    }
    if (outcome != OUTCOME_OK) return auditor_put_off(a, &fault);
    crash_at("trim_answered");
    if (done.fenced) {
        lease_doubt(a->leases, a->keys->queues[queue].seat, lease->term);
        return true;
    }
    log_debug(ROLE, auditor_queue_name(a, queue), "trimmed", F_INT("removed", done.removed), F_INT("left", done.left));
    copy->spare = done.wait_ms < 0 ? a->keys->config->stream.min_records - done.left : -1;
    if (done.wait_ms > TRIM_S * 1000) copy->trim_at = mono_add(now, done.wait_ms * NS_PER_MS);
    if (done.wait_ms == 0) copy->trim_at = done.removed ? now : mono_add(now, TRIM_UNCOPIED_S * NS_PER_S);
    return true;
}

static bool forget_marks(auditor_t *a) {
    fault_t fault;
    size_t queue = a->marks.queue;
    if (!pen_clocks_agree(&a->pen, redis_now_ms(a))) { // a mark that is forgotten too early lets a job be put back twice
        a->marks.at = a->look_at;
        return true;
    }
    outcome_t outcome = marks_step(&a->marks, a->conn, a->keys, a->leases, redis_now_ms(a), &fault);
    if (outcome == OUTCOME_LATER || outcome == OUTCOME_LOST) return auditor_put_off(a, &fault);
    if (outcome == OUTCOME_FAULT)
        log_error(ROLE, auditor_queue_name(a, queue), "marks of jobs put back cannot be forgotten", F_STR("reason", fault.text));
    return true;
}

// What is due besides reading. False: not now.
static bool duties(auditor_t *a) {
    if (mono_reached(a->look_at, mono_now()) && !auditor_look(a, NULL)) return false;
    if (mono_reached(a->renew_at, mono_now()) && !renew(a)) return false;
    if (mono_reached(a->marks.at, mono_now()) && !forget_marks(a)) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        lease_t lease;
        if (!mono_reached(a->copies[i].trim_at, mono_now()) || !trimmable(a, i, &lease)) continue;
        if (!trim(a, i, &lease)) return false;
    }
    return true;
}

static mono_t next_duty(auditor_t *a) {
    mono_t next = mono_min(mono_min(a->look_at, a->renew_at), a->marks.at);
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        lease_t lease;
        if (a->copies[i].trim_at.ns < next.ns && trimmable(a, i, &lease)) next = a->copies[i].trim_at;
    }
    return next;
}

// Chooses the streams of the next XREAD, whose positions are in asks then. False: there is none.
static bool choose(auditor_t *a) {
    size_t count = a->keys->queue_count;
    bool behind = false;
    for (size_t i = 0; i < count; i++) behind = behind || (a->copies[i].behind && !a->copies[i].held);
    a->alone = a->alone && behind;
    bool one = a->alone || a->turns;
    size_t chosen = 0;
    size_t last = 0;
    for (size_t n = 0; n < count; n++) {
        size_t queue = (a->turn + n) % count;
        bool wanted = !a->copies[queue].held && (!one || chosen == 0) && (!a->alone || a->copies[queue].behind);
        auditor_set_id(a->asks[queue], wanted ? a->copies[queue].at : "");
        if (!wanted) continue;
        chosen++;
        last = queue;
    }
    if (chosen == 0) return false;
    a->turn = one ? (last + 1) % count : 0;
    if (one) a->streams = 1;
    return true;
}

// How long the next XREAD may wait in Redis.
static int64_t block_ms_of(auditor_t *a, mono_t now) {
    int64_t most_ms = a->turns ? TURN_MS : BLOCK_MS;
    int64_t block_ms = mono_diff(next_duty(a), now) / NS_PER_MS;
    if (a->alone || a->full) return 0; // there may be more, and if not that is to be known
    return block_ms < 1 ? 1 : block_ms < most_ms ? block_ms : most_ms;
}

// Sends the next XREAD, which Redis answers when there is something or the next duty is due. False: there is nothing to read, or
// not now.
static bool send_read(auditor_t *a) {
    fault_t fault;
    mono_t now = mono_now();
    if (!choose(a)) return false;
    int64_t block_ms = block_ms_of(a, now);
    a->limit = a->room / (a->streams ? a->streams : 1);
    if (a->limit < 1) a->limit = 1;
    a->had = conn_received(a->conn);
    if (a->bulky && !a->alone && !a->full) malloc_trim(0); // what came at once is over for now
    a->bulky = a->bulky && (a->alone || a->full);
    stream_read_append(a->conn, a->keys, (const stream_id_t *)a->asks, a->limit, block_ms);
    if (conn_flush(a->conn, &fault) != OUTCOME_OK) return auditor_put_off(a, &fault);
    a->flying = true;
    a->give_up = mono_add(now, (block_ms + a->keys->config->redis.timeout_ms) * NS_PER_MS);
    return true;
}

// A new record that is old by what we know of Redis's clock has waited, or the clock went back: retention must know which.
static void doubt_clock(auditor_t *a, int64_t at) {
    mono_t now = mono_now();
    if (redis_now_ms(a) - at > CLOCK_APART_MS && mono_diff(now, a->redis_at) > TURN_MS * NS_PER_MS) a->look_at = now;
}

static void on_entry(void *self, size_t queue, const char *id, const event_t *entry, size_t bytes) {
    auditor_t *a = self;
    event_t event = *entry;
    char ref[EVENT_REF_SIZE];
    bool added = false;
    auditor_set_id(a->next[queue], id);
    a->entries++;
    a->bytes += (int64_t)bytes + ENTRY_BYTES;
    if (a->spoilt) return;
    if (!event_ref(event.event, ref)) {
        log_warn(ROLE, auditor_queue_name(a, queue), "an entry of the failure stream is no record of ours: it is left out",
                 F_STR("id", id));
        metric_add(&a->metrics->audit_faults, 1);
        return;
    }
    if (event.queue.len == 0) event.queue = slice_text(auditor_queue_name(a, queue));
    bool new = stream_id_compare(id, a->copies[queue].kept) > 0;
    if (new) a->copies[queue].spare--; // the stream has grown
    if (new &&age_ms(a, id) > a->oldest_ms) a->oldest_ms = age_ms(a, id);
    // Only what was here before can have been removed: a new one may be older than that, after a step back of Redis's clock.
    if (!new &&audit_has_dropped(a->pen.audit, event.at)) return;
    if (new) doubt_clock(a, event.at);
    a->spoilt = !pen_begin(&a->pen) || !pen_put(&a->pen, &event, &added);
    if (added) a->added++;
}

// Rows and positions of this reply, in one transaction. False: the log refuses, and everything is as before.
static bool store(auditor_t *a) {
    if (a->spoilt || !pen_begin(&a->pen)) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        if (!*a->next[i] || stream_id_compare(a->next[i], a->copies[i].kept) <= 0) continue;
        if (!pen_move(&a->pen, auditor_queue_name(a, i), a->next[i])) return false;
    }
    crash_at("audit_before_commit");
    if (!pen_commit(&a->pen)) return false;
    crash_at("audit_committed");
    a->kept = false;
    metric_add(&a->metrics->audit_rows, a->added);
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        copy_t *copy = &a->copies[i];
        if (!*a->next[i]) continue;
        auditor_set_id(copy->at, a->next[i]);
        if (stream_id_compare(copy->at, copy->kept) > 0) auditor_set_id(copy->kept, copy->at);
    }
    return true;
}

// How many entries the next reply may have: as many as should fit, approached in steps from what was seen, because XREAD counts
// entries and not bytes.
static void learn_room(auditor_t *a) {
    int64_t each = a->bytes / a->entries + 1;
    a->room = 4 * a->entries;
    if (a->bytes > BULKY) a->bulky = true;
    if (a->room > ROOM_BYTES / each) a->room = ROOM_BYTES / each;
    if (a->room > REPLY_MOST / (each - ENTRY_BYTES)) a->room = REPLY_MOST / (each - ENTRY_BYTES);
    if (a->room > ROOM_MOST) a->room = ROOM_MOST;
    if (a->room < 1) a->room = 1;
}

// What follows this reply is at most as old as the oldest of the entries that it ends with.
static int64_t next_age_ms(const auditor_t *a) {
    int64_t age = 0;
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*a->next[i] && age_ms(a, a->next[i]) > age) age = age_ms(a, a->next[i]);
    return age;
}

// The log lacks an entry for `age_ms`; whoever cannot look knows of none, and calls it with 0.
static void lacks(const auditor_t *a, int64_t age_ms) {
    int64_t then_ns = mono_now().ns - age_ms * NS_PER_MS;
    int64_t known_ns = metric_get(&a->metrics->audit_lacks_ns);
    if (known_ns == 0 || then_ns < known_ns) metric_set(&a->metrics->audit_lacks_ns, then_ns > 1 ? then_ns : 1);
}

// It has all that there is while Redis has nothing for it, and would tell.
static void note_lag(const auditor_t *a) {
    if (a->pen.audit && a->flying && !a->alone && !a->full)
        metric_set(&a->metrics->audit_lacks_ns, 0);
    else
        lacks(a, 0);
}

// Everything about a reply with entries. False: not now.
static bool copied(auditor_t *a) {
    a->full = a->entries >= a->limit; // of one stream, or of several together
    learn_room(a);
    a->streams = 0;
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*a->next[i]) a->streams++;
    lacks(a, a->oldest_ms);
    if (!store(a)) return false;
    metric_set(&a->metrics->audit_lacks_ns, 0);
    if (a->full) lacks(a, next_age_ms(a));
    for (size_t i = 0; i < a->keys->queue_count; i++) auditor_set_id(a->asks[i], a->next[i]);
    crash_at("audit_before_acknowledge");
    if (!acknowledge(a)) return false;
    crash_at("audit_acknowledged");
    return true;
}

// The XREAD was refused. One stream of the wrong type is enough for that: it is found and left out.
static bool read_refused(auditor_t *a, fault_t *fault) {
    bool found = false;
    if (fault->outcome != OUTCOME_FAULT) return auditor_put_off(a, fault);
    if (!a->turns && strncmp(fault->text, "CROSSSLOT", 9) == 0) return a->turns = true;
    if (!auditor_look(a, &found)) return false;
    if (found) return true;
    fault->outcome = OUTCOME_LOST; // nobody knows why: begin anew
    return auditor_put_off(a, fault);
}

// The reply under way has become too long while more than one entry may be in it: it ends here, and memory is what it was. Redis
// keeps no more of it either. False: it may go on.
static bool cut_short(auditor_t *a) {
    size_t asked = 0;
    if (conn_received(a->conn) - a->had <= REPLY_MOST) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++) asked += *a->asks[i] != '\0';
    if (a->limit == 1 && asked == 1) return false;
    log_debug(ROLE, NULL, "a reply with large records is asked for in smaller parts", F_INT("entries", a->limit));
    conn_close(a->conn);
    a->flying = false;
    a->bulky = true;
    a->room = a->limit > 16 ? a->limit / 16 : 1;
    a->look_at = mono_now();
    return true;
}

// Takes the reply, if it is there. False: it is not, or nothing more can be done now.
static bool land(auditor_t *a) {
    fault_t fault;
    bool arrived;
    for (size_t i = 0; i < a->keys->queue_count; i++) *a->next[i] = '\0';
    a->entries = a->bytes = a->added = a->oldest_ms = 0;
    a->spoilt = false;
    outcome_t outcome = stream_read_take(a->conn, a->keys, on_entry, a, &arrived, &fault);
    if (outcome == OUTCOME_OK && !arrived) {
        if (cut_short(a)) return false;
        if (!mono_reached(a->give_up, mono_now())) return false;
        outcome = fault_set(&fault, OUTCOME_LOST, "%s: no reply in time", conn_target(a->conn));
        a->room = a->room > 4 ? a->room / 4 : 1; // it may have been too long for this network
    }
    a->flying = false;
    if (outcome != OUTCOME_OK) {
        pen_rollback(&a->pen);
        return read_refused(a, &fault);
    }
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*a->asks[i]) a->copies[i].behind = a->alone && a->entries >= a->limit;
    if (a->entries > 0) return copied(a);
    backoff_reset(&a->backoff);
    a->full = false;
    if (a->alone) return true;
    a->room = 1;
    a->streams = 0;
    return true;
}

// True: it only comes up for air, and there is more to do at once.
static bool work(auditor_t *a) {
    mono_t started = mono_now();
    while (!atomic_load(a->stop)) {
        if (a->flying ? !land(a) : !duties(a) || !send_read(a)) return false;
        if (mono_diff(mono_now(), started) >= TICK_MS * NS_PER_MS) return true;
    }
    return false;
}

// Keeps the log within its limits; when to come back for that. A reply arrives in hundreds of parts, and a step between two of
// them is a commit that the next one waits for: as long as no limit is far exceeded there is one step for each transaction of new
// rows.
static mono_t keep(auditor_t *a) {
    bool more = false;
    bool receiving = a->flying && conn_received(a->conn) > a->had;
    if (receiving && a->kept && !a->pen.pressed) return a->pen.watch_at;
    a->kept = true;
    if (!atomic_load(a->stop) && pen_retain(&a->pen, a->redis_ms ? redis_now_ms(a) : 0, &more) && more) return mono_now();
    return mono_min(a->pen.watch_at, a->pen.retain_at);
}

void auditor_tick(void *self, role_wait_t *wait) {
    auditor_t *a = self;
    pen_watch(&a->pen);
    if (!log_open(a)) {
        wait->trouble = true;
        note_lag(a);
        wait->until = a->pen.retry_at;
        return;
    }
    bool more = mono_reached(a->retry_at, mono_now()) && connected(a) && work(a);
    mono_t keep_at = keep(a);
    note_lag(a);
    wait->until = more ? mono_now() : a->flying ? a->give_up : next_duty(a);
    if (role_put_off(wait, a->retry_at))
        wait->until = a->retry_at;
    else if (a->flying && a->pen.audit)
        role_wait_fd(wait, conn_fd(a->conn));
    wait->trouble = wait->trouble || !a->pen.audit;
    if (a->pen.audit)
        wait->until = mono_min(wait->until, keep_at);
    else
        wait->until = a->pen.retry_at;
}
