// Requeues, discards or erases failures, with one script call for each and many calls in flight.
#include "base/text/time_text.h"
#include "dialects/dialect.h"
#include "operate/requeue/servers.h"

enum {
    CHUNK = 128,                           // requests sent before the previous chunk's replies are read
    MAX_IN_FLIGHT = 2 * CHUNK,             // requests without a reply
    MAX_IN_FLIGHT_BYTES = 4 * 1024 * 1024, // of the jobs in these requests; with more, reads all replies first
    MAX_LATE_MS = 100,                     // longest delay that a run with --rate makes up for, or a pause would end in a burst
    SLICE_MS = 200,                        // the longest wait without a look at the caller
};

typedef struct run {
    requeue_t *requeue;
    requeue_servers_t *servers;              // borrowed
    conn_t *conn;                            // of the requests without a reply; borrowed
    requeue_target_t targets[MAX_IN_FLIGHT]; // a ring: of the requests without a reply
    size_t sent, answered, bytes;            // of these requests
    size_t found;                            // rows of the chunk that are still in the log
    mono_t due;                              // when the next request may be sent
    buffer_t pushed_bytes;                   // pushed instead of the payload, if not empty
    buffer_t detail;                         // of the result of a row
    redis_error_t stop;                      // outcome not OK: send no more requests
    bool stopped;                            // by the caller
} run_t;

// A row of the log, and the request for it.
typedef struct run_job {
    const audit_row_t *row;
    digest_t digest; // of its payload
    requeue_target_t target;
    requeue_push_t push;
} run_job_t;

static bool run_is_stopped(run_t *run, int64_t wait_ns) {
    const requeue_caller_t *caller = &run->requeue->caller;
    if (!run->stopped) run->stopped = caller->wait(caller->self, wait_ns);
    return run->stopped;
}

static void run_add_result(run_t *run, const requeue_target_t *target, requeue_result_t result, const char *detail) {
    const requeue_caller_t *caller = &run->requeue->caller;
    run->requeue->counts.of[result]++;
    run->requeue->counts.tried++;
    caller->result(caller->self, target, result, detail);
}

static int64_t run_interval_ns(const run_t *run) { return 60 * NS_PER_S / run->requeue->options.per_minute; }

// Waits until one request or more may be sent, and returns how many; 0 = stopped. With a rate, requests are evenly spaced.
static size_t run_wait_for_turn(run_t *run) {
    if (!run->requeue->options.per_minute || run->requeue->options.dry_run) return run_is_stopped(run, 0) ? 0 : CHUNK;
    int64_t late;
    while ((late = mono_diff(mono_now(), run->due)) < 0)
        if (run_is_stopped(run, late < -SLICE_MS * NS_PER_MS ? SLICE_MS * NS_PER_MS : -late)) return 0;
    if (run_is_stopped(run, 0)) return 0;
    if (late > MAX_LATE_MS * NS_PER_MS) {
        run->due = mono_add(run->due, late - MAX_LATE_MS * NS_PER_MS);
        late = MAX_LATE_MS * NS_PER_MS;
    }
    int64_t count = late / run_interval_ns(run) + 1;
    return count < CHUNK ? (size_t)count : CHUNK;
}

// "requeued 2026-11-21 12:00:03 UTC by alice@host: note"
static void run_format_answer(run_t *run, slice_t state, int64_t at, slice_t by, slice_t note) {
    bool utc = run->requeue->options.utc;
    buffer_clear(&run->detail);
    buffer_printf(&run->detail, "%.*s %s %s by %.*s%s%.*s", (int)state.len, state.data, time_text(at, utc, TIME_SECONDS).text,
                  time_zone(at, utc).text, (int)by.len, by.data, note.len ? ": " : "", (int)note.len, note.data);
}

// Returns the queue whose stream gets the record of a failure whose queue the config lacks: the target, or any queue in the
// marker's slot of a Redis Cluster. Every log reads every stream.
static size_t run_find_stream(const keyspace_t *keys, slice_t queue, int64_t to) {
    char *marker = keyspace_requeued_of(queue);
    size_t home = to >= 0 ? (size_t)to : 0;
    while (to < 0 && home < keys->queue_count && keyspace_slot(keys->queues[home].failures) != keyspace_slot(marker)) home++;
    free(marker);
    return home < keys->queue_count ? home : 0;
}

// The requeue marker is always in a key of the failure's own queue. Instances whose configs differ must find the same marker.
static requeue_result_t run_find_queues(const run_t *run, const event_t *event, requeue_target_t *target) {
    const keyspace_t *keys = run->requeue->keys;
    int64_t to = run->requeue->options.to;
    size_t home = 0;
    while (home < keys->queue_count && !slice_is(event->queue, keys->queues[home].config->name)) home++;
    target->known = home < keys->queue_count;
    if (!target->known && to < 0 && requeue_pushes(&run->requeue->options)) return RESULT_NO_QUEUE;
    target->home = target->known ? home : run_find_stream(keys, event->queue, to);
    target->to = to < 0 ? target->home : (size_t)to;
    if (!requeue_pushes(&run->requeue->options)) return RESULT_WOULD;
    const char *dialect = config_dialect_word(keys->queues[target->to].config->dialect);
    return slice_is(event->dialect, dialect) ? RESULT_WOULD : RESULT_OTHER_DIALECT;
}

// A log may have imported the failures of another application, whose queues may have the same names. Rows of 0.1.0 have no group.
static bool run_owns(const run_t *run, slice_t group) {
    const char *from = run->requeue->options.from_group;
    return !requeue_pushes(&run->requeue->options) || group.len == 0 || slice_is(group, run->requeue->keys->config->group) ||
           (from && slice_is(group, from));
}

// A job may have no bytes, if its record says so.
static requeue_result_t run_check_payload(const event_t *event, const digest_t *digest) {
    int64_t len = (int64_t)event->payload.len;
    char sha256[DIGEST_HEX_SIZE];
    bool is_whole = len == event->size ? len > 0 || event->sha256.len > 0 : event->size == 0;
    digest_hex(digest, sha256);
    if (!is_whole) return RESULT_NO_PAYLOAD;
    return event->sha256.len == 0 || slice_is(event->sha256, sha256) ? RESULT_WOULD : RESULT_DAMAGED;
}

// A script has the keys of one slot. Returns why it cannot serve both queues; owned, NULL = it can.
static char *run_check_slots(const run_t *run, const event_t *event, const requeue_target_t *target) {
    const queue_keys_t *to = &run->requeue->keys->queues[target->to];
    char *marker = keyspace_requeued_of(event->queue);
    unsigned home_slot = keyspace_slot(marker), to_slot = keyspace_slot(to->failures);
    free(marker);
    if (config_redis_mode(&run->requeue->keys->config->redis) != REDIS_MODE_CLUSTER || home_slot == to_slot) return NULL;
    return mem_printf("queue \"%s\" is in slot %u of the Cluster and this failure in slot %u: one step cannot reach both",
                      to->config->name, to_slot, home_slot);
}

// Returns RESULT_WOULD unless an answer or an erasure of the failure forbids the action. Sets run->detail.
static requeue_result_t run_check_answers(run_t *run, const audit_row_t *row) {
    const requeue_options_t *options = &run->requeue->options;
    slice_t erased = slice_text("erased");
    bool was_erased = row->erased_at != 0 && !options->discard, is_open = slice_is(row->state, "failed");
    if (options->erase ? was_erased && !options->again : was_erased && (is_open || options->again)) {
        run_format_answer(run, erased, row->erased_at, row->erased_by, row->erase_reason);
        return options->erase ? RESULT_ANSWERED : RESULT_ERASED;
    }
    if (options->erase || is_open || options->again) return RESULT_WOULD;
    run_format_answer(run, row->state, row->answered_at, row->answered_by, row->answer_reason);
    return RESULT_ANSWERED;
}

// Returns RESULT_WOULD if the action can be carried out, else why not. Sets run->detail.
static requeue_result_t run_classify(run_t *run, run_job_t *job) {
    const requeue_t *requeue = run->requeue;
    const audit_row_t *row = job->row;
    int64_t now_ms = run->servers->now_ms + mono_diff(mono_now(), run->servers->began) / NS_PER_MS;
    buffer_clear(&run->detail);
    buffer_clear(&run->pushed_bytes);
    if (!slice_is(row->event.kind, "failed")) return RESULT_NO_FAILURE;
    requeue_result_t result = run_check_answers(run, row);
    if (result != RESULT_WOULD) return result;
    if (!run_owns(run, row->event.group)) {
        buffer_add(&run->detail, row->event.group.data, row->event.group.len);
        return RESULT_OTHER_GROUP;
    }
    result = run_find_queues(run, &row->event, &job->target);
    if (result == RESULT_WOULD && requeue_pushes(&requeue->options)) result = run_check_payload(&row->event, &job->digest);
    if (result != RESULT_WOULD) return result;
    const char *refused = job->target.known ? run->servers->queues[job->target.home].refused : NULL;
    const char *unusable = run->servers->queues[job->target.to].unusable;
    buffer_str(&run->detail, refused ? refused : unusable ? unusable : "");
    if (refused || unusable) return RESULT_REFUSED;
    char *apart = run_check_slots(run, &row->event, &job->target);
    if (apart) {
        buffer_str(&run->detail, apart);
        free(apart);
        return RESULT_REFUSED;
    }
    bool fits = !requeue_pushes(&requeue->options) || requeue_prepare(requeue->keys->queues[job->target.to].config, &row->event,
                                                                      now_ms, &job->push, &run->pushed_bytes, &run->detail);
    return fits ? RESULT_WOULD : RESULT_UNFIT;
}

static void run_read_reply(run_t *run) {
    static const requeue_result_t results[] = {[REQUEUE_DONE] = RESULT_DONE,
                                               [REQUEUE_KNOWN] = RESULT_ANSWERED,
                                               [REQUEUE_ERASED] = RESULT_ERASED,
                                               [REQUEUE_WAITING] = RESULT_WAITING,
                                               [REQUEUE_UNFIT] = RESULT_UNFIT};
    const requeue_target_t *target = &run->targets[run->answered++ % MAX_IN_FLIGHT];
    requeue_reply_t reply;
    redis_error_t error;
    outcome_t outcome = requeue_read(run->conn, &reply, &error);
    bool lost = outcome == OUTCOME_DISCONNECTED, later = outcome == OUTCOME_RETRY;
    if ((lost && run->stop.outcome != OUTCOME_DISCONNECTED) || (later && run->stop.outcome == OUTCOME_OK)) run->stop = error;
    if (later) return; // not done; the next run of the command does it
    requeue_result_t result = lost ? RESULT_UNKNOWN : outcome == OUTCOME_REFUSED ? RESULT_REFUSED : results[reply.kind];
    const char *why = outcome == OUTCOME_OK ? reply.why : error.text;
    char **refused = &run->servers->queues[target->home].refused; // applies to all further requests
    if (result == RESULT_REFUSED && target->known && !*refused) *refused = mem_str(why);
    buffer_clear(&run->detail);
    if (result == RESULT_ANSWERED || result == RESULT_ERASED)
        run_format_answer(run, slice_text(reply.state), reply.at_ms, slice_text(reply.by), slice_text(""));
    else if (result != RESULT_DONE && result != RESULT_UNKNOWN)
        buffer_str(&run->detail, why);
    run_add_result(run, target, result, buffer_text(&run->detail));
}

// Reads replies until at most `keep` requests have none.
static void run_read_replies(run_t *run, size_t keep) {
    while (run->sent - run->answered > keep) run_read_reply(run);
    if (run->sent == run->answered) run->bytes = 0;
}

// Before the first erasure in a failure stream, looks for the entries to replace there. False: the failure cannot be erased now;
// sets run->stop, or why Redis refuses it for all failures of this queue.
static bool run_find_texts(run_t *run, const requeue_target_t *target) {
    requeue_queue_t *queue = &run->servers->queues[target->home];
    redis_error_t error;
    if (!run->requeue->options.erase || queue->searched) return true;
    run_read_replies(run, 0);
    const call_t call = {.conn = queue->conn, .keys = run->requeue->keys, .queue = target->home, .error = &error};
    outcome_t outcome = stream_texts_find(&call, &queue->texts);
    queue->searched = outcome == OUTCOME_OK;
    if (outcome == OUTCOME_REFUSED) {
        if (!queue->refused) queue->refused = mem_str(error.text);
        run_add_result(run, target, RESULT_REFUSED, error.text);
    } else if (outcome != OUTCOME_OK) {
        run->stop = error;
    }
    return queue->searched;
}

static void run_append(run_t *run, const run_job_t *job, const char *marker, const event_t *record) {
    const requeue_t *requeue = run->requeue;
    const requeue_target_t *target = &job->target;
    if (requeue->options.erase)
        erase_append(run->conn, requeue->keys,
                     &(erase_request_t){.queue = target->home,
                                        .texts = &run->servers->queues[target->home].texts,
                                        .marker = marker,
                                        .by = requeue->options.by,
                                        .again = requeue->options.again,
                                        .record = record});
    else
        requeue_append(run->conn, requeue->keys,
                       &(requeue_request_t){.queue = target->home,
                                            .to = target->to,
                                            .marker = marker,
                                            .discards = requeue->options.discard,
                                            .again = requeue->options.again,
                                            .where = &job->push,
                                            .digest = &job->digest,
                                            .by = requeue->options.by,
                                            .record = record});
}

static void run_send(run_t *run, const run_job_t *job) {
    const requeue_t *requeue = run->requeue;
    const requeue_target_t *target = &job->target;
    conn_t *conn = run->servers->queues[target->home].conn;
    if (!run_find_texts(run, target)) return;
    if (conn != run->conn) run_read_replies(run, 0);
    run->conn = conn;
    const event_t *failure = &job->row->event;
    char id[EVENT_ID_SIZE];
    uint64_t nth;
    const char *to = target->to != target->home || requeue->options.to >= 0 ? requeue->keys->queues[target->to].config->name : "";
    char *marker = keyspace_requeued_of(failure->queue);
    char *note = *to ? mem_printf("to %s%s%s", to, *requeue->options.note ? ": " : "", requeue->options.note)
                     : mem_str(requeue->options.note);
    event_t record = {.kind = slice_text(requeue->options.erase     ? "erased"
                                         : requeue->options.discard ? "discarded"
                                                                    : "requeued"),
                      .dialect = failure->dialect,
                      .queue = failure->queue,
                      .job = failure->job,
                      .type = failure->type,
                      .worker = slice_text(requeue->options.by),
                      .reason = slice_text(note),
                      .sha256 = failure->sha256,
                      .answers = failure->event,
                      .group = slice_text(requeue->keys->config->group),
                      .size = failure->size};
    random_bytes(&nth, sizeof nth); // random, because two answers to one failure are two events
    event_id(&record, 0, (int64_t)(nth >> 1), id);
    run_append(run, job, marker, &record);
    run->targets[run->sent++ % MAX_IN_FLIGHT] = *target;
    run->bytes += failure->payload.len + run->pushed_bytes.len;
    free(note);
    free(marker);
}

#define RUN_COPY(to, text) snprintf((to), sizeof(to), "%.*s", (int)(text).len, (text).data)

static bool run_add_row(void *self, const audit_row_t *row) {
    run_t *run = self;
    const event_t *event = &row->event;
    run_job_t job = {.row = row, .digest = digest_of(event->payload.data, event->payload.len)};
    if (event->at > run->requeue->plan.newest) return true; // retention removed the chosen row, and a later event got its seq
    run->found++;
    RUN_COPY(job.target.ref, row->ref);
    RUN_COPY(job.target.event, event->event);
    RUN_COPY(job.target.queue, event->queue);
    RUN_COPY(job.target.job, event->job);
    requeue_result_t result = run_classify(run, &job);
    if (result != RESULT_WOULD || run->requeue->options.dry_run) {
        run_add_result(run, &job.target, result, buffer_text(&run->detail));
    } else {
        run_send(run, &job);
        if (run->bytes > MAX_IN_FLIGHT_BYTES) run_read_replies(run, 0);
    }
    return run->stop.outcome == OUTCOME_OK;
}

// Sends a chunk, then reads the replies to the previous chunk while this one is in flight.
static bool run_chunk(run_t *run, const int64_t *seqs, size_t count, buffer_t *why) {
    redis_error_t error;
    run->found = 0;
    if (!audit_rows(run->requeue->audit, seqs, count, run_add_row, run, why)) return false;
    for (; run->stop.outcome == OUTCOME_OK && run->found < count; run->found++) // retention removed the others
        run_add_result(run, &(requeue_target_t){.ref = "-"}, RESULT_GONE, "");
    if (run->sent > run->answered && conn_flush(run->conn, &error) != OUTCOME_OK) run->stop = error;
    run_read_replies(run, run->requeue->options.per_minute || run->stop.outcome != OUTCOME_OK ? 0 : CHUNK);
    return true;
}

static bool run_plan(run_t *run, buffer_t *why) {
    const requeue_plan_t *plan = &run->requeue->plan;
    run->due = mono_now();
    for (size_t next = 0; next < plan->count && run->stop.outcome == OUTCOME_OK;) {
        size_t count = run_wait_for_turn(run);
        if (!count) break;
        if (count > plan->count - next) count = plan->count - next;
        if (!run_chunk(run, plan->seqs + next, count, why)) return false;
        if (run->requeue->options.per_minute) run->due = mono_add(run->due, (int64_t)count * run_interval_ns(run));
        next += count;
    }
    return true;
}

static requeue_end_t run_end(const run_t *run, buffer_t *why) {
    bool lost = run->stop.outcome == OUTCOME_DISCONNECTED;
    if (run->stopped) return REQUEUE_STOPPED;
    if (run->stop.outcome == OUTCOME_OK) return REQUEUE_ENDED;
    if (run->stop.kind == ERROR_FULL)
        buffer_str(why, "Redis is full and refuses jobs: raise maxmemory, or let workers empty the queues");
    else
        buffer_printf(why, "%s: %s", lost ? "lost the connection to Redis" : "Redis is not ready", run->stop.text);
    return lost ? REQUEUE_LOST : REQUEUE_NOT_READY;
}

static void run_wait_for_replica(const requeue_t *requeue, conn_t *conn) {
    char *warning = shards_wait_for_replica(conn);
    if (warning) requeue->caller.warn(requeue->caller.self, warning);
    free(warning);
}

requeue_end_t requeue_run(requeue_t *requeue, buffer_t *why) {
    const requeue_plan_t *plan = &requeue->plan;
    requeue_counts_t *counts = &requeue->counts;
    run_t *run = mem_alloc(sizeof *run);
    run->requeue = requeue;
    run->servers = requeue->servers;
    counts->of[RESULT_ANSWERED] = plan->answered;
    counts->of[RESULT_EARLIER] = plan->earlier;
    counts->tried = plan->answered + plan->earlier;
    counts->total = (int64_t)plan->count + counts->tried;
    bool read = run_plan(run, why);
    run_read_replies(run, 0);
    for (size_t i = 0; counts->of[RESULT_DONE] && i < run->servers->shards->count; i++)
        run_wait_for_replica(requeue, run->servers->shards->items[i].conn);
    requeue_end_t end = read ? run_end(run, why) : REQUEUE_UNREADABLE;
    buffer_free(&run->pushed_bytes);
    buffer_free(&run->detail);
    free(run);
    return end;
}
