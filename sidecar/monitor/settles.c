#include "monitor/settles.h"

#include "base/failpoint.h"
#include "base/log.h"
#include "queue/call.h"
#include "queue/record.h"

enum {
    FIRST_JOBS = 16,     // jobs of the first request, while their time is unknown
    SEARCH_DRIFT = 64,   // jobs that workers take between the read of a page and its settle
    PLACE_DRIFT = 32,    // in place, jobs nearer to the tail that workers finish meanwhile,
    PLACE_RISE = 8,      // and entries that come there
    SETTLE_DEPTH = 2048, // entries that a settle searches: this page, and jobs that workers took since
};

static const char ROLE[] = "monitor";

static const queue_policy_t *settles_policy(const apply_t *apply) { return &apply->scan->config->policy; }

static void settles_make_event(const apply_t *apply, candidate_t *candidate) {
    const stamp_t *stamp = &candidate->observation.stamp;
    bool ends = candidate->verdict.kind == VERDICT_END;
    digest_hex(&candidate->entry->digest, candidate->sha256);
    candidate->event = (event_t){
        .kind = slice_text(ends ? "failed" : "retried"),
        .dialect = slice_text(config_dialect_word(apply->scan->config->dialect)),
        .queue = slice_text(apply->scan->config->name),
        .job = slice_text(candidate->job.id),
        .type = slice_text(candidate->job.type),
        .worker = slice_text(candidate->entry->owner ? candidate->entry->owner
                                                     : workers_name(&apply->scan->workers, &candidate->entry->digest)),
        .reason = slice_text(candidate->verdict.reason),
        .term = slice_text(apply->call->token),
        .group = slice_text(apply->call->keys->config->group),
        .sha256 = slice_text(candidate->sha256),
        .attempts = candidate->verdict.attempts,
        .created = candidate->job.created_ms ? candidate->job.created_ms : stamp->born_us / 1000,
        .started = candidate->job.executed_ms ? candidate->job.executed_ms : stamp->seen,
        .size = (int64_t)candidate->entry->bytes.len,
    };
    // retry_window may reset the count within a life, so the id includes the time of the last retry.
    event_id(&candidate->event, stamp->born_us, stamp->retried_at, candidate->id);
    if (!ends) return;
    candidate->event.payload = candidate->entry->bytes;
    candidate->event.traceparent = job_traceparent(settles_policy(apply), candidate->entry->bytes);
}

// Whether a scan has read the page in place, so that the place of each job in the list is known.
static bool settles_in_place(const apply_t *apply) { return apply->page->in_place && scan_has_place(apply->scan); }

// The end of the list where the job is, and how near. `before` jobs of the page are asked for before it, and of these the last
// `in_flight` are not answered yet.
static void settles_locate(const apply_t *apply, const candidate_t *candidate, size_t before, size_t in_flight,
                           settle_ask_t *ask) {
    scan_t *scan = apply->scan;
    ask->from_tail = apply->from_tail;
    ask->in_place = settles_in_place(apply);
    ask->small = (int64_t)scan_small_entries(scan);
    ask->depth = SETTLE_DEPTH;
    bool may_have_duplicates = settles_policy(apply)->end_duplicates || candidate->job.trouble != JOB_FINE;
    if (!may_have_duplicates) ask->alone = SETTLE_EXACT_ENTRIES;
    if (scan->state == SCAN_SEARCH) { // it looks for duplicates of a job that it ends among all entries up to the job
        ask->near = (int64_t)scan_search(scan)->place + SEARCH_DRIFT;
        ask->depth += (int64_t)scan_search(scan)->place;
        if (ask->alone) ask->alone += (int64_t)scan_search(scan)->place;
    } else if (ask->in_place) {
        // The settle reads at most a third of what one request may return on each side of the job. The entries there are mostly
        // of this page.
        int64_t at = (int64_t)place_of(&scan_pass(scan)->place, apply->page, candidate->entry);
        int64_t most = (int64_t)scan_page_small_entries(apply->page) / 3;
        int64_t drift = (int64_t)in_flight + (most < PLACE_DRIFT ? most : PLACE_DRIFT);
        ask->skip = at > drift ? at - drift : 0;
        ask->near = at + 1 + (most < PLACE_RISE ? most : PLACE_RISE);
    } else if (scan->ops->rotation) {
        ask->near = apply->page->entries + apply->page->count - candidate->entry - (int64_t)before;
    }
}

// False: a key of the wrong type blocks this kind of settle.
static bool settles_prepare(const apply_t *apply, candidate_t *candidate, size_t before, size_t in_flight) {
    const scan_t *scan = apply->scan;
    const queue_config_t *config = scan->config;
    bool retries = candidate->verdict.kind == VERDICT_RETRY;
    settle_where_t *where = &candidate->where;
    *where =
        (settle_where_t){.from = config->backup, .ready = config->ready, .delayed = config->delayed, .errors = config->errors};
    settles_make_event(apply, candidate);
    if (scan->ops->settle)
        scan->ops->settle(call_queue(apply->call), candidate->entry, &candidate->job, retries, where, &candidate->again);
    if (scan_blocked(scan, retries, where->ready)) return false;
    settle_ask_t *ask = &candidate->ask;
    *ask = (settle_ask_t){.job = candidate->entry->bytes,
                          .digest = &candidate->entry->digest,
                          .where = where,
                          .old = *candidate->raw,
                          .blank_is_dead = scan->ops->blank_is_dead,
                          .report = candidate->report ? candidate->report->id : "",
                          .event = &candidate->event};
    settles_locate(apply, candidate, before, in_flight, ask);
    if (candidate->verdict.needs_silence) ask->heartbeat = candidate->heartbeat;
    if (!retries) return true;
    stamp_t stamp = {.born_us = candidate->observation.stamp.born_us,
                     .retries = candidate->verdict.attempts,
                     .retried_at = scan->clock.now,
                     .requeued = candidate->observation.stamp.requeued};
    ask->new = stamp_pack(&stamp);
    ask->delay_ms = verdict_jitter_ms(settles_policy(apply), candidate->verdict.delay_ms, 2 * random_unit() - 1);
    return true;
}

static void settles_log_settled(const apply_t *apply, const candidate_t *candidate) {
    const char *queue = apply->scan->config->name;
    if (candidate->verdict.kind == VERDICT_END)
        record_log_failure(ROLE, queue, &candidate->event);
    else
        log_info(ROLE, queue, "retried a job", F_STR("reason", candidate->verdict.reason), F_STR("job", candidate->job.id),
                 F_INT("retry", candidate->verdict.attempts));
}

// Whether a retried job would have ended if it had no duplicates.
static bool settles_due_to_end(const apply_t *apply, const candidate_t *candidate) {
    return candidate->verdict.attempts > settles_policy(apply)->retry.times || candidate->observation.report == REPORT_END;
}

static metrics_cause_t settles_cause(const candidate_t *candidate) {
    const observation_t *observed = &candidate->observation;
    if (candidate->verdict.kind == VERDICT_END && strcmp(candidate->verdict.reason, "alive_timeout") == 0)
        return CAUSE_alive_timeout;
    if (observed->heartbeat != HEARTBEAT_GONE) return CAUSE_timeout;
    return observed->silence_ms ? CAUSE_worker_gone : CAUSE_heartbeat_lost;
}

// Notes one answer of a settle. A function may be NULL: the worker is alive, or the error is reported.
typedef void settles_note_fn(const apply_t *apply, const candidate_t *candidate);

static void settles_note_settled(const apply_t *apply, const candidate_t *candidate) {
    metrics_queue_t *metrics = apply->scan->metrics;
    bool ends = candidate->verdict.kind == VERDICT_END;
    if (ends)
        metrics_end(metrics, candidate->verdict.reason, 1);
    else
        metric_add(&metrics->retried, 1);
    // In place the scan meets jobs that workers take meanwhile. A rotation ends before them.
    if (!ends && settles_in_place(apply)) duplicates_retried(&apply->scan->duplicates, &candidate->entry->digest);
    if (!candidate->report) metrics_stall(metrics, settles_cause(candidate));
    if (!ends && settles_due_to_end(apply, candidate)) {
        anomaly_sample(metrics, ANOMALY_endless_retries, "job %s", candidate->job.id);
        anomaly_add(metrics, ANOMALY_endless_retries, 1, apply->scan->clock.now);
    }
    // The settle's own write has cleared the tracking of the errors hash.
    if (candidate->report) apply->scan->timer.changed = true;
    if (candidate->report) report_table_remove(&apply->scan->reports, candidate->report);
    settles_log_settled(apply, candidate);
}

static void settles_note_unrecorded(const apply_t *apply, const candidate_t *candidate) {
    metric_add(&apply->scan->metrics->retried_unrecorded, 1);
    settles_note_settled(apply, candidate);
}

static void settles_note_dropped(const apply_t *apply, const candidate_t *candidate) {
    metric_add(&apply->scan->metrics->duplicates_dropped, 1);
    log_info(ROLE, apply->scan->config->name, "removed a finished job from backup", F_STR("job", candidate->job.id));
}

static void settles_note_duplicates(const apply_t *apply, const candidate_t *candidate) {
    metric_add(&apply->scan->metrics->copies, 1);
    // A scan counts the job itself, unless its duplicate is new.
    if (apply->scan->state == SCAN_SEARCH || settles_in_place(apply))
        duplicates_found(&apply->scan->duplicates, &candidate->entry->digest);
}

static void settles_note_full(const apply_t *apply, const candidate_t *candidate) {
    (void)candidate;
    metric_add(&apply->scan->metrics->ends_held, 1);
    log_error(ROLE, apply->scan->config->name, "the failure stream is full or out of ids; no job is ended until it has room",
              F_INT("max_bytes", apply->call->keys->config->stream.max_bytes));
}

static void settles_note_changed(const apply_t *apply, const candidate_t *candidate) {
    (void)candidate;
    scan_t *scan = apply->scan;
    if (scan->state != SCAN_READ || !scan_pass(scan)->reports_kept) scan->timer.rescan = true;
}

// In place, the job may be there: more jobs may have moved than the settle allows for.
static void settles_note_gone(const apply_t *apply, const candidate_t *candidate) {
    if (candidate->ask.skip > 0) apply->scan->timer.rescan = true;
}

// In a scan without rotation the key of the wrong type may be the list of one job.
static void settles_note_type(const apply_t *apply, const candidate_t *candidate) {
    if (apply->scan->ops->rotation) scan_block(apply->scan, candidate->verdict.kind == VERDICT_RETRY, candidate->where.ready);
}

static settles_note_fn *const SETTLES_NOTES[] = {
    [SETTLED] = settles_note_settled,
    [SETTLED_UNRECORDED] = settles_note_unrecorded,
    [SETTLED_DROPPED] = settles_note_dropped,
    [SETTLED_GONE] = settles_note_gone,
    [SETTLED_CHANGED] = settles_note_changed,
    [SETTLED_ALIVE] = NULL,
    [SETTLED_DUPLICATES] = settles_note_duplicates,
    [SETTLED_FULL] = settles_note_full,
    [SETTLED_TYPE] = settles_note_type,
    [SETTLED_REFUSED] = NULL,
};

static bool settles_wanted(const apply_t *apply, const candidate_t *candidate) {
    verdict_kind_t kind = candidate->verdict.kind;
    if (candidate->report && candidate->report->tried) return false; // wait for the next reports
    if (kind != VERDICT_END) return kind == VERDICT_RETRY;
    bool may_end =
        settles_policy(apply)->end_duplicates || !duplicates_uncounted(&apply->scan->duplicates, &candidate->entry->digest);
    may_end = may_end && scan_may_end(apply->scan);
    if (!may_end) apply->scan->timer.rescan = true;
    return may_end;
}

// The jobs of one request, and what became of them.
typedef struct batch {
    candidate_t *candidates[BACKUP_PAGE];
    const settle_ask_t *asks[BACKUP_PAGE];
    settled_t settled[BACKUP_PAGE];
    size_t count;
    bool sent;
    bool answered; // settled[] and reply are known
    settle_reply_t reply;
} batch_t;

// Candidates of the page, from the end of the list on.
typedef struct progress {
    size_t done;
    size_t asked; // of these, in requests
} progress_t;

// Rotation has put the last entry of the page to the head, so the last candidate is the nearest to the end of the list. In a page
// that was read from the tail the first candidate is.
static void settles_fill(const apply_t *apply, candidate_t *candidates, size_t count, progress_t *progress, size_t in_flight,
                         batch_t *batch) {
    size_t most = (size_t)pace_jobs_least(apply->pace, call_settle_us(apply->call), FIRST_JOBS, BACKUP_PAGE), bytes = 0;
    batch->count = 0;
    for (; progress->done < count && batch->count < most && bytes < SETTLE_BYTES; progress->done++) {
        candidate_t *candidate = &candidates[apply->from_tail ? progress->done : count - 1 - progress->done];
        if (!settles_wanted(apply, candidate)) continue;
        if (!settles_prepare(apply, candidate, progress->asked, in_flight)) {
            buffer_free(&candidate->again);
            continue;
        }
        if (candidate->report) report_table_tried(&apply->scan->reports, candidate->report);
        batch->candidates[batch->count] = candidate;
        batch->asks[batch->count++] = &candidate->ask;
        bytes += candidate->entry->bytes.len + candidate->again.len;
    }
    progress->asked += batch->count;
}

static void settles_append(const apply_t *apply, const settle_ask_t *const *asks, size_t count) {
    const scan_ops_t *ops = apply->scan->ops;
    (ops->settle_append ? ops->settle_append : settle_append)(apply->call, asks, count);
}

static void settles_send(const apply_t *apply, batch_t *batch) {
    batch->answered = false;
    assert(batch->count > 0 && batch->count <= SETTLE_JOBS);
    settles_append(apply, batch->asks, batch->count);
    failpoint("settle_before");
    batch->sent = conn_flush(apply->call->conn, apply->call->error) == OUTCOME_OK;
    if (batch->sent) failpoint("settle_sent");
}

// Redis refuses a whole request for the keys of one job, such as a heartbeat of another slot. The others must not wait for it.
static void settles_ask_each(const apply_t *apply, batch_t *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        settles_append(apply, &batch->asks[i], 1);
        if (!settle_read_answers(apply->call, 1, &batch->settled[i], &batch->reply)) batch->settled[i] = SETTLED_REFUSED;
    }
    batch->answered = true;
}

static void settles_read(const apply_t *apply, batch_t *batch) {
    if (!batch->sent) return;
    batch->answered = settle_read_answers(apply->call, batch->count, batch->settled, &batch->reply);
    pace_note_whole(apply->pace, (int64_t)batch->count, batch->reply.took_us);
    const redis_error_t *error = apply->call->error;
    bool each = error->outcome == OUTCOME_REFUSED && !error_kind_is_slot(error->kind); // a slot concerns all of them
    if (!batch->answered && batch->count > 1 && each) settles_ask_each(apply, batch);
}

static bool settles_removed(settled_t settled) {
    return settled == SETTLED || settled == SETTLED_UNRECORDED || settled == SETTLED_DROPPED;
}

static void settles_note_all(const apply_t *apply, batch_t *batch) {
    size_t removed = 0;
    for (size_t i = 0; i < batch->count; i++) {
        candidate_t *candidate = batch->candidates[i];
        if (batch->answered) {
            failpoint("settle_answered");
            candidate->removed = settles_removed(batch->settled[i]);
            if (candidate->removed && settles_in_place(apply))
                place_settled(&scan_pass(apply->scan)->place, &candidate->entry->digest, removed++ < batch->reply.replaced);
            settles_note_fn *note = SETTLES_NOTES[batch->settled[i]];
            if (note) note(apply, candidate);
        }
        buffer_free(&candidate->again);
    }
    batch->count = 0;
}

// While Redis works on one batch, the monitor prepares the next one. It sends that after the answers to the first, so that Redis
// serves other clients in between.
outcome_t settles_page(const apply_t *apply, candidate_t *candidates, size_t count) {
    redis_error_t *error = apply->call->error;
    batch_t batches[2];
    batch_t *first = &batches[0], *second = &batches[1];
    progress_t progress = {0};
    settles_fill(apply, candidates, count, &progress, 0, first);
    while (first->count && (error->outcome == OUTCOME_OK || error->outcome == OUTCOME_REFUSED)) {
        settles_send(apply, first);
        settles_fill(apply, candidates, count, &progress, first->count, second);
        settles_read(apply, first);
        settles_note_all(apply, first);
        batch_t *next = second;
        second = first;
        first = next;
    }
    first->answered = false;
    settles_note_all(apply, first);    // not sent after an error
    for (size_t i = 0; i < count; i++) // not earlier: the request for an equal job, prepared meanwhile, borrows the name
        if (candidates[i].removed) workers_forget(&apply->scan->workers, &candidates[i].entry->digest);
    return error->outcome;
}
