#include "monitor/settles.h"

#include "base/failpoint.h"
#include "base/log.h"
#include "queue/call.h"
#include "queue/record.h"

enum {
    FIRST_JOBS = 16,     // jobs of the first request, while their time is unknown
    SEARCH_DRIFT = 64,   // jobs that workers take between the read of a page and its settle
    SETTLE_DEPTH = 2048, // entries that a settle searches: this page, later pages in memory, and jobs that workers took since
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
    if (ends) candidate->event.payload = candidate->entry->bytes;
}

// A search looks for duplicates of a job that it ends among all entries up to the job.
static int64_t settles_alone(const apply_t *apply, const candidate_t *candidate) {
    if (settles_policy(apply)->end_duplicates || candidate->job.trouble != JOB_FINE) return 0;
    return SETTLE_EXACT_ENTRIES + (apply->scan->phase == SCAN_SEARCH ? (int64_t)apply->scan->progress.read : 0);
}

// The job is probably among so many entries at the end of its list. `before` jobs of the page are settled before it.
static int64_t settles_near(const apply_t *apply, const candidate_t *candidate, size_t before) {
    const scan_t *scan = apply->scan;
    if (scan->phase == SCAN_SEARCH) return (int64_t)scan->progress.read + SEARCH_DRIFT;
    if (apply->in_place) return (int64_t)scan->progress.read;
    return apply->page->entries + apply->page->count - candidate->entry - (int64_t)before;
}

// False: a key of the wrong type blocks this kind of settle.
static bool settles_prepare(const apply_t *apply, candidate_t *candidate, size_t before) {
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
    bool reads_in_place = apply->in_place || scan->phase == SCAN_SEARCH;
    settle_ask_t *ask = &candidate->ask;
    *ask = (settle_ask_t){.job = candidate->entry->bytes,
                          .digest = &candidate->entry->digest,
                          .where = where,
                          .old = *candidate->raw,
                          .from_tail = apply->in_place,
                          .depth = SETTLE_DEPTH + (reads_in_place ? (int64_t)scan->progress.read : 0),
                          .alone = settles_alone(apply, candidate),
                          .near = settles_near(apply, candidate, before),
                          .small = (int64_t)scan_small_entries(scan),
                          .blank_is_dead = scan->ops->blank_is_dead,
                          .report = candidate->report ? candidate->report->id : "",
                          .event = &candidate->event};
    if (candidate->verdict.needs_silence) ask->heartbeat = candidate->heartbeat;
    if (!retries) return true;
    stamp_t stamp = {.born_us = candidate->observation.stamp.born_us,
                     .retries = candidate->verdict.attempts,
                     .retried_at = scan->progress.now,
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

static void settles_note(const apply_t *apply, const candidate_t *candidate, settled_t settled) {
    metrics_queue_t *metrics = apply->scan->metrics;
    bool ends = candidate->verdict.kind == VERDICT_END;
    switch (settled) {
    case SETTLED:
    case SETTLED_UNRECORDED:
        if (ends)
            metrics_end(metrics, candidate->verdict.reason, 1);
        else
            metric_add(&metrics->retried, 1);
        workers_forget(&apply->scan->workers, &candidate->entry->digest);
        if (!candidate->report) metrics_stall(metrics, settles_cause(candidate));
        if (settled == SETTLED_UNRECORDED) metric_add(&metrics->retried_unrecorded, 1);
        if (!ends && settles_due_to_end(apply, candidate)) metric_add(&metrics->copies, 1);
        // The settle's own write has cleared the tracking of the errors hash.
        if (candidate->report) apply->scan->timer.changed = true;
        if (candidate->report) report_table_remove(&apply->scan->reports, candidate->report);
        settles_log_settled(apply, candidate);
        break;
    case SETTLED_DROPPED:
        metric_add(&metrics->duplicates_dropped, 1);
        log_info(ROLE, apply->scan->config->name, "removed a finished job from backup", F_STR("job", candidate->job.id));
        break;
    case SETTLED_DUPLICATES:
        metric_add(&metrics->copies, 1);
        if (apply->scan->phase == SCAN_SEARCH) duplicates_found(&apply->scan->duplicates, &candidate->entry->digest);
        break;
    case SETTLED_FULL:
        metric_add(&metrics->ends_held, 1);
        log_error(ROLE, apply->scan->config->name, "the failure stream is full or out of ids; no job is ended until it has room",
                  F_INT("max_bytes", apply->call->keys->config->stream.max_bytes));
        break;
    case SETTLED_CHANGED:
        if (!apply->scan->progress.reports_kept) apply->scan->progress.rescan = true;
        break;
    default: break; // the job is finished, or its worker is alive
    }
}

static bool settles_wanted(const apply_t *apply, const candidate_t *candidate) {
    verdict_kind_t kind = candidate->verdict.kind;
    if (candidate->report && candidate->report->tried) return false; // wait for the next reports
    if (kind != VERDICT_END) return kind == VERDICT_RETRY;
    bool may_end =
        settles_policy(apply)->end_duplicates || !duplicates_uncounted(&apply->scan->duplicates, &candidate->entry->digest);
    may_end = may_end && scan_may_end(apply->scan);
    if (!may_end) apply->scan->progress.rescan = true;
    return may_end;
}

// The jobs of one request, and what became of them.
typedef struct batch {
    candidate_t *candidates[BACKUP_PAGE];
    const settle_ask_t *asks[BACKUP_PAGE];
    settled_t settled[BACKUP_PAGE];
    size_t count;
    bool sent;
    bool answered; // settled[] is known
} batch_t;

// Candidates of the page, from the end of the list on.
typedef struct progress {
    size_t done;
    size_t asked; // of these, in requests
} progress_t;

// Rotation has put the last entry of the page to the head, so the last candidate is the nearest to the end of the list. Without
// rotation the first candidate is.
static void settles_fill(const apply_t *apply, candidate_t *candidates, size_t count, progress_t *progress, batch_t *batch) {
    size_t most = (size_t)pace_jobs_least(apply->pace, call_settle_us(apply->call), FIRST_JOBS, BACKUP_PAGE), bytes = 0;
    batch->count = 0;
    for (; progress->done < count && batch->count < most && bytes < SETTLE_BYTES; progress->done++) {
        candidate_t *candidate = &candidates[apply->in_place ? progress->done : count - 1 - progress->done];
        if (!settles_wanted(apply, candidate)) continue;
        if (!settles_prepare(apply, candidate, progress->asked)) {
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

static void settles_send(const apply_t *apply, batch_t *batch) {
    batch->answered = false;
    apply->scan->progress.near_pages = SCAN_NEAR_PAGES;
    settle_append(apply->call, batch->asks, batch->count);
    failpoint("settle_before");
    batch->sent = conn_flush(apply->call->conn, apply->call->error) == OUTCOME_OK;
    if (batch->sent) failpoint("settle_sent");
}

// Redis refuses a whole request for the keys of one job, such as a heartbeat of another slot. The others must not wait for it.
static void settles_ask_each(const apply_t *apply, batch_t *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        int64_t took_us;
        settle_append(apply->call, &batch->asks[i], 1);
        if (!settle_read_answers(apply->call, 1, &batch->settled[i], &took_us)) batch->settled[i] = SETTLED_REFUSED;
    }
    batch->answered = true;
}

static void settles_read(const apply_t *apply, batch_t *batch) {
    int64_t took_us = 0;
    if (!batch->sent) return;
    batch->answered = settle_read_answers(apply->call, batch->count, batch->settled, &took_us);
    pace_note(apply->pace, (int64_t)batch->count, took_us);
    const redis_error_t *error = apply->call->error;
    bool each = error->outcome == OUTCOME_REFUSED && !redis_reason_is_slot(error->text); // a slot concerns all of them
    if (!batch->answered && batch->count > 1 && each) settles_ask_each(apply, batch);
}

static void settles_note_all(const apply_t *apply, batch_t *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        candidate_t *candidate = batch->candidates[i];
        if (batch->answered) {
            failpoint("settle_answered");
            settles_note(apply, candidate, batch->settled[i]);
            // Without rotation the bad key may be of one job's list.
            if (batch->settled[i] == SETTLED_TYPE && apply->scan->ops->rotation)
                scan_block(apply->scan, candidate->verdict.kind == VERDICT_RETRY, candidate->where.ready);
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
    settles_fill(apply, candidates, count, &progress, first);
    while (first->count && (error->outcome == OUTCOME_OK || error->outcome == OUTCOME_REFUSED)) {
        settles_send(apply, first);
        settles_fill(apply, candidates, count, &progress, second);
        settles_read(apply, first);
        settles_note_all(apply, first);
        batch_t *next = second;
        second = first;
        first = next;
    }
    first->answered = false;
    settles_note_all(apply, first); // not sent after an error
    return error->outcome;
}
