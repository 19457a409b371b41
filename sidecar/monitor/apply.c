#include "monitor/apply.h"

#include "base/failpoint.h"
#include "base/log.h"
#include "monitor/settles.h"
#include "queue/heartbeat.h"

static const char ROLE[] = "monitor";

struct apply_buffers {
    candidate_t candidates[BACKUP_PAGE];
    heartbeat_check_t checks[BACKUP_PAGE];
};

apply_buffers_t *apply_buffers_new(void) { return mem_alloc(sizeof(apply_buffers_t)); }
void apply_buffers_free(apply_buffers_t *buffers) { free(buffers); }

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

// A scan ends no job that it meets for the first time, because it may meet duplicates of the job later: it writes a stamp. The
// next scan knows the duplicates and may end the job.
static verdict_t apply_judge(const apply_t *apply, observation_t *observation, const stamp_t *stamp) {
    verdict_t found = verdict(observation, apply_policy(apply));
    if (found.kind != VERDICT_END || stamp->born_us || apply->scan->state == SCAN_SEARCH) return found;
    observation->stamp = *stamp;
    return verdict(observation, apply_policy(apply));
}

// Each job counts once, when a scan first sees it.
static void apply_note_date(const apply_t *apply, const job_t *job) {
    bool undated = job->created_ms == 0;
    scan_note_date(apply->scan, undated);
    if (undated) anomaly_sample(apply->scan->metrics, ANOMALY_undated_jobs, "job %s", job->id);
}

// The server knows when this execution began, and when the life of the entry did.
static stamp_t apply_stamp_of_pending(const apply_t *apply, const pending_entry_t *pending, const stamp_t *stamp) {
    stamp_t out = *stamp;
    out.seen = apply->scan->clock.now - pending->idle_ms;
    if (!out.born_us) out.born_us = pending->life_us;
    if (!out.born_us || out.born_us / 1000 > apply->scan->clock.now) out.born_us = apply->scan->clock.now * 1000;
    if (out.missing < out.seen) out.missing = 0; // of an earlier execution
    return out;
}

// Judges one entry. True: the verdict in *out must be carried out. Cheap for most jobs, which have a stamp and are in time.
static bool apply_classify_entry(const apply_t *apply, const entry_t *entry, const stamp_t *stamp, const stamp_raw_t *raw,
                                 candidate_t *out) {
    const queue_policy_t *policy = apply_policy(apply);
    const worker_report_t *report = report_table_find(&apply->scan->reports, entry_reported(entry));
    stamp_t of_pending;
    if (entry->pending) {
        of_pending = apply_stamp_of_pending(apply, entry->pending, stamp);
        stamp = &of_pending;
    }
    observation_t observation = {.stamp = *stamp,
                                 .deliveries = entry->pending ? entry->pending->deliveries : 0,
                                 .now = apply->scan->clock.now,
                                 .began = apply->scan->status.now,
                                 .certain_at = apply->scan->clock.certain_at,
                                 .has_duplicates = scan_note_job(apply->scan, entry)};
    scan_note_since(apply->scan, stamp->seen);
    observation.heartbeat = strchr(policy->heartbeat, '*') ? HEARTBEAT_UNKNOWN : HEARTBEAT_NONE;
    if (apply->scan->ops->of_worker) observation.silence_ms = apply->scan->interval_ms;
    if (report) observation.report = report->ends ? REPORT_END : REPORT_RETRY;
    if (report && !stamp->born_us) // its life begins now
        observation.stamp = (stamp_t){.born_us = apply->births_us, .seen = observation.now};
    bool bytes_tell = apply->scan->ops->bytes_tell;
    bool absent = !entry->bytes.data;
    bool dated = policy->alive_timeout_ms && (bytes_tell || *policy->created_path); // the job's own date may end it
    bool known = dated && !absent;
    if (known) apply_read_job(apply, entry, &out->job, &observation);
    verdict_t found = apply_judge(apply, &observation, stamp);
    if (known && *policy->created_path && found.kind == VERDICT_STAMP) apply_note_date(apply, &out->job);
    // The bytes of the job exceeded PAGES_BYTES. The next scan begins soon and has room for them.
    if (absent && (dated || apply_needs_bytes(found.kind))) {
        apply->scan->timer.rescan = true;
        return false;
    }
    if (bytes_tell && !known && apply_needs_bytes(found.kind)) {
        apply_read_job(apply, entry, &out->job, &observation);
        known = true;
        found = apply_judge(apply, &observation, stamp);
    }
    scan_note_verdict(apply->scan, &found);
    if (found.kind == VERDICT_LEAVE) return false;
    out->known = known;
    out->removed = false;
    out->entry = entry;
    out->raw = raw;
    out->report = report;
    out->observation = observation;
    out->verdict = found;
    out->heartbeat = NULL;
    out->again = (buffer_t){0};
    // A settle needs the stamp that the verdict rests on. This job gets one now, so the next scan can settle it.
    if (report && (found.kind == VERDICT_STAMP || found.kind == VERDICT_SEEN)) apply->scan->timer.rescan = true;
    return true;
}

static void apply_count_oversized(const apply_t *apply, int64_t count) {
    if (apply->scan->state == SCAN_READ) scan_pass(apply->scan)->oversized += count; // a search may meet them again
}

static void apply_note_oversized(const apply_t *apply, const entry_t *entry) {
    char sha256[DIGEST_HEX_SIZE];
    digest_hex(&entry->digest, sha256);
    apply_count_oversized(apply, 1);
    anomaly_sample(apply->scan->metrics, ANOMALY_large_in_progress, "%zu bytes, sha256 %s, in %s", entry->bytes.len, sha256,
                   entry->from ? entry->from : apply->scan->config->backup);
    log_warn(ROLE, apply->scan->config->name, "left an entry larger than max_payload in backup", F_INT("bytes", entry->bytes.len),
             F_STR("sha256", sha256), F_INT("max_payload", apply_policy(apply)->max_payload));
}

// Owned; NULL = the job has no heartbeat.
static char *apply_heartbeat_key(const apply_t *apply, const candidate_t *candidate) {
    if (candidate->job.trouble == JOB_UNREADABLE) return NULL;
    return job_heartbeat_key(apply_policy(apply), apply->scan->ops->of_worker ? candidate->entry->owner : candidate->job.id);
}

// A worker renews its heartbeat within the protected timeout. So ask for the TTL only of heartbeats of old jobs.
static bool apply_asks_ttl(const apply_t *apply, const candidate_t *candidate) {
    const observation_t *seen = &candidate->observation;
    return apply->scan->state == SCAN_READ && seen->now - seen->stamp.seen > 2 * apply_policy(apply)->protected_timeout_ms;
}

static void apply_note_endless(const apply_t *apply, const heartbeat_check_t *check) {
    if (!check->endless) return;
    if (scan_pass(apply->scan)->endless_heartbeats++ == 0)
        anomaly_sample(apply->scan->metrics, ANOMALY_endless_heartbeats, "\"%s\"", check->key);
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
        checks[i].asks_ttl = apply_asks_ttl(apply, &candidates[i]);
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
        apply_note_endless(apply, &checks[i]);
    }
    return error->outcome;
}

static outcome_t apply_stamps(const apply_t *apply, const candidate_t *candidates, size_t count) {
    stamp_change_t changes[BACKUP_PAGE];
    size_t change_count = 0;
    int64_t now = apply->scan->clock.now;
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

static void apply_settle(const apply_t *apply, candidate_t *candidates, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (candidates[i].verdict.kind == VERDICT_RETRY || candidates[i].verdict.kind == VERDICT_END)
            apply_read_job_once(apply, &candidates[i]);
    settles_page(apply, candidates, count);
}

size_t apply_classify(const apply_t *apply, const backup_page_t *page, const stamp_t *stamps, const stamp_raw_t *raws) {
    candidate_t *candidates = apply->buffers->candidates;
    size_t count = 0;
    if (page->large) {
        apply_count_oversized(apply, (int64_t)page->large);
        anomaly_sample(apply->scan->metrics, ANOMALY_large_in_progress, "a job in %s", page->large_from);
    }
    for (size_t i = 0; i < page->count; i++) {
        const entry_t *entry = &page->entries[i];
        if (entry->kind != ENTRY_JOB) continue;
        if ((int64_t)entry->bytes.len > apply_policy(apply)->max_payload) {
            apply_note_oversized(apply, entry);
            scan_note_job(apply->scan, entry); // the report of the job is not an orphan
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
        if (apply_stamps(apply, candidates, count) == OUTCOME_OK) apply_settle(apply, candidates, count);
    }
    if (error->outcome == OUTCOME_OK) *error = heartbeat_error;
    for (size_t i = 0; i < count; i++) free(candidates[i].heartbeat);
    return error->outcome;
}
