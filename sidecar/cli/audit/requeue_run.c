// Puts failures back, or discards them, one script each: many on their way at once, at the pace that was asked for.
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
    CHUNK = 128,                           // asks that are made before the answers to those before are read
    MAX_IN_FLIGHT = 2 * CHUNK,             // on their way at the most
    MAX_IN_FLIGHT_BYTES = 4 * 1024 * 1024, // and their jobs' bytes, beyond one
    MAX_LATE_MS = 100, // of its own pace, that a run makes up for; more is let go, or a pause would end in a burst
};

typedef struct run {
    const requeue_options_t *options;
    requeue_report_t report;
    conn_t *conn;   // NULL in a dry run
    int64_t newest; // plan->newest
    requeue_target_t in_flight[MAX_IN_FLIGHT];
    size_t first, in_flight_count; // a ring
    size_t in_flight_bytes;        // of jobs on their way
    char **refused_queues;         // of each queue: why Redis refuses it; NULL = it does not; owned
    char **unusable_queues;        // of each queue: why nothing may be put there; NULL = it may; owned
    int64_t now_ms;                // by Redis's clock, when it began; 0 in a dry run
    mono_t began;
    buffer_t pushed_bytes; // what is pushed in place of a row's payload
    redis_error_t stop;    // outcome not OK: nothing more is asked
    sigset_t signals;      // that tell us to stop
    int signal;            // the one that did; 0 = none
    mono_t due;            // when the next one may be sent
} run_t;

// Signals are kept waiting and looked at between two chunks, so that what is under way is finished.
static void run_block_signals(run_t *run) {
    sigemptyset(&run->signals);
    sigaddset(&run->signals, SIGINT);
    sigaddset(&run->signals, SIGTERM);
    sigaddset(&run->signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &run->signals, NULL);
}

static bool run_is_interrupted(run_t *run, int64_t wait_ns) {
    struct timespec most = {.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};
    if (run->signal) return true;
    int got = sigtimedwait(&run->signals, NULL, &most);
    if (got <= 0) return false;
    run->signal = got;
    sigprocmask(SIG_UNBLOCK, &run->signals, NULL); // a second one ends the process at once
    return true;
}

static int64_t run_interval_ns(const run_t *run) { return 60 * NS_PER_S / run->options->per_minute; }

// Waits until one or more may be sent; 0 = it was told to stop. The pace is even: each one has a time of its own.
static size_t run_wait_for_turn(run_t *run) {
    if (!run->options->per_minute || run->options->dry_run) return run_is_interrupted(run, 0) ? 0 : CHUNK;
    int64_t late = mono_diff(mono_now(), run->due);
    while (late < 0) {
        report_progress(&run->report, false);
        if (run_is_interrupted(run, late < -NS_PER_S / 5 ? NS_PER_S / 5 : -late)) return 0;
        late = mono_diff(mono_now(), run->due);
    }
    if (run_is_interrupted(run, 0)) return 0;
    if (late > MAX_LATE_MS * NS_PER_MS) {
        run->due = mono_add(run->due, late - MAX_LATE_MS * NS_PER_MS);
        late = MAX_LATE_MS * NS_PER_MS;
    }
    int64_t count = late / run_interval_ns(run) + 1;
    return count < CHUNK ? (size_t)count : CHUNK;
}

static void run_copy_text(char *to, size_t size, slice_t text) { snprintf(to, size, "%.*s", (int)text.len, text.data); }

// "requeued 2026-11-21 12:00:03 UTC by alice@host: note"; owned.
static char *run_format_answer(const run_t *run, const char *state, int64_t at, slice_t by, slice_t note) {
    char time[TIME_TEXT_SIZE], zone[TIME_TEXT_SIZE];
    time_format(at, run->options->utc, time);
    time_zone_name(at, run->options->utc, zone);
    return mem_printf("%s %s %s by %.*s%s%.*s", state, time, zone, (int)by.len, by.data, note.len ? ": " : "", (int)note.len,
                      note.data);
}

static void run_report(run_t *run, const requeue_target_t *target, requeue_result_t result, const char *detail) {
    report_add(&run->report, target, result, detail);
    report_progress(&run->report, false);
}

// Where its mark and record belong, and where the job goes. What is no longer in the config is at home with the first queue,
// wherever it goes: two marks in two places would not know of each other. (In Cluster they must be in the slot of the queue that
// takes it.) Of a discarded one nothing goes anywhere.
static requeue_result_t run_find_queues(const run_t *run, const audit_row_t *row, requeue_target_t *target) {
    const keyspace_t *keys = run->options->keys;
    size_t home = 0;
    while (home < keys->queue_count && !slice_is(row->event.queue, keys->queues[home].config->name)) home++;
    bool known = home < keys->queue_count;
    if (!known && run->options->to < 0 && !run->options->discard) return RESULT_NO_QUEUE;
    if (!known) home = run->options->to >= 0 && keys->config->lock.scope == LOCK_SCOPE_QUEUE ? (size_t)run->options->to : 0;
    target->home = home;
    target->to = run->options->to < 0 ? home : (size_t)run->options->to;
    if (run->options->discard) return RESULT_WOULD;
    const char *dialect = config_dialect_word(keys->queues[target->to].config->dialect);
    return slice_is(row->event.dialect, dialect) ? RESULT_WOULD : RESULT_OTHER_DIALECT;
}

// A job of no bytes is one, too, where its record says so.
static bool run_has_payload(const event_t *event) {
    int64_t len = (int64_t)event->payload.len;
    return len == event->size ? len > 0 || event->sha256.len > 0 : event->size == 0;
}

static requeue_result_t run_classify(const run_t *run, const audit_row_t *row, const digest_t *digest, requeue_target_t *target) {
    char sha256[DIGEST_HEX_SIZE];
    if (!slice_is(row->event.kind, "failed")) return RESULT_NO_FAILURE;
    if (!slice_is(row->state, "failed") && !run->options->again) return RESULT_ANSWERED;
    requeue_result_t result = run_find_queues(run, row, target);
    if (result != RESULT_WOULD || run->options->discard) return result;
    if (!run_has_payload(&row->event)) return RESULT_NO_PAYLOAD;
    digest_hex(digest, sha256);
    return row->event.sha256.len == 0 || slice_is(row->event.sha256, sha256) ? RESULT_WOULD : RESULT_DAMAGED;
}

// False, with what has become of it: it cannot be put back.
static bool run_prepare(run_t *run, const audit_row_t *row, const requeue_target_t *target, requeue_push_t *where) {
    buffer_t why = {0};
    int64_t now_ms = run->now_ms + mono_diff(mono_now(), run->began) / NS_PER_MS;
    buffer_clear(&run->pushed_bytes);
    bool fit = run->options->discard ||
               requeue_prepare(run->options->keys, target->to, &row->event, now_ms, where, &run->pushed_bytes, &why);
    if (!fit) run_report(run, target, RESULT_UNFIT, buffer_text(&why));
    buffer_free(&why);
    return fit;
}

static void run_send(run_t *run, const audit_row_t *row, const digest_t *digest, const requeue_target_t *target,
                     const requeue_push_t *where) {
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
    random_bytes(&nth, sizeof nth); // no two answers are one event, not even those to one failure
    event_id(&record, 0, (int64_t)(nth >> 1), id);
    record.event = slice_text(id);
    requeue_append(run->conn, options->keys,
                   &(requeue_request_t){.queue = target->home,
                                        .to = target->to,
                                        .discards = options->discard,
                                        .again = options->again,
                                        .job = row->event.payload,
                                        .where = where,
                                        .digest = digest,
                                        .by = options->by,
                                        .record = &record});
    run->in_flight[(run->first + run->in_flight_count++) % MAX_IN_FLIGHT] = *target;
    run->in_flight_bytes += row->event.payload.len + run->pushed_bytes.len;
    free(note);
}

// All further asks of this queue would end like this one.
static void run_refuse(run_t *run, const requeue_target_t *target, const char *why) {
    if (!run->refused_queues[target->home]) run->refused_queues[target->home] = mem_str(why);
    run_report(run, target, RESULT_REFUSED, why);
}

static void run_read_reply(run_t *run) {
    const requeue_target_t target = run->in_flight[run->first];
    requeue_reply_t reply;
    redis_error_t error;
    outcome_t outcome = requeue_read(run->conn, &reply, &error);
    run->first = (run->first + 1) % MAX_IN_FLIGHT;
    run->in_flight_count--;
    if (outcome == OUTCOME_DISCONNECTED) {
        if (run->stop.outcome != OUTCOME_DISCONNECTED) run->stop = error;
        run_report(run, &target, RESULT_UNKNOWN, NULL);
    } else if (outcome == OUTCOME_REFUSED) {
        run_refuse(run, &target, error.text);
    } else if (outcome == OUTCOME_RETRY) { // it is left, not refused: a later run does it
        if (run->stop.outcome == OUTCOME_OK) run->stop = error;
    } else if (reply.kind == REQUEUE_WAITING) {
        run_report(run, &target, RESULT_WAITING, *reply.why ? reply.why : NULL);
    } else if (reply.kind == REQUEUE_FAILED) {
        run_refuse(run, &target, reply.why);
    } else if (reply.kind == REQUEUE_KNOWN) {
        char *text = run_format_answer(run, reply.state, reply.at_ms, slice_text(reply.by), slice_text(""));
        run_report(run, &target, RESULT_ANSWERED, text);
        free(text);
    } else {
        bool recorded = reply.kind == REQUEUE_DONE;
        run_report(run, &target, recorded ? RESULT_DONE : RESULT_UNRECORDED, recorded ? NULL : reply.why);
    }
}

// Reads answers until no more than `most` are awaited.
static void run_read_replies(run_t *run, size_t most) {
    while (run->in_flight_count > most) run_read_reply(run);
    if (!run->in_flight_count) run->in_flight_bytes = 0;
}

static bool run_add_row(void *self, const audit_row_t *row) {
    run_t *run = self;
    requeue_target_t target = {0};
    if (row->event.at > run->newest) return true; // retention has removed what was chosen, and its place went to a later event
    digest_t digest = digest_of(row->event.payload.data, row->event.payload.len);
    run_copy_text(target.ref, sizeof target.ref, row->ref);
    run_copy_text(target.event, sizeof target.event, row->event.event);
    run_copy_text(target.queue, sizeof target.queue, row->event.queue);
    run_copy_text(target.job, sizeof target.job, row->event.job);
    requeue_result_t result = run_classify(run, row, &digest, &target);
    requeue_push_t where = {0};
    if (result == RESULT_WOULD && run->refused_queues[target.home]) {
        run_report(run, &target, RESULT_REFUSED, run->refused_queues[target.home]);
    } else if (result == RESULT_WOULD && run->unusable_queues[target.to]) {
        run_report(run, &target, RESULT_REFUSED, run->unusable_queues[target.to]);
    } else if (result == RESULT_ANSWERED) {
        char *state = mem_printf("%.*s", (int)row->state.len, row->state.data);
        char *text = run_format_answer(run, state, row->answered_at, row->answered_by, row->answer_reason);
        run_report(run, &target, result, text);
        free(text);
        free(state);
    } else if (result == RESULT_WOULD && !run_prepare(run, row, &target, &where)) {
        return true;
    } else if (result == RESULT_WOULD && !run->options->dry_run) {
        run_send(run, row, &digest, &target, &where);
        if (run->in_flight_bytes > MAX_IN_FLIGHT_BYTES) run_read_replies(run, 0);
    } else {
        run_report(run, &target, result, NULL);
    }
    return run->stop.outcome == OUTCOME_OK;
}

// One chunk: what was asked before is answered while this one is read from the log and asked.
static bool run_chunk(run_t *run, const int64_t *seqs, size_t count, buffer_t *why) {
    redis_error_t error;
    int64_t before = 0, after = 0;
    for (int i = 0; i < RESULT_COUNT; i++) before += run->report.of[i];
    size_t in_flight_count = run->in_flight_count;
    if (!audit_rows(run->options->audit, seqs, count, run_add_row, run, why)) return false;
    for (int i = 0; i < RESULT_COUNT; i++) after += run->report.of[i];
    // What retention has removed since it was planned.
    for (int64_t met = after - before + (int64_t)(run->in_flight_count - in_flight_count);
         run->stop.outcome == OUTCOME_OK && met < (int64_t)count; met++)
        run_report(run, &(requeue_target_t){.ref = "-"}, RESULT_GONE, NULL);
    if (run->in_flight_count && conn_flush(run->conn, &error) != OUTCOME_OK) run->stop = error;
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

// Why not everything was tried; NULL = it was. Owned.
static char *run_format_stop(const run_t *run) {
    if (run->signal) return mem_printf("told to (%s)", strsignal(run->signal));
    if (run->stop.outcome == OUTCOME_OK) return NULL;
    if (strncmp(run->stop.text, "OOM", 3) == 0)
        return mem_str("Redis is full, and takes no job back while it is: raise maxmemory, or let workers make room");
    return mem_printf("%s: %s", run->stop.outcome == OUTCOME_DISCONNECTED ? "Redis was lost" : "Redis is not ready",
                      run->stop.text);
}

static int run_exit_code(const run_t *run, int status) {
    if (run->signal) return 128 + run->signal;
    if (run->stop.outcome == OUTCOME_DISCONNECTED) return CLI_REDIS_UNREACHABLE;
    return run->stop.outcome == OUTCOME_OK ? status : CLI_FAILED;
}

// Redis's clock, and queues whose keys are not what their dialect takes them for.
static outcome_t run_check_queues(run_t *run, redis_error_t *error) {
    const keyspace_t *keys = run->options->keys;
    if (requeue_now(run->conn, &run->now_ms, error) != OUTCOME_OK) return error->outcome;
    run->began = mono_now();
    for (size_t i = 0; i < keys->queue_count && !run->options->discard; i++) {
        const dialect_ops_t *ops = dialect_ops(keys->queues[i].config->dialect);
        buffer_t refusal = {0};
        outcome_t outcome = ops->adopt ? ops->adopt(run->conn, keys, i, &refusal, error) : OUTCOME_OK;
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
    if (run->options->dry_run || plan->count == 0) return true;
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
        report_begin(&run->report, options, (int64_t)plan->count + plan->answered, plan->answered);
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
    conn_free(run->conn);
    free(run);
    return status;
}
