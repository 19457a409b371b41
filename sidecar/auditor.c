#include "auditor.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auditor_log.h"
#include "auditor_marks.h"
#include "base/crash.h"
#include "base/log.h"
#include "queue/dialects/dialect.h"
#include "queue/stream.h"

enum {
    BLOCK_MS = 60000,             // the longest wait of one XREAD
    TURN_MS = 1000,               // and where each stream must be waited for by itself
    LOOK_S = 60,                  // between two looks at where all streams begin and end
    HELD_LOOK_S = 30,             // the same while a stream cannot be read
    RENEW_S = 3600,               // between two acknowledgements of the same position
    TRIM_S = 60,                  // between two trims of a stream
    TRIM_UNCOPIED_S = 300,        // the same where others have yet to copy it
    CALM_S = 10,                  // after so long without trouble the next one is met with the shortest wait again
    TICK_MS = 100,                // a tick comes up for air at least this often
    ROOM_FIRST = 16,              // entries that one reply may have while nothing is known of their size
    ROOM_MOST = 3000,             // one transaction: each costs an fsync
    ROOM_MUCH = 500,              // what is not given back to the system by itself
    ROOM_BYTES = 2 * 1024 * 1024, // of values, that one reply should have at the most
};

static const char ROLE[] = "auditor";

// What is known of one stream.
typedef struct copy {
    stream_id_t at;   // read and on disk up to here, in this life of the stream
    stream_id_t kept; // the position in the log: what trim has removed above it this log never had
    bool held;        // it cannot be read
    int64_t spare;    // entries that it may grow by before some could be trimmed; negative = some could
    mono_t trim_at;   // not before this
} copy_t;

struct auditor {
    const keyspace_t *keys;
    leases_t *leases;
    metrics_t *metrics;
    const atomic_bool *stop;
    pen_t pen;
    conn_t *conn;
    char history[STREAM_HISTORY_SIZE]; // of the server that all positions are about
    backoff_t backoff;
    mono_t trouble_at; // when the latest trouble began
    mono_t retry_at;   // no request before this
    mono_t look_at;
    mono_t renew_at;
    marks_t marks;
    copy_t *copies;
    stream_look_t *looks;
    stream_id_t *asks; // of the request being made
    bool flying;       // an XREAD is under way
    mono_t give_up;    // and its reply is overdue
    bool turns;        // streams lie in slots of their own: one after the other
    size_t turn;
    // The reply being read.
    stream_id_t *next; // where each stream ends in it; "" = nothing of it
    int64_t entries;
    int64_t bytes;
    int64_t added;
    bool spoilt;     // the log has refused one
    bool full;       // there may be more
    int64_t room;    // entries that the next reply may have
    int64_t streams; // that the last one had entries of
    int64_t limit;   // entries of each, as it was asked for
    // Redis's clock: its ms at our time.
    int64_t redis_ms;
    mono_t redis_at;
};

auditor_t *auditor_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    auditor_t *a = mem_alloc(sizeof *a);
    *a = (auditor_t){.keys = keys, .leases = leases, .metrics = metrics, .stop = stop, .backoff = BACKOFF_REDIS};
    pen_init(&a->pen, keys->config->audit.path, metrics);
    a->conn = conn_new(&keys->config->redis, "queue-sidecar-auditor", stop);
    a->copies = mem_array(keys->queue_count, sizeof *a->copies);
    a->looks = mem_array(keys->queue_count, sizeof *a->looks);
    a->asks = mem_array(keys->queue_count, sizeof *a->asks);
    a->next = mem_array(keys->queue_count, sizeof *a->next);
    a->room = ROOM_FIRST;
    for (size_t i = 0; i < keys->queue_count; i++) a->copies[i] = (copy_t){.at = STREAM_ID_NONE, .kept = STREAM_ID_NONE};
    return a;
}

void auditor_free(auditor_t *a) {
    if (!a) return;
    pen_close(&a->pen);
    conn_free(a->conn);
    free(a->copies);
    free(a->looks);
    free(a->asks);
    free(a->next);
    free(a);
}

static const char *name_of(const auditor_t *a, size_t queue) { return a->keys->queues[queue].config->name; }

static void set_id(stream_id_t id, const char *text) { snprintf(id, STREAM_ID_SIZE, "%s", text); }

static void read_again(auditor_t *a) {
    for (size_t i = 0; i < a->keys->queue_count; i++) set_id(a->copies[i].at, STREAM_ID_NONE);
}

// Redis cannot do what we asked: waits before the next request. Always false, for its callers to return.
static bool put_off(auditor_t *a, const fault_t *fault) {
    mono_t now = mono_now();
    if (mono_diff(now, a->retry_at) > CALM_S * NS_PER_S) backoff_reset(&a->backoff);
    a->retry_at = mono_add(now, backoff_next_ns(&a->backoff));
    log_warn(ROLE, NULL, fault->outcome == OUTCOME_LATER ? "redis is not ready" : "redis is out of reach",
             F_STR("reason", fault->text));
    if (fault->outcome == OUTCOME_LOST) conn_close(a->conn);
    if (!conn_is_open(a->conn)) {
        a->flying = false;
        metric_add(&a->metrics->reconnects, 1);
    }
    return false;
}

// Opens the log if it is closed, and takes its positions over. False: not now.
static bool log_open(auditor_t *a) {
    bool fresh;
    bool other;
    if (!pen_open(&a->pen, &fresh, &other)) return false;
    for (size_t i = 0; fresh && i < a->keys->queue_count; i++) {
        char position[AUDIT_POSITION_SIZE];
        copy_t *copy = &a->copies[i];
        if (!pen_position(&a->pen, name_of(a, i), position)) return false;
        if (other || stream_id_compare(position, copy->kept) != 0) set_id(copy->at, STREAM_ID_NONE); // not what we wrote
        set_id(copy->kept, position);
    }
    if (fresh) a->look_at = mono_now();
    return true;
}

static bool connected(auditor_t *a) {
    fault_t fault;
    char history[STREAM_HISTORY_SIZE];
    bool fresh = !conn_is_open(a->conn);
    if (a->flying) return true;
    if (conn_open(a->conn, &fault) != OUTCOME_OK) return put_off(a, &fault);
    if (!fresh) return true;
    if (stream_history(a->conn, history, &fault) != OUTCOME_OK) {
        fault.outcome = OUTCOME_LOST; // without it nothing can be read: begin anew
        return put_off(a, &fault);
    }
    if (strcmp(history, a->history) != 0) read_again(a);
    snprintf(a->history, sizeof a->history, "%s", history);
    a->look_at = a->renew_at = mono_now();
    return true;
}

static int64_t redis_now_ms(const auditor_t *a) { return a->redis_ms + mono_diff(mono_now(), a->redis_at) / NS_PER_MS; }

static int64_t age_ms(const auditor_t *a, const char *id) {
    int64_t age = redis_now_ms(a) - stream_id_ms(id);
    return age > 0 ? age : 0;
}

// What lies above the log's position and is trimmed was never here. The row's id is made of where the gap begins and ends, so it
// is written once.
static bool note_gap(auditor_t *a, size_t queue, const stream_look_t *look) {
    copy_t *copy = &a->copies[queue];
    char id[EVENT_ID_SIZE];
    char *range = mem_printf("%s..%s", copy->kept, look->trimmed);
    event_t gap = {.kind = slice_text("gap"),
                   .dialect = slice_text(dialect_ops(a->keys->queues[queue].config->dialect)->name),
                   .queue = slice_text(name_of(a, queue)),
                   .job = slice_text(range),
                   .reason = slice_text("trimmed"),
                   .error = slice_text("records after the first of these ids, up to the second, were trimmed from the failure "
                                       "stream before this log had them"),
                   .at = stream_id_ms(look->trimmed)};
    event_id(&gap, 0, 0, id);
    gap.event = slice_text(id);
    bool added = false;
    bool ok = pen_put(&a->pen, &gap, &added);
    if (ok && added) {
        log_warn(ROLE, name_of(a, queue), "records were trimmed before this log had them", F_STR("after", copy->kept),
                 F_STR("up_to", look->trimmed));
        metric_add(&a->metrics->gaps, 1);
        metric_add(&a->metrics->audit_rows, 1);
    }
    free(range);
    return ok;
}

// Keeps the log's position in step with the stream. False: the log refuses.
static bool follow(auditor_t *a, size_t queue, const stream_look_t *look) {
    copy_t *copy = &a->copies[queue];
    bool anew = stream_id_compare(look->last, copy->kept) < 0;
    if (anew) {
        log_info(ROLE, name_of(a, queue), "the failure stream began anew: it is read from its beginning",
                 F_STR("was_at", copy->kept), F_STR("is_at", look->last));
        set_id(copy->at, STREAM_ID_NONE);
    }
    const char *kept = anew ? look->last : copy->kept;
    // A mark above all that the stream ever had is of an earlier life.
    bool gap = stream_id_compare(look->trimmed, kept) > 0 && stream_id_compare(look->trimmed, look->last) <= 0;
    if (!anew && !gap) return true;
    if (!pen_begin(&a->pen) || (gap && !note_gap(a, queue, look))) return false;
    if (gap) kept = look->trimmed;
    if (!pen_move(&a->pen, name_of(a, queue), kept) || !pen_commit(&a->pen)) return false;
    set_id(copy->kept, kept);
    return true;
}

// Looks at all streams; false: not now. *found, where not NULL: one can no longer be read.
static bool look(auditor_t *a, bool *found) {
    fault_t fault;
    bool held = false;
    if (stream_look(a->conn, a->keys, a->looks, &a->redis_ms, &fault) != OUTCOME_OK) return put_off(a, &fault);
    a->redis_at = mono_now();
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        copy_t *copy = &a->copies[i];
        const stream_look_t *of = &a->looks[i];
        bool was = copy->held;
        copy->held = *of->error != '\0';
        held = held || copy->held;
        if (copy->held && !was) {
            log_error(ROLE, name_of(a, i), "the failure stream cannot be read: it is left out", F_STR("reason", of->error));
            metric_add(&a->metrics->audit_faults, 1);
            if (found) *found = true;
        }
        if (copy->held) continue;
        if (was) log_info(ROLE, name_of(a, i), "the failure stream can be read again");
        copy->spare = a->keys->config->stream.min_records - of->length;
        if (!follow(a, i, of)) return false;
    }
    a->look_at = mono_add(a->redis_at, (held ? HELD_LOOK_S : LOOK_S) * NS_PER_S);
    return true;
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
        return put_off(a, &fault);
    }
    log_error(ROLE, NULL, "a copy cannot be acknowledged: the failure stream is not trimmed", F_STR("reason", fault.text));
    metric_add(&a->metrics->audit_faults, 1);
    return true;
}

static bool renew(auditor_t *a) {
    for (size_t i = 0; i < a->keys->queue_count; i++)
        set_id(a->asks[i], strcmp(a->copies[i].at, STREAM_ID_NONE) != 0 && !a->copies[i].held ? a->copies[i].at : "");
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
    outcome_t outcome = stream_trim(a->conn, a->keys, queue, lease->token, &done, &fault);
    mono_t now = mono_now();
    copy->trim_at = mono_add(now, TRIM_S * NS_PER_S);
    if (outcome == OUTCOME_FAULT) {
        log_error(ROLE, name_of(a, queue), "the failure stream cannot be trimmed", F_STR("reason", fault.text));
        metric_add(&a->metrics->audit_faults, 1);
        return true;
    }
    if (outcome != OUTCOME_OK) return put_off(a, &fault);
    if (done.fenced) {
        lease_doubt(a->leases, a->keys->queues[queue].seat, lease->term);
        return true;
    }
    log_debug(ROLE, name_of(a, queue), "trimmed", F_INT("removed", done.removed), F_INT("left", done.left));
    copy->spare = a->keys->config->stream.min_records - done.left;
    if (done.wait_ms > TRIM_S * 1000) copy->trim_at = mono_add(now, done.wait_ms * NS_PER_MS);
    if (done.wait_ms == 0) copy->trim_at = done.removed ? now : mono_add(now, TRIM_UNCOPIED_S * NS_PER_S);
    return true;
}

static bool forget_marks(auditor_t *a) {
    fault_t fault;
    size_t queue = a->marks.queue;
    outcome_t outcome = marks_step(&a->marks, a->conn, a->keys, a->leases, redis_now_ms(a), &fault);
    if (outcome == OUTCOME_LATER || outcome == OUTCOME_LOST) return put_off(a, &fault);
    if (outcome == OUTCOME_FAULT)
        log_error(ROLE, name_of(a, queue), "marks of jobs put back cannot be forgotten", F_STR("reason", fault.text));
    return true;
}

// What is due besides reading. False: not now.
static bool duties(auditor_t *a) {
    if (mono_reached(a->look_at, mono_now()) && !look(a, NULL)) return false;
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

// Sends the next XREAD, which Redis answers when there is something or the next duty is due. False: there is nothing to read, or
// not now.
static bool send_read(auditor_t *a) {
    fault_t fault;
    size_t chosen = 0;
    size_t count = a->keys->queue_count;
    mono_t now = mono_now();
    int64_t block_ms = mono_diff(next_duty(a), now) / NS_PER_MS;
    for (size_t n = 0; n < count; n++) {
        size_t queue = (a->turn + n) % count;
        bool wanted = !a->copies[queue].held && (!a->turns || chosen == 0);
        set_id(a->asks[queue], wanted ? a->copies[queue].at : "");
        if (!wanted) continue;
        chosen++;
        if (a->turns) a->turn = queue;
    }
    if (chosen == 0) return false;
    a->turn = a->turns ? (a->turn + 1) % count : 0;
    if (block_ms > (a->turns ? TURN_MS : BLOCK_MS)) block_ms = a->turns ? TURN_MS : BLOCK_MS;
    if (block_ms < 1) block_ms = 1;
    a->limit = a->room / (a->streams ? a->streams : 1);
    if (a->limit < 1) a->limit = 1;
    stream_read_append(a->conn, a->keys, (const stream_id_t *)a->asks, a->limit, block_ms);
    if (conn_flush(a->conn, &fault) != OUTCOME_OK) return put_off(a, &fault);
    a->flying = true;
    a->give_up = mono_add(now, (block_ms + a->keys->config->redis.timeout_ms) * NS_PER_MS);
    return true;
}

static void on_entry(void *self, size_t queue, const char *id, const event_t *entry, size_t bytes) {
    auditor_t *a = self;
    event_t event = *entry;
    char ref[EVENT_REF_SIZE];
    bool added = false;
    set_id(a->next[queue], id);
    a->entries++;
    a->bytes += (int64_t)bytes;
    if (a->spoilt) return;
    if (!event_ref(event.event, ref)) {
        log_warn(ROLE, name_of(a, queue), "an entry of the failure stream is no record of ours: it is left out", F_STR("id", id));
        metric_add(&a->metrics->audit_faults, 1);
        return;
    }
    if (event.queue.len == 0) event.queue = slice_text(name_of(a, queue));
    a->spoilt = !pen_begin(&a->pen) || !pen_put(&a->pen, &event, &added);
    if (added) a->added++;
    if (stream_id_compare(id, a->copies[queue].kept) > 0) a->copies[queue].spare--; // the stream has grown
}

// Rows and positions of this reply, in one transaction. False: the log refuses, and everything is as before.
static bool store(auditor_t *a) {
    if (a->spoilt || !pen_begin(&a->pen)) return false;
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        if (!*a->next[i] || stream_id_compare(a->next[i], a->copies[i].kept) <= 0) continue;
        if (!pen_move(&a->pen, name_of(a, i), a->next[i])) return false;
    }
    crash_at("audit_before_commit");
    if (!pen_commit(&a->pen)) return false;
    crash_at("audit_committed");
    metric_add(&a->metrics->audit_rows, a->added);
    for (size_t i = 0; i < a->keys->queue_count; i++) {
        copy_t *copy = &a->copies[i];
        if (!*a->next[i]) continue;
        set_id(copy->at, a->next[i]);
        if (stream_id_compare(copy->at, copy->kept) > 0) set_id(copy->kept, copy->at);
    }
    return true;
}

// How many entries the next reply may have: as many as should fit, approached in steps, because XREAD counts entries and not
// bytes.
static void learn_room(auditor_t *a) {
    int64_t fit = ROOM_BYTES / (a->bytes / a->entries + 1);
    a->room *= 4;
    if (a->room > fit) a->room = fit;
    if (a->room > ROOM_MOST) a->room = ROOM_MOST;
    if (a->room < 1) a->room = 1;
}

// Age of the newest entry of this reply.
static int64_t newest_ms(const auditor_t *a) {
    int64_t newest = INT64_MAX;
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*a->next[i] && age_ms(a, a->next[i]) < newest) newest = age_ms(a, a->next[i]);
    return newest;
}

// Everything about a reply with entries. False: not now.
static bool copied(auditor_t *a) {
    int64_t lag_ms = newest_ms(a);
    a->full = a->entries >= a->limit; // of one stream, or of several together
    learn_room(a);
    a->streams = 0;
    for (size_t i = 0; i < a->keys->queue_count; i++)
        if (*a->next[i]) a->streams++;
    metric_set(&a->metrics->audit_lag_ms, lag_ms);
    if (!store(a)) return false;
    if (!a->full) metric_set(&a->metrics->audit_lag_ms, 0);
    for (size_t i = 0; i < a->keys->queue_count; i++) set_id(a->asks[i], a->next[i]);
    crash_at("audit_before_acknowledge");
    return acknowledge(a);
}

// The XREAD was refused. One stream of the wrong type is enough for that: it is found and left out.
static bool read_refused(auditor_t *a, fault_t *fault) {
    bool found = false;
    if (fault->outcome != OUTCOME_FAULT) return put_off(a, fault);
    if (!a->turns && strncmp(fault->text, "CROSSSLOT", 9) == 0) return a->turns = true;
    if (!look(a, &found)) return false;
    if (found) return true;
    fault->outcome = OUTCOME_LOST; // nobody knows why: begin anew
    return put_off(a, fault);
}

// Takes the reply, if it is there. False: it is not, or nothing more can be done now.
static bool land(auditor_t *a) {
    fault_t fault;
    bool arrived;
    for (size_t i = 0; i < a->keys->queue_count; i++) *a->next[i] = '\0';
    a->entries = a->bytes = a->added = 0;
    a->spoilt = false;
    outcome_t outcome = stream_read_take(a->conn, a->keys, on_entry, a, &arrived, &fault);
    if (outcome == OUTCOME_OK && !arrived) {
        if (!mono_reached(a->give_up, mono_now())) return false;
        outcome = fault_set(&fault, OUTCOME_LOST, "%s: no reply in time", conn_target(a->conn));
    }
    a->flying = false;
    if (outcome != OUTCOME_OK) {
        pen_rollback(&a->pen);
        return read_refused(a, &fault);
    }
    if (a->entries > 0) return copied(a);
    backoff_reset(&a->backoff);
    if (a->room > ROOM_MUCH) malloc_trim(0); // replies of thousands of entries are over for now
    a->room = ROOM_FIRST;
    a->streams = 0;
    if (!a->turns) metric_set(&a->metrics->audit_lag_ms, 0);
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

void auditor_tick(void *self, role_wait_t *wait) {
    auditor_t *a = self;
    if (!log_open(a)) {
        wait->until = a->pen.retry_at;
        return;
    }
    bool more = mono_reached(a->retry_at, mono_now()) && connected(a) && work(a);
    wait->until = more ? mono_now() : a->flying ? a->give_up : next_duty(a);
    if (!a->pen.audit) wait->until = a->pen.retry_at;
    if (!mono_reached(a->retry_at, mono_now()))
        wait->until = a->retry_at;
    else if (a->flying)
        role_wait_fd(wait, conn_fd(a->conn));
}
