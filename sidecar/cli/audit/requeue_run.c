// Puts failures back, or discards them, one script each: many on their way at once, at the pace that was asked for.
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/audit/requeue.h"
#include "cli/when.h"
#include "dialects/dialect.h"

enum {
    CHUNK = 128,                    // asks that are made before the answers to those before are read
    FLIGHTS = 2 * CHUNK,            // on their way at the most
    FLIGHT_BYTES = 4 * 1024 * 1024, // and their jobs' bytes, beyond one
    LATE_MS = 100,                  // of its own pace, that a run makes up for; more is let go, or a pause would end in a burst
};

typedef struct run {
    const requeue_wish_t *wish;
    tally_t tally;
    conn_t *conn;   // NULL in a dry run
    int64_t newest; // plan->newest
    subject_t flights[FLIGHTS];
    size_t first, flying; // a ring
    size_t bytes;         // of jobs on their way
    char **refusals;      // of each queue: why Redis refuses it; NULL = it does not; owned
    char **strangers;     // of each queue: why nothing may be put there; NULL = it may; owned
    int64_t now_ms;       // by Redis's clock, when it began; 0 in a dry run
    mono_t began;
    buffer_t bytes_of;  // what is pushed in place of a row's payload
    redis_error_t stop; // outcome not OK: nothing more is asked
    sigset_t signals;   // that tell us to stop
    int signal;         // the one that did; 0 = none
    mono_t due;         // when the next one may be sent
} run_t;

// Signals are kept waiting and looked at between two chunks, so that what is under way is finished.
static void hold_signals(run_t *run) {
    sigemptyset(&run->signals);
    sigaddset(&run->signals, SIGINT);
    sigaddset(&run->signals, SIGTERM);
    sigaddset(&run->signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &run->signals, NULL);
}

static bool told_to_stop(run_t *run, int64_t wait_ns) {
    struct timespec most = {.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};
    if (run->signal) return true;
    int got = sigtimedwait(&run->signals, NULL, &most);
    if (got <= 0) return false;
    run->signal = got;
    sigprocmask(SIG_UNBLOCK, &run->signals, NULL); // a second one ends the process at once
    return true;
}

static int64_t interval_ns(const run_t *run) { return 60 * NS_PER_S / run->wish->per_minute; }

// Waits until one or more may be sent; 0 = it was told to stop. The pace is even: each one has a time of its own.
static size_t wait_for_turn(run_t *run) {
    if (!run->wish->per_minute || run->wish->dry) return told_to_stop(run, 0) ? 0 : CHUNK;
    int64_t late = mono_diff(mono_now(), run->due);
    while (late < 0) {
        tally_progress(&run->tally, false);
        if (told_to_stop(run, late < -NS_PER_S / 5 ? NS_PER_S / 5 : -late)) return 0;
        late = mono_diff(mono_now(), run->due);
    }
    if (told_to_stop(run, 0)) return 0;
    if (late > LATE_MS * NS_PER_MS) {
        run->due = mono_add(run->due, late - LATE_MS * NS_PER_MS);
        late = LATE_MS * NS_PER_MS;
    }
    int64_t count = late / interval_ns(run) + 1;
    return count < CHUNK ? (size_t)count : CHUNK;
}

static void cut(char *to, size_t size, slice_t text) { snprintf(to, size, "%.*s", (int)text.len, text.data); }

// "requeued 2026-11-21 12:00:03 UTC by alice@host: note"; owned.
static char *answer_text(const run_t *run, const char *state, int64_t at, slice_t by, slice_t note) {
    char time[WHEN_SIZE], zone[WHEN_SIZE];
    when_text(at, run->wish->utc, time);
    when_zone(at, run->wish->utc, zone);
    return mem_printf("%s %s %s by %.*s%s%.*s", state, time, zone, (int)by.len, by.data, note.len ? ": " : "", (int)note.len,
                      note.data);
}

static void tell(run_t *run, const subject_t *subject, fate_t fate, const char *detail) {
    tally_add(&run->tally, subject, fate, detail);
    tally_progress(&run->tally, false);
}

// Where its mark and record belong, and where the job goes. What is no longer in the config is at home with the first queue,
// wherever it goes: two marks in two places would not know of each other. (In Cluster they must be in the slot of the queue that
// takes it.) Of a discarded one nothing goes anywhere.
static fate_t find_queues(const run_t *run, const audit_row_t *row, subject_t *subject) {
    const keyspace_t *keys = run->wish->keys;
    size_t home = 0;
    while (home < keys->queue_count && !slice_is(row->event.queue, keys->queues[home].config->name)) home++;
    bool known = home < keys->queue_count;
    if (!known && run->wish->to < 0 && !run->wish->discards) return FATE_NO_QUEUE;
    if (!known) home = run->wish->to >= 0 && keys->config->lock.scope == LOCK_SCOPE_QUEUE ? (size_t)run->wish->to : 0;
    subject->home = home;
    subject->to = run->wish->to < 0 ? home : (size_t)run->wish->to;
    if (run->wish->discards) return FATE_WOULD;
    const char *dialect = dialect_ops(keys->queues[subject->to].config->dialect)->name;
    return slice_is(row->event.dialect, dialect) ? FATE_WOULD : FATE_OTHER_DIALECT;
}

// A job of no bytes is one, too, where its record says so.
static bool has_payload(const event_t *event) {
    int64_t len = (int64_t)event->payload.len;
    return len == event->size ? len > 0 || event->sha256.len > 0 : event->size == 0;
}

static fate_t judge(const run_t *run, const audit_row_t *row, const digest_t *digest, subject_t *subject) {
    char sha256[DIGEST_HEX_SIZE];
    if (!slice_is(row->event.kind, "failed")) return FATE_NO_FAILURE;
    if (!slice_is(row->state, "failed") && !run->wish->again) return FATE_ANSWERED;
    fate_t fate = find_queues(run, row, subject);
    if (fate != FATE_WOULD || run->wish->discards) return fate;
    if (!has_payload(&row->event)) return FATE_NO_PAYLOAD;
    digest_hex(digest, sha256);
    return row->event.sha256.len == 0 || slice_is(row->event.sha256, sha256) ? FATE_WOULD : FATE_DAMAGED;
}

// False, with what has become of it: it cannot be put back.
static bool prepare(run_t *run, const audit_row_t *row, const subject_t *subject, requeue_where_t *where) {
    buffer_t why = {0};
    int64_t now_ms = run->now_ms + mono_diff(mono_now(), run->began) / NS_PER_MS;
    buffer_clear(&run->bytes_of);
    bool fit =
        run->wish->discards || requeue_prepare(run->wish->keys, subject->to, &row->event, now_ms, where, &run->bytes_of, &why);
    if (!fit) tell(run, subject, FATE_UNFIT, buffer_text(&why));
    buffer_free(&why);
    return fit;
}

static void ask(run_t *run, const audit_row_t *row, const digest_t *digest, const subject_t *subject,
                const requeue_where_t *where) {
    const requeue_wish_t *wish = run->wish;
    char id[EVENT_ID_SIZE];
    uint64_t nth;
    const char *to = subject->to != subject->home || wish->to >= 0 ? wish->keys->queues[subject->to].config->name : "";
    char *note = *to ? mem_printf("to %s%s%s", to, *wish->note ? ": " : "", wish->note) : mem_str(wish->note);
    event_t record = {.kind = slice_text(wish->discards ? "discarded" : "requeued"),
                      .dialect = row->event.dialect,
                      .queue = row->event.queue,
                      .job = row->event.job,
                      .type = row->event.type,
                      .worker = slice_text(wish->by),
                      .reason = slice_text(note),
                      .sha256 = row->event.sha256,
                      .answers = row->event.event,
                      .size = row->event.size};
    random_bytes(&nth, sizeof nth); // no two answers are one event, not even those to one failure
    event_id(&record, 0, (int64_t)(nth >> 1), id);
    record.event = slice_text(id);
    requeue_append(run->conn, wish->keys,
                   &(requeue_ask_t){.queue = subject->home,
                                    .to = subject->to,
                                    .discards = wish->discards,
                                    .again = wish->again,
                                    .job = row->event.payload,
                                    .where = where,
                                    .digest = digest,
                                    .by = wish->by,
                                    .record = &record});
    run->flights[(run->first + run->flying++) % FLIGHTS] = *subject;
    run->bytes += row->event.payload.len + run->bytes_of.len;
    free(note);
}

// All further asks of this queue would end like this one.
static void refuse(run_t *run, const subject_t *subject, const char *why) {
    if (!run->refusals[subject->home]) run->refusals[subject->home] = mem_str(why);
    tell(run, subject, FATE_REFUSED, why);
}

static void land_one(run_t *run) {
    const subject_t subject = run->flights[run->first];
    requeue_reply_t reply;
    redis_error_t error;
    outcome_t outcome = requeue_read(run->conn, &reply, &error);
    run->first = (run->first + 1) % FLIGHTS;
    run->flying--;
    if (outcome == OUTCOME_DISCONNECTED) {
        if (run->stop.outcome != OUTCOME_DISCONNECTED) run->stop = error;
        tell(run, &subject, FATE_UNKNOWN, NULL);
    } else if (outcome == OUTCOME_REFUSED) {
        refuse(run, &subject, error.text);
    } else if (outcome == OUTCOME_RETRY) { // it is left, not refused: a later run does it
        if (run->stop.outcome == OUTCOME_OK) run->stop = error;
    } else if (reply.kind == REQUEUE_WAITING) {
        tell(run, &subject, FATE_WAITING, *reply.why ? reply.why : NULL);
    } else if (reply.kind == REQUEUE_FAILED) {
        refuse(run, &subject, reply.why);
    } else if (reply.kind == REQUEUE_KNOWN) {
        char *text = answer_text(run, reply.state, reply.at_ms, slice_text(reply.by), slice_text(""));
        tell(run, &subject, FATE_ANSWERED, text);
        free(text);
    } else {
        bool recorded = reply.kind == REQUEUE_DONE;
        tell(run, &subject, recorded ? FATE_DONE : FATE_UNRECORDED, recorded ? NULL : reply.why);
    }
}

// Reads answers until no more than `most` are awaited.
static void land(run_t *run, size_t most) {
    while (run->flying > most) land_one(run);
    if (!run->flying) run->bytes = 0;
}

static bool take_row(void *self, const audit_row_t *row) {
    run_t *run = self;
    subject_t subject = {0};
    if (row->event.at > run->newest) return true; // retention has removed what was chosen, and its place went to a later event
    digest_t digest = digest_of(row->event.payload.data, row->event.payload.len);
    cut(subject.ref, sizeof subject.ref, row->ref);
    cut(subject.event, sizeof subject.event, row->event.event);
    cut(subject.queue, sizeof subject.queue, row->event.queue);
    cut(subject.job, sizeof subject.job, row->event.job);
    fate_t fate = judge(run, row, &digest, &subject);
    requeue_where_t where = {0};
    if (fate == FATE_WOULD && run->refusals[subject.home]) {
        tell(run, &subject, FATE_REFUSED, run->refusals[subject.home]);
    } else if (fate == FATE_WOULD && run->strangers[subject.to]) {
        tell(run, &subject, FATE_REFUSED, run->strangers[subject.to]);
    } else if (fate == FATE_ANSWERED) {
        char *state = mem_printf("%.*s", (int)row->state.len, row->state.data);
        char *text = answer_text(run, state, row->answered_at, row->answered_by, row->answer_reason);
        tell(run, &subject, fate, text);
        free(text);
        free(state);
    } else if (fate == FATE_WOULD && !prepare(run, row, &subject, &where)) {
        return true;
    } else if (fate == FATE_WOULD && !run->wish->dry) {
        ask(run, row, &digest, &subject, &where);
        if (run->bytes > FLIGHT_BYTES) land(run, 0);
    } else {
        tell(run, &subject, fate, NULL);
    }
    return run->stop.outcome == OUTCOME_OK;
}

// One chunk: what was asked before is answered while this one is read from the log and asked.
static bool go(run_t *run, const int64_t *seqs, size_t count, buffer_t *why) {
    redis_error_t error;
    int64_t before = 0, after = 0;
    for (int i = 0; i < FATE_COUNT; i++) before += run->tally.of[i];
    size_t flying = run->flying;
    if (!audit_rows(run->wish->audit, seqs, count, take_row, run, why)) return false;
    for (int i = 0; i < FATE_COUNT; i++) after += run->tally.of[i];
    // What retention has removed since it was planned.
    for (int64_t met = after - before + (int64_t)(run->flying - flying); run->stop.outcome == OUTCOME_OK && met < (int64_t)count;
         met++)
        tell(run, &(subject_t){.ref = "-"}, FATE_GONE, NULL);
    if (run->flying && conn_flush(run->conn, &error) != OUTCOME_OK) run->stop = error;
    land(run, run->wish->per_minute || run->stop.outcome != OUTCOME_OK ? 0 : CHUNK);
    return true;
}

static bool work(run_t *run, const plan_t *plan, buffer_t *why) {
    run->due = mono_now();
    for (size_t next = 0; next < plan->count && run->stop.outcome == OUTCOME_OK;) {
        size_t count = wait_for_turn(run);
        if (!count) break;
        if (count > plan->count - next) count = plan->count - next;
        if (!go(run, plan->seqs + next, count, why)) return false;
        if (run->wish->per_minute) run->due = mono_add(run->due, (int64_t)count * interval_ns(run));
        next += count;
    }
    return true;
}

// Why not everything was tried; NULL = it was. Owned.
static char *stop_text(const run_t *run) {
    if (run->signal) return mem_printf("told to (%s)", strsignal(run->signal));
    if (run->stop.outcome == OUTCOME_OK) return NULL;
    if (strncmp(run->stop.text, "OOM", 3) == 0)
        return mem_str("Redis is full, and takes no job back while it is: raise maxmemory, or let workers make room");
    return mem_printf("%s: %s", run->stop.outcome == OUTCOME_DISCONNECTED ? "Redis was lost" : "Redis is not ready",
                      run->stop.text);
}

static int exit_code(const run_t *run, int status) {
    if (run->signal) return 128 + run->signal;
    if (run->stop.outcome == OUTCOME_DISCONNECTED) return CLI_REDIS_UNREACHABLE;
    return run->stop.outcome == OUTCOME_OK ? status : CLI_FAILED;
}

// Redis's clock, and queues whose keys are not what their dialect takes them for.
static outcome_t look_around(run_t *run, redis_error_t *error) {
    const keyspace_t *keys = run->wish->keys;
    if (requeue_now(run->conn, &run->now_ms, error) != OUTCOME_OK) return error->outcome;
    run->began = mono_now();
    for (size_t i = 0; i < keys->queue_count && !run->wish->discards; i++) {
        const dialect_ops_t *ops = dialect_ops(keys->queues[i].config->dialect);
        buffer_t refusal = {0};
        outcome_t outcome = ops->adopt ? ops->adopt(run->conn, keys, i, &refusal, error) : OUTCOME_OK;
        if (outcome == OUTCOME_REFUSED) run->strangers[i] = mem_str(error->text);
        if (outcome == OUTCOME_OK && refusal.len) run->strangers[i] = mem_str(buffer_text(&refusal));
        buffer_free(&refusal);
        if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) return outcome;
    }
    return OUTCOME_OK;
}

// False after a message; *status is the exit code.
static bool connect_to_redis(run_t *run, const plan_t *plan, int *status) {
    redis_error_t error;
    if (run->wish->dry || plan->count == 0) return true;
    run->conn = conn_new(&run->wish->keys->config->redis, "queue-sidecar-requeue", NULL);
    outcome_t outcome = conn_open(run->conn, &error);
    if (outcome == OUTCOME_OK) outcome = look_around(run, &error);
    if (outcome == OUTCOME_OK) return true;
    fprintf(stderr, "queue-sidecar: redis at %s: %s\n", conn_target(run->conn), error.text);
    *status = outcome == OUTCOME_REFUSED ? CLI_FAILED : CLI_REDIS_UNREACHABLE;
    return false;
}

int requeue_run(const requeue_wish_t *wish, const plan_t *plan) {
    run_t *run = mem_alloc(sizeof *run);
    buffer_t why = {0};
    int status = CLI_OK;
    run->wish = wish;
    run->newest = plan->newest;
    run->refusals = mem_array(wish->keys->queue_count, sizeof *run->refusals);
    run->strangers = mem_array(wish->keys->queue_count, sizeof *run->strangers);
    hold_signals(run);
    if (connect_to_redis(run, plan, &status)) {
        tally_begin(&run->tally, wish, (int64_t)plan->count + plan->answered, plan->answered);
        bool read = work(run, plan, &why);
        if (run->conn) land(run, 0);
        char *stopped = read ? stop_text(run) : mem_str("the audit log cannot be read");
        status = exit_code(run, tally_end(&run->tally, stopped));
        if (!read) status = audit_complain(&why);
        free(stopped);
    }
    for (size_t i = 0; i < wish->keys->queue_count; i++) {
        free(run->refusals[i]);
        free(run->strangers[i]);
    }
    free(run->refusals);
    free(run->strangers);
    buffer_free(&run->bytes_of);
    conn_free(run->conn);
    free(run);
    return status;
}
