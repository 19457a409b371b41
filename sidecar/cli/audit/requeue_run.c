// Requeues or discards failures, one script each, many in flight at once.
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/audit/requeue.h"
#include "cli/time_text.h"
#include "dialects/dialect.h"

enum {
    CHUNK = 128,                           // requests that are sent before the replies to those before are read
    MAX_IN_FLIGHT = 2 * CHUNK,             // requests
    MAX_IN_FLIGHT_BYTES = 4 * 1024 * 1024, // of their jobs, beyond one
    MAX_LATE_MS = 100,                     // that a run catches up; more is dropped, or a pause would end in a burst
    SIGNAL_CHECK_MS = 200,
};

typedef struct run {
    const requeue_options_t *options;
    requeue_report_t report;
    conn_t *conn;   // NULL in a dry run
    int64_t newest; // plan->newest
    struct {        // a ring
        requeue_target_t targets[MAX_IN_FLIGHT];
        size_t first, count, bytes;
    } in_flight;
    char **refused_queues;  // by home queue: Redis's error for all its failures; NULL = none; owned
    char **unusable_queues; // by target queue: why it takes no job; NULL = it does; owned
    int64_t now_ms;         // by Redis's clock, at `began`; 0 in a dry run
    mono_t began;
    mono_t due;            // when the next request may be sent
    buffer_t pushed_bytes; // what is pushed instead of a row's payload
    buffer_t detail;       // of the result of a row
    redis_error_t stop;    // its outcome is not OK: send no more requests
    sigset_t signals;
    int signal; // that stopped the run; 0 = none
} run_t;

// Signals wait until the replies of a chunk are read.
static void run_block_signals(run_t *run) {
    sigemptyset(&run->signals);
    sigaddset(&run->signals, SIGINT);
    sigaddset(&run->signals, SIGTERM);
    sigaddset(&run->signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &run->signals, NULL);
}

static bool run_is_interrupted(run_t *run, int64_t wait_ns) {
    struct timespec timeout = {.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};
    if (run->signal) return true;
    int got = sigtimedwait(&run->signals, NULL, &timeout);
    if (got <= 0) return false;
    run->signal = got;
    sigprocmask(SIG_UNBLOCK, &run->signals, NULL); // a second signal ends the process at once
    return true;
}

static int64_t run_interval_ns(const run_t *run) { return 60 * NS_PER_S / run->options->per_minute; }

// Waits until one request or more may be sent, and returns how many; 0 = interrupted. With a rate each has a time of its own.
static size_t run_wait_for_turn(run_t *run) {
    if (!run->options->per_minute || run->options->args->requeue.dry_run) return run_is_interrupted(run, 0) ? 0 : CHUNK;
    int64_t late;
    while ((late = mono_diff(mono_now(), run->due)) < 0) {
        report_progress(&run->report);
        if (run_is_interrupted(run, late < -SIGNAL_CHECK_MS * NS_PER_MS ? SIGNAL_CHECK_MS * NS_PER_MS : -late)) return 0;
    }
    if (run_is_interrupted(run, 0)) return 0;
    if (late > MAX_LATE_MS * NS_PER_MS) {
        run->due = mono_add(run->due, late - MAX_LATE_MS * NS_PER_MS);
        late = MAX_LATE_MS * NS_PER_MS;
    }
    int64_t count = late / run_interval_ns(run) + 1;
    return count < CHUNK ? (size_t)count : CHUNK;
}

// "requeued 2026-11-21 12:00:03 UTC by alice@host: note"
static void run_format_answer(run_t *run, slice_t state, int64_t at, slice_t by, slice_t note) {
    char time[TIME_TEXT_SIZE], zone[TIME_TEXT_SIZE];
    bool utc = run->options->args->utc;
    time_format(at, utc, time);
    time_zone_name(at, utc, zone);
    buffer_clear(&run->detail);
    buffer_printf(&run->detail, "%.*s %s %s by %.*s%s%.*s", (int)state.len, state.data, time, zone, (int)by.len, by.data,
                  note.len ? ": " : "", (int)note.len, note.data);
}

// The reason goes into run->detail.
static requeue_result_t run_result(run_t *run, requeue_result_t result, const char *detail) {
    buffer_clear(&run->detail);
    buffer_str(&run->detail, detail);
    return result;
}

static void run_report(run_t *run, const requeue_target_t *target, requeue_result_t result) {
    report_add(&run->report, target, result, run->detail.len ? buffer_text(&run->detail) : NULL);
}

// The home queue holds the marker and the record. A failure whose queue is no longer in the config has the first queue as its
// home, wherever the job goes: two markers in two places would not know of each other. In Redis Cluster the marker must be in the
// slot of the queue that takes the job.
static requeue_result_t run_find_queues(const run_t *run, const audit_row_t *row, requeue_target_t *target) {
    const keyspace_t *keys = run->options->keys;
    int64_t to = run->options->to;
    size_t home = 0;
    while (home < keys->queue_count && !slice_is(row->event.queue, keys->queues[home].config->name)) home++;
    bool known = home < keys->queue_count;
    if (!known && to < 0 && !run->options->discard) return RESULT_NO_QUEUE;
    if (!known) home = to >= 0 && keys->config->lock.scope == LOCK_SCOPE_QUEUE ? (size_t)to : 0;
    target->home = home;
    target->to = to < 0 ? home : (size_t)to;
    if (run->options->discard) return RESULT_WOULD;
    const char *dialect = config_dialect_word(keys->queues[target->to].config->dialect);
    return slice_is(row->event.dialect, dialect) ? RESULT_WOULD : RESULT_OTHER_DIALECT;
}

// A job may have no bytes, if its record says so.
static bool run_has_payload(const event_t *event) {
    int64_t len = (int64_t)event->payload.len;
    return len == event->size ? len > 0 || event->sha256.len > 0 : event->size == 0;
}

static requeue_result_t run_prepare(run_t *run, const audit_row_t *row, const digest_t *digest, const requeue_target_t *target,
                                    requeue_push_t *push) {
    char sha256[DIGEST_HEX_SIZE];
    int64_t now_ms = run->now_ms + mono_diff(mono_now(), run->began) / NS_PER_MS;
    if (!run_has_payload(&row->event)) return RESULT_NO_PAYLOAD;
    digest_hex(digest, sha256);
    if (row->event.sha256.len && !slice_is(row->event.sha256, sha256)) return RESULT_DAMAGED;
    const char *refused = run->refused_queues[target->home], *unusable = run->unusable_queues[target->to];
    if (refused || unusable) return run_result(run, RESULT_REFUSED, refused ? refused : unusable);
    buffer_clear(&run->pushed_bytes);
    bool fits = requeue_prepare(run->options->keys, target->to, &row->event, now_ms, push, &run->pushed_bytes, &run->detail);
    return fits ? RESULT_WOULD : RESULT_UNFIT;
}

static requeue_result_t run_classify(run_t *run, const audit_row_t *row, const digest_t *digest, requeue_target_t *target,
                                     requeue_push_t *push) {
    buffer_clear(&run->detail);
    if (!slice_is(row->event.kind, "failed")) return RESULT_NO_FAILURE;
    if (!slice_is(row->state, "failed") && !run->options->args->requeue.again) {
        run_format_answer(run, row->state, row->answered_at, row->answered_by, row->answer_reason);
        return RESULT_ANSWERED;
    }
    requeue_result_t result = run_find_queues(run, row, target);
    if (result != RESULT_WOULD) return result;
    if (!run->options->discard) return run_prepare(run, row, digest, target, push);
    const char *refused = run->refused_queues[target->home];
    return refused ? run_result(run, RESULT_REFUSED, refused) : RESULT_WOULD;
}

static void run_send(run_t *run, const audit_row_t *row, const digest_t *digest, const requeue_target_t *target,
                     const requeue_push_t *push) {
    const requeue_options_t *options = run->options;
    char id[EVENT_ID_SIZE];
    uint64_t nth;
    const char *to = target->to != target->home || options->to >= 0 ? options->keys->queues[target->to].config->name : "";
    char *note = *to ? mem_printf("to %s%s%s", to, *options->note ? ": " : "", options->note) : mem_str(options->note);
    event_t record = {.kind = slice_text(options->discard ? "discarded" : "requeued"),
                      .dialect = row->event.dialect,
                      .queue = row->event.queue,
                      .job = row->event.job,
                      .type = row->event.type,
                      .worker = slice_text(options->by),
                      .reason = slice_text(note),
                      .sha256 = row->event.sha256,
                      .answers = row->event.event,
                      .size = row->event.size};
    random_bytes(&nth, sizeof nth); // two answers to one failure are two events
    event_id(&record, 0, (int64_t)(nth >> 1), id);
    record.event = slice_text(id);
    requeue_append(run->conn, options->keys,
                   &(requeue_request_t){.queue = target->home,
                                        .to = target->to,
                                        .discards = options->discard,
                                        .again = options->args->requeue.again,
                                        .job = row->event.payload,
                                        .where = push,
                                        .digest = digest,
                                        .by = options->by,
                                        .record = &record});
    run->in_flight.targets[(run->in_flight.first + run->in_flight.count++) % MAX_IN_FLIGHT] = *target;
    run->in_flight.bytes += row->event.payload.len + run->pushed_bytes.len;
    free(note);
}

// All further requests for this queue would be refused too.
static requeue_result_t run_refuse(run_t *run, const requeue_target_t *target, const char *why) {
    if (!run->refused_queues[target->home]) run->refused_queues[target->home] = mem_str(why);
    return run_result(run, RESULT_REFUSED, why);
}

static requeue_result_t run_reply_result(run_t *run, const requeue_target_t *target, const requeue_reply_t *reply) {
    switch (reply->kind) {
    case REQUEUE_DONE: return run_result(run, RESULT_DONE, "");
    case REQUEUE_UNRECORDED: return run_result(run, RESULT_UNRECORDED, reply->why);
    case REQUEUE_WAITING: return run_result(run, RESULT_WAITING, reply->why);
    case REQUEUE_FAILED: return run_refuse(run, target, reply->why);
    case REQUEUE_KNOWN: run_format_answer(run, slice_text(reply->state), reply->at_ms, slice_text(reply->by), slice_text(""));
    }
    return RESULT_ANSWERED;
}

static void run_read_reply(run_t *run) {
    const requeue_target_t *target = &run->in_flight.targets[run->in_flight.first];
    requeue_reply_t reply;
    redis_error_t error;
    outcome_t outcome = requeue_read(run->conn, &reply, &error);
    run->in_flight.first = (run->in_flight.first + 1) % MAX_IN_FLIGHT;
    run->in_flight.count--;
    if (outcome == OUTCOME_RETRY) { // left for a later run
        if (run->stop.outcome == OUTCOME_OK) run->stop = error;
        return;
    }
    if (outcome == OUTCOME_DISCONNECTED && run->stop.outcome != OUTCOME_DISCONNECTED) run->stop = error;
    run_report(run, target,
               outcome == OUTCOME_DISCONNECTED ? run_result(run, RESULT_UNKNOWN, "")
               : outcome == OUTCOME_REFUSED    ? run_refuse(run, target, error.text)
                                               : run_reply_result(run, target, &reply));
}

// Reads replies until at most `keep` are awaited.
static void run_read_replies(run_t *run, size_t keep) {
    while (run->in_flight.count > keep) run_read_reply(run);
    if (!run->in_flight.count) run->in_flight.bytes = 0;
}

#define RUN_COPY(to, text) snprintf((to), sizeof(to), "%.*s", (int)(text).len, (text).data)

static bool run_add_row(void *self, const audit_row_t *row) {
    run_t *run = self;
    requeue_target_t target = {0};
    requeue_push_t push = {0};
    if (row->event.at > run->newest) return true; // retention removed the chosen row, and a later event got its seq
    digest_t digest = digest_of(row->event.payload.data, row->event.payload.len);
    RUN_COPY(target.ref, row->ref);
    RUN_COPY(target.event, row->event.event);
    RUN_COPY(target.queue, row->event.queue);
    RUN_COPY(target.job, row->event.job);
    requeue_result_t result = run_classify(run, row, &digest, &target, &push);
    if (result != RESULT_WOULD || run->options->args->requeue.dry_run) {
        run_report(run, &target, result);
    } else {
        run_send(run, row, &digest, &target, &push);
        if (run->in_flight.bytes > MAX_IN_FLIGHT_BYTES) run_read_replies(run, 0);
    }
    return run->stop.outcome == OUTCOME_OK;
}

// The replies to the chunk before are read while this one is under way.
static bool run_chunk(run_t *run, const int64_t *seqs, size_t count, buffer_t *why) {
    redis_error_t error;
    int64_t before = run->report.tried + (int64_t)run->in_flight.count;
    if (!audit_rows(run->options->args->audit, seqs, count, run_add_row, run, why)) return false;
    int64_t found = run->report.tried + (int64_t)run->in_flight.count - before;
    for (; run->stop.outcome == OUTCOME_OK && found < (int64_t)count; found++) // retention removed the others
        report_add(&run->report, &(requeue_target_t){.ref = "-"}, RESULT_GONE, NULL);
    if (run->in_flight.count && conn_flush(run->conn, &error) != OUTCOME_OK) run->stop = error;
    run_read_replies(run, run->options->per_minute || run->stop.outcome != OUTCOME_OK ? 0 : CHUNK);
    return true;
}

static bool run_plan(run_t *run, const requeue_plan_t *plan, buffer_t *why) {
    run->due = mono_now();
    for (size_t next = 0; next < plan->count && run->stop.outcome == OUTCOME_OK;) {
        size_t count = run_wait_for_turn(run);
        if (!count) break;
        if (count > plan->count - next) count = plan->count - next;
        if (!run_chunk(run, plan->seqs + next, count, why)) return false;
        if (run->options->per_minute) run->due = mono_add(run->due, (int64_t)count * run_interval_ns(run));
        next += count;
    }
    return true;
}

// NULL = all failures were tried. Owned.
static char *run_format_stop(const run_t *run) {
    if (run->signal) return mem_printf("interrupted (%s)", strsignal(run->signal));
    if (run->stop.outcome == OUTCOME_OK) return NULL;
    if (strncmp(run->stop.text, "OOM", 3) == 0)
        return mem_str("Redis is full and takes no job: raise maxmemory, or let workers make room");
    return mem_printf("%s: %s", run->stop.outcome == OUTCOME_DISCONNECTED ? "lost Redis" : "Redis is not ready", run->stop.text);
}

static int run_exit_code(const run_t *run, int status) {
    if (run->signal) return 128 + run->signal;
    if (run->stop.outcome == OUTCOME_DISCONNECTED) return CLI_REDIS_UNREACHABLE;
    return run->stop.outcome == OUTCOME_OK ? status : CLI_FAILED;
}

// Reads Redis's clock, and finds queues whose keys do not fit their dialect.
static outcome_t run_check_queues(run_t *run, redis_error_t *error) {
    const keyspace_t *keys = run->options->keys;
    if (requeue_now(run->conn, &run->now_ms, error) != OUTCOME_OK) return error->outcome;
    run->began = mono_now();
    for (size_t i = 0; i < keys->queue_count && !run->options->discard; i++) {
        const dialect_ops_t *ops = dialect_ops(keys->queues[i].config->dialect);
        buffer_t refusal = {0};
        const call_t call = {.conn = run->conn, .keys = keys, .queue = i, .error = error};
        outcome_t outcome = ops->adopt ? ops->adopt(&call, &refusal) : OUTCOME_OK;
        if (outcome == OUTCOME_REFUSED) run->unusable_queues[i] = mem_str(error->text);
        if (outcome == OUTCOME_OK && refusal.len) run->unusable_queues[i] = mem_str(buffer_text(&refusal));
        buffer_free(&refusal);
        if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) return outcome;
    }
    return OUTCOME_OK;
}

// False after a message; *status is the exit code.
static bool run_connect(run_t *run, const requeue_plan_t *plan, int *status) {
    redis_error_t error;
    if (run->options->args->requeue.dry_run || plan->count == 0) return true;
    run->conn = conn_new(&run->options->keys->config->redis, "queue-sidecar-requeue", NULL);
    outcome_t outcome = conn_open(run->conn, &error);
    if (outcome == OUTCOME_OK) outcome = run_check_queues(run, &error);
    if (outcome == OUTCOME_OK) return true;
    fprintf(stderr, "queue-sidecar: redis at %s: %s\n", conn_target(run->conn), error.text);
    *status = outcome == OUTCOME_REFUSED ? CLI_FAILED : CLI_REDIS_UNREACHABLE;
    return false;
}

int requeue_run(const requeue_options_t *options, const requeue_plan_t *plan) {
    run_t *run = mem_alloc(sizeof *run);
    buffer_t why = {0};
    int status = CLI_OK;
    run->options = options;
    run->newest = plan->newest;
    run->refused_queues = mem_array(options->keys->queue_count, sizeof *run->refused_queues);
    run->unusable_queues = mem_array(options->keys->queue_count, sizeof *run->unusable_queues);
    run_block_signals(run);
    if (run_connect(run, plan, &status)) {
        report_begin(&run->report, options, plan);
        bool read = run_plan(run, plan, &why);
        if (run->conn) run_read_replies(run, 0);
        char *stopped = read ? run_format_stop(run) : mem_str("the audit log cannot be read");
        status = run_exit_code(run, report_end(&run->report, stopped));
        if (!read) status = audit_print_error(&why);
        free(stopped);
    }
    for (size_t i = 0; i < options->keys->queue_count; i++) {
        free(run->refused_queues[i]);
        free(run->unusable_queues[i]);
    }
    free(run->refused_queues);
    free(run->unusable_queues);
    buffer_free(&run->pushed_bytes);
    buffer_free(&run->detail);
    conn_free(run->conn);
    free(run);
    return status;
}
