#include "monitor/apply.h"

#include "base/buffer.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "model/job.h"
#include "queue/heartbeat.h"

enum { SETTLE_DEPTH = 4096 }; // entries that a settle searches, from one end of the list

static const char ROLE[] = "monitor";

// A job whose verdict apply_verdicts must carry out.
typedef struct candidate {
    const entry_t *entry;
    const stamp_raw_t *raw;
    observation_t observation;
    verdict_t verdict;
    const worker_report_t *report; // borrowed from the report table
    bool known;                    // `job` is filled
    job_t job;
    char *heartbeat;   // owned; NULL = none
    const char *ready; // ready list of the settle; borrowed from the config
    event_t event;
    char id[EVENT_ID_SIZE];
    char sha256[DIGEST_HEX_SIZE];
} candidate_t;

struct apply_buffers {
    candidate_t candidates[BACKUP_PAGE];
    heartbeat_check_t checks[BACKUP_PAGE];
    buffer_t again; // the bytes of one retry
};

apply_buffers_t *apply_buffers_new(void) { return mem_alloc(sizeof(apply_buffers_t)); }

void apply_buffers_free(apply_buffers_t *buffers) {
    if (buffers) buffer_free(&buffers->again);
    free(buffers);
}

static const queue_policy_t *apply_policy(const apply_t *apply) { return &apply->scan->config->policy; }

static void apply_read_job(const apply_t *apply, const entry_t *entry, job_t *job, observation_t *observation) {
    if (apply->scan->ops->read)
        apply->scan->ops->read(apply->scan->config, entry->bytes, job);
    else
        job_read(apply_policy(apply), entry->bytes, job);
    observation->created = job->created_ms;
    observation->executed = job->executed_ms;
    observation->has_retries_in_job = job->retries_in_job >= 0;
    observation->retries_in_job = job->retries_in_job;
    observation->unreadable = job->trouble == JOB_UNREADABLE;
    observation->foreign = job->trouble == JOB_FOREIGN;
}

static void apply_read_job_once(const apply_t *apply, candidate_t *candidate) {
    if (!candidate->known) apply_read_job(apply, candidate->entry, &candidate->job, &candidate->observation);
    candidate->known = true;
}

// Whether the bytes of the job may change this verdict.
static bool apply_needs_bytes(verdict_kind_t kind) {
    return kind != VERDICT_LEAVE && kind != VERDICT_STAMP && kind != VERDICT_SEEN;
}

// Judges one entry. True: the verdict in *out must be carried out. Cheap for most jobs, which have a stamp and are in time.
static bool apply_classify_entry(const apply_t *apply, const entry_t *entry, const stamp_t *stamp, const stamp_raw_t *raw,
                                 candidate_t *out) {
    const queue_policy_t *policy = apply_policy(apply);
    const worker_report_t *report = report_table_find(&apply->scan->reports, &entry->digest);
    observation_t observation = {.stamp = *stamp,
                                 .now = apply->scan->progress.now,
                                 .began = apply->scan->status.now,
                                 .certain_at = apply->scan->progress.certain_at,
                                 .has_duplicates = scan_note_job(apply->scan, &entry->digest)};
    scan_note_since(apply->scan, stamp->seen);
    observation.heartbeat = strcmp(policy->heartbeat, "off") == 0 ? HEARTBEAT_NONE : HEARTBEAT_UNKNOWN;
    if (apply->scan->ops->of_worker) observation.silence_ms = apply->scan->interval_ms;
    if (report) observation.report = report->ends ? REPORT_END : REPORT_RETRY;
    bool bytes_tell = apply->scan->ops->bytes_tell;
    bool absent = !entry->bytes.data;
    bool dated = policy->alive_timeout_ms && (bytes_tell || *policy->created_path); // the job's own date may end it
    bool known = dated && !absent;
    if (known) apply_read_job(apply, entry, &out->job, &observation);
    verdict_t found = verdict(&observation, policy);
    // The bytes of the job exceeded PAGES_BYTES. The next scan begins soon and has room for them.
    if (absent && (dated || apply_needs_bytes(found.kind))) {
        apply->scan->progress.rescan = true;
        return false;
    }
    if (bytes_tell && !known && apply_needs_bytes(found.kind)) {
        apply_read_job(apply, entry, &out->job, &observation);
        known = true;
        found = verdict(&observation, policy);
    }
    scan_note_verdict(apply->scan, &found);
    if (found.kind == VERDICT_LEAVE) return false;
    out->known = known;
    out->entry = entry;
    out->raw = raw;
    out->report = report;
    out->observation = observation;
    out->verdict = found;
    out->heartbeat = NULL;
    // A settle compares the stamp: this scan writes a stamp, and the next scan settles the job.
    if (report && (found.kind == VERDICT_STAMP || found.kind == VERDICT_SEEN)) apply->scan->progress.rescan = true;
    return true;
}

static void apply_log_oversized(const apply_t *apply, const entry_t *entry) {
    char sha256[DIGEST_HEX_SIZE];
    digest_hex(&entry->digest, sha256);
    metric_add(&apply->scan->metrics->large, 1);
    log_warn(ROLE, apply->scan->config->name, "left an entry larger than max_payload in backup", F_INT("bytes", entry->bytes.len),
             F_STR("sha256", sha256), F_INT("max_payload", apply_policy(apply)->max_payload));
}

// Owned; NULL = the job has no heartbeat.
static char *apply_heartbeat_key(const apply_t *apply, const candidate_t *candidate) {
    if (candidate->job.trouble == JOB_UNREADABLE) return NULL;
    return job_heartbeat_key(apply_policy(apply), apply->scan->ops->of_worker ? candidate->entry->owner : candidate->job.id);
}

// Reads the heartbeats that verdicts wait for, and judges again. A heartbeat that Redis refuses to read counts as present; *error
// reports it.
static outcome_t apply_heartbeats(const apply_t *apply, candidate_t *candidates, size_t count, redis_error_t *error) {
    heartbeat_check_t *checks = apply->buffers->checks;
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        checks[i].key = NULL;
        if (candidates[i].verdict.kind != VERDICT_LOOK) continue;
        apply_read_job_once(apply, &candidates[i]);
        checks[i].key = candidates[i].heartbeat = apply_heartbeat_key(apply, &candidates[i]);
        checks[i].blank_is_dead = apply->scan->ops->blank_is_dead;
        wanted++;
    }
    if (!wanted) return OUTCOME_OK;
    heartbeats_read(apply->call->conn, checks, count, error);
    if (error->outcome == OUTCOME_DISCONNECTED || error->outcome == OUTCOME_RETRY) return error->outcome;
    for (size_t i = 0; i < count; i++) {
        candidate_t *candidate = &candidates[i];
        if (candidate->verdict.kind != VERDICT_LOOK) continue;
        candidate->observation.heartbeat = !checks[i].key ? HEARTBEAT_NONE : checks[i].there ? HEARTBEAT_THERE : HEARTBEAT_GONE;
        candidate->verdict = verdict(&candidate->observation, apply_policy(apply));
        workers_note(&apply->scan->workers, &candidate->entry->digest, (slice_t){checks[i].worker, checks[i].worker_len});
        scan_note_verdict(apply->scan, &candidate->verdict);
    }
    return error->outcome;
}

static outcome_t apply_stamps(const apply_t *apply, const candidate_t *candidates, size_t count) {
    stamp_change_t changes[BACKUP_PAGE];
    size_t change_count = 0;
    int64_t now = apply->scan->progress.now;
    for (size_t i = 0; i < count; i++) {
        stamp_t stamp = candidates[i].observation.stamp;
        stamp_change_t change = {.digest = &candidates[i].entry->digest, .old = *candidates[i].raw};
        switch (candidates[i].verdict.kind) {
        case VERDICT_STAMP:
        case VERDICT_SEEN:
            stamp_correct(&stamp, now);
            if (!stamp.seen) stamp.seen = now;
            break;
        case VERDICT_MISSING: stamp.missing = now; break;
        case VERDICT_PRESENT: stamp.missing = 0; break;
        default: continue;
        }
        change.new = stamp_pack(&stamp);
        changes[change_count++] = change;
    }
    if (!change_count) return OUTCOME_OK;
    failpoint("stamp_before");
    stamps_change(apply->call, changes, change_count);
    failpoint("stamp_answered");
    return apply->call->error->outcome;
}

static void apply_make_event(const apply_t *apply, candidate_t *candidate) {
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

// False: nothing was appended, because a key of the wrong type blocks this kind of settle.
static bool apply_append_settle(const apply_t *apply, candidate_t *candidate) {
    const scan_t *scan = apply->scan;
    bool retries = candidate->verdict.kind == VERDICT_RETRY;
    const queue_config_t *config = apply->scan->config;
    settle_where_t where = {.from = config->backup, .ready = config->ready, .delayed = config->delayed, .errors = config->errors};
    apply_read_job_once(apply, candidate);
    apply_make_event(apply, candidate);
    buffer_clear(&apply->buffers->again);
    if (apply->scan->ops->settle)
        apply->scan->ops->settle(call_queue(apply->call), candidate->entry, &candidate->job, retries, &where,
                                 &apply->buffers->again);
    if (scan_blocked(scan, retries, where.ready)) return false;
    candidate->ready = where.ready;
    settle_ask_t ask = {.job = candidate->entry->bytes,
                        .digest = &candidate->entry->digest,
                        .where = &where,
                        .old = *candidate->raw,
                        .from_tail = apply->in_place,
                        .depth = SETTLE_DEPTH + (apply->in_place ? (int64_t)scan->progress.read : 0),
                        .alone = !apply_policy(apply)->end_duplicates && candidate->job.trouble == JOB_FINE,
                        .blank_is_dead = apply->scan->ops->blank_is_dead,
                        .report = candidate->report ? candidate->report->id : "",
                        .event = &candidate->event};
    if (candidate->verdict.needs_silence) ask.heartbeat = candidate->heartbeat;
    if (retries) {
        stamp_t stamp = {.born_us = candidate->observation.stamp.born_us,
                         .retries = candidate->verdict.attempts,
                         .retried_at = scan->progress.now,
                         .requeued = candidate->observation.stamp.requeued};
        ask.new = stamp_pack(&stamp);
        ask.delay_ms = verdict_jitter_ms(apply_policy(apply), candidate->verdict.delay_ms, 2 * random_unit() - 1);
    }
    settle_append(apply->call, &ask);
    if (candidate->report) report_table_tried(&apply->scan->reports, candidate->report);
    buffer_shrink(&apply->buffers->again);
    return true;
}

static void apply_log_settled(const apply_t *apply, const candidate_t *candidate) {
    const char *queue = apply->scan->config->name;
    if (candidate->verdict.kind == VERDICT_END)
        record_log_failure(ROLE, queue, &candidate->event);
    else
        log_info(ROLE, queue, "retried a job", F_STR("reason", candidate->verdict.reason), F_STR("job", candidate->job.id),
                 F_INT("retry", candidate->verdict.attempts));
}

// Whether a retried job would have ended if it had no duplicates.
static bool apply_due_to_end(const apply_t *apply, const candidate_t *candidate) {
    return candidate->verdict.attempts > apply_policy(apply)->retry.times || candidate->observation.report == REPORT_END;
}

static metrics_cause_t apply_cause(const candidate_t *candidate) {
    const observation_t *observed = &candidate->observation;
    if (candidate->verdict.kind == VERDICT_END && strcmp(candidate->verdict.reason, "alive_timeout") == 0)
        return CAUSE_alive_timeout;
    if (observed->heartbeat != HEARTBEAT_GONE) return CAUSE_timeout;
    return observed->silence_ms ? CAUSE_worker_gone : CAUSE_heartbeat_lost;
}

static void apply_note_settled(const apply_t *apply, const candidate_t *candidate, settled_t settled) {
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
        if (!candidate->report) metrics_stall(metrics, apply_cause(candidate));
        if (settled == SETTLED_UNRECORDED) metric_add(&metrics->retried_unrecorded, 1);
        if (!ends && apply_due_to_end(apply, candidate)) metric_add(&metrics->copies, 1);
        // The settle's own write has cleared the tracking of the errors hash.
        if (candidate->report) apply->scan->progress.rescan = true;
        if (candidate->report) report_table_remove(&apply->scan->reports, candidate->report);
        apply_log_settled(apply, candidate);
        break;
    case SETTLED_DROPPED:
        metric_add(&metrics->duplicates_dropped, 1);
        log_info(ROLE, apply->scan->config->name, "removed a finished job from backup", F_STR("job", candidate->job.id));
        break;
    case SETTLED_DUPLICATES: metric_add(&metrics->copies, 1); break;
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

static outcome_t apply_settle_all(const apply_t *apply, candidate_t *candidates, size_t count) {
    redis_error_t *error = apply->call->error;
    bool asked[BACKUP_PAGE] = {false};
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        verdict_kind_t kind = candidates[i].verdict.kind;
        if (kind == VERDICT_END && !scan_may_end(apply->scan)) continue;
        if (candidates[i].report && candidates[i].report->tried) continue; // wait for the next reports
        asked[i] = kind == VERDICT_RETRY || kind == VERDICT_END;
        if (!asked[i]) continue;
        asked[i] = apply_append_settle(apply, &candidates[i]);
        any |= asked[i];
    }
    if (any) failpoint("settle_before");
    if (any && conn_flush(apply->call->conn, error) != OUTCOME_OK) return error->outcome;
    if (any) failpoint("settle_sent");
    for (size_t i = 0; i < count; i++) {
        settled_t settled = SETTLED;
        if (!asked[i]) continue;
        if (settle_read(apply->call, &settled)) {
            failpoint("settle_answered");
            apply_note_settled(apply, &candidates[i], settled);
        }
        // Without rotation the bad key may be of one job's list.
        if (settled == SETTLED_TYPE && apply->scan->ops->rotation)
            scan_block(apply->scan, candidates[i].verdict.kind == VERDICT_RETRY, candidates[i].ready);
    }
    return error->outcome;
}

size_t apply_classify(const apply_t *apply, const backup_page_t *page, const stamp_t *stamps, const stamp_raw_t *raws) {
    candidate_t *candidates = apply->buffers->candidates;
    size_t count = 0;
    metric_add(&apply->scan->metrics->large, (int64_t)page->large);
    for (size_t i = 0; i < page->count; i++) {
        const entry_t *entry = &page->entries[i];
        if (entry->kind != ENTRY_JOB) continue;
        if ((int64_t)entry->bytes.len > apply_policy(apply)->max_payload) {
            apply_log_oversized(apply, entry);
            scan_note_job(apply->scan, &entry->digest); // the report of the job is not an orphan
            continue;
        }
        if (apply_classify_entry(apply, entry, &stamps[i], &raws[i], &candidates[count])) count++;
    }
    return count;
}

outcome_t apply_verdicts(const apply_t *apply, size_t count) {
    candidate_t *candidates = apply->buffers->candidates;
    redis_error_t heartbeat_error = {0};
    redis_error_t *error = apply->call->error;
    *error = (redis_error_t){0};
    apply_heartbeats(apply, candidates, count, &heartbeat_error);
    if (heartbeat_error.outcome != OUTCOME_DISCONNECTED && heartbeat_error.outcome != OUTCOME_RETRY) {
        if (apply_stamps(apply, candidates, count) == OUTCOME_OK) apply_settle_all(apply, candidates, count);
    }
    if (error->outcome == OUTCOME_OK) *error = heartbeat_error;
    for (size_t i = 0; i < count; i++) free(candidates[i].heartbeat);
    return error->outcome;
}
