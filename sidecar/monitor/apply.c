#include "monitor/apply.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "model/job.h"
#include "queue/heartbeat.h"

enum { SETTLE_DEPTH = 4096 };

static const char ROLE[] = "monitor";

// One job that needs more than to be left alone.
typedef struct suspect {
    const entry_t *entry;
    const stamp_raw_t *raw;
    sighting_t sighting;
    verdict_t verdict;
    const ward_report_t *report; // borrowed from the ward
    bool known;                  // job has been read
    job_t job;
    char *heartbeat;   // owned; NULL = none
    stamp_raw_t next;  // of a retry
    const char *ready; // list that it is settled with; borrowed from the config
    event_t event;
    char id[EVENT_ID_SIZE];
    char sha256[DIGEST_HEX_SIZE];
} suspect_t;

struct judge_room {
    suspect_t suspects[BACKUP_PAGE];
    heartbeat_look_t looks[BACKUP_PAGE];
    buffer_t again; // the bytes of one retry
};

judge_room_t *judge_room_new(void) { return mem_alloc(sizeof(judge_room_t)); }

void judge_room_free(judge_room_t *room) {
    if (room) buffer_free(&room->again);
    free(room);
}

static const queue_config_t *config_of(const judge_t *j) { return call_queue(j->call)->config; }
static const queue_policy_t *policy_of(const judge_t *j) { return &config_of(j)->policy; }

static void read_job(const judge_t *j, const entry_t *entry, job_t *job, sighting_t *sighting) {
    j->ops->pass->read(j->json, config_of(j), entry->bytes, job);
    sighting->created = job->created_ms;
    sighting->executed = job->executed_ms;
    sighting->tells_retries = job->told_retries >= 0;
    sighting->told_retries = job->told_retries;
    sighting->unreadable = job->trouble == JOB_UNREADABLE;
    sighting->foreign = job->trouble == JOB_FOREIGN;
}

static void know(const judge_t *j, suspect_t *suspect) {
    if (!suspect->known) read_job(j, suspect->entry, &suspect->job, &suspect->sighting);
    suspect->known = true;
}

// Whether the verdict rests on what the bytes say, where they say something.
static bool needs_bytes(verdict_kind_t kind) { return kind != VERDICT_LEAVE && kind != VERDICT_STAMP && kind != VERDICT_SEEN; }

// Most jobs are seen, stamped and in time: this is all that is done for them. True: there is more to it, in *out.
static bool meet(const judge_t *j, const entry_t *entry, const stamp_t *stamp, const stamp_raw_t *raw, suspect_t *out) {
    const queue_policy_t *policy = policy_of(j);
    const ward_report_t *report = ward_report_of(j->ward, &entry->digest);
    sighting_t sighting = {
        .stamp = *stamp, .now = j->ward->now, .began = j->ward->look.now, .copies = ward_met(j->ward, &entry->digest)};
    ward_met_since(j->ward, stamp->seen);
    sighting.heartbeat = strcmp(policy->heartbeat, "off") == 0 ? HEARTBEAT_NONE : HEARTBEAT_UNKNOWN;
    if (j->ops->pass->of_worker) sighting.silence_ms = j->ward->interval_ms;
    if (report) sighting.report = report->ends ? REPORT_END : REPORT_RETRY;
    bool tells = j->ops->pass->tells;
    bool absent = !entry->bytes.data;
    bool dated = policy->alive_timeout_ms && (tells || *policy->created_path); // its age may end it
    bool known = dated && !absent;
    if (known) read_job(j, entry, &out->job, &sighting);
    verdict_t found = verdict(&sighting, policy);
    // What cannot be judged now is judged in the next pass, which has room for it and comes at once.
    if (absent && (dated || needs_bytes(found.kind))) {
        j->ward->unsettled = true;
        return false;
    }
    if (tells && !known && needs_bytes(found.kind)) {
        read_job(j, entry, &out->job, &sighting);
        known = true;
        found = verdict(&sighting, policy);
    }
    ward_verdict(j->ward, &found);
    if (found.kind == VERDICT_LEAVE) return false;
    out->known = known;
    out->entry = entry;
    out->raw = raw;
    out->report = report;
    out->sighting = sighting;
    out->verdict = found;
    out->heartbeat = NULL;
    if (report && found.kind == VERDICT_STAMP) j->ward->unsettled = true; // it is settled by its stamp, so it needs one first
    return true;
}

static void name_large(const judge_t *j, const entry_t *entry) {
    char sha256[DIGEST_HEX_SIZE];
    digest_hex(&entry->digest, sha256);
    metric_add(&j->ward->metrics->large, 1);
    log_warn(ROLE, j->ward->config->name, "left an entry in backup that is larger than max_payload",
             F_INT("bytes", entry->bytes.len), F_STR("sha256", sha256), F_INT("max_payload", policy_of(j)->max_payload));
}

// Looks at the heartbeats that verdicts wait for, and judges again. One that is refused counts as there, and keeps no other job
// waiting; *error tells of it.
static outcome_t look_at_heartbeats(const judge_t *j, suspect_t *suspects, size_t count, redis_error_t *error) {
    heartbeat_look_t *looks = j->room->looks;
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        looks[i].key = NULL;
        if (suspects[i].verdict.kind != VERDICT_LOOK) continue;
        know(j, &suspects[i]);
        looks[i].key = suspects[i].heartbeat = j->ops->pass->heartbeat(config_of(j), suspects[i].entry, &suspects[i].job);
        looks[i].blank_is_dead = j->ops->pass->blank_is_dead;
        wanted++;
    }
    if (!wanted) return OUTCOME_OK;
    heartbeats_look(j->call->conn, looks, count, error);
    if (error->outcome == OUTCOME_DISCONNECTED || error->outcome == OUTCOME_RETRY) return error->outcome;
    for (size_t i = 0; i < count; i++) {
        suspect_t *suspect = &suspects[i];
        if (suspect->verdict.kind != VERDICT_LOOK) continue;
        suspect->sighting.heartbeat = !looks[i].key ? HEARTBEAT_NONE : looks[i].there ? HEARTBEAT_THERE : HEARTBEAT_GONE;
        suspect->verdict = verdict(&suspect->sighting, policy_of(j));
        workers_note(&j->ward->workers, &suspect->entry->digest, (slice_t){looks[i].worker, looks[i].worker_len});
        ward_verdict(j->ward, &suspect->verdict);
    }
    return error->outcome;
}

// Begins lives and executions, and notes silence.
static outcome_t write_stamps(const judge_t *j, const suspect_t *suspects, size_t count) {
    stamp_change_t changes[BACKUP_PAGE];
    size_t change_count = 0;
    for (size_t i = 0; i < count; i++) {
        stamp_t stamp = suspects[i].sighting.stamp;
        stamp_change_t change = {.digest = &suspects[i].entry->digest, .old = *suspects[i].raw};
        switch (suspects[i].verdict.kind) {
        case VERDICT_STAMP: break;
        case VERDICT_SEEN: stamp.seen = j->ward->now; break;
        case VERDICT_MISSING: stamp.missing = j->ward->now; break;
        case VERDICT_PRESENT: stamp.missing = 0; break;
        default: continue;
        }
        if (suspects[i].verdict.kind != VERDICT_STAMP) change.new = stamp_pack(&stamp);
        changes[change_count++] = change;
    }
    if (!change_count) return OUTCOME_OK;
    failpoint("stamp_before");
    stamps_change(j->call, changes, change_count);
    failpoint("stamp_answered");
    return j->call->error->outcome;
}

static void make_event(const judge_t *j, suspect_t *suspect) {
    const stamp_t *stamp = &suspect->sighting.stamp;
    bool ends = suspect->verdict.kind == VERDICT_END;
    digest_hex(&suspect->entry->digest, suspect->sha256);
    suspect->event = (event_t){
        .kind = slice_text(ends ? "failed" : "retried"),
        .dialect = slice_text(config_dialect_word(j->ops->settings)),
        .queue = slice_text(config_of(j)->name),
        .job = slice_text(suspect->job.id),
        .type = slice_text(suspect->job.type),
        .worker =
            slice_text(suspect->entry->owner ? suspect->entry->owner : workers_name(&j->ward->workers, &suspect->entry->digest)),
        .reason = slice_text(suspect->verdict.reason),
        .term = slice_text(j->call->token),
        .sha256 = slice_text(suspect->sha256),
        .attempts = suspect->verdict.attempts,
        .created = suspect->job.created_ms ? suspect->job.created_ms : stamp->born_us / 1000,
        .started = suspect->job.executed_ms ? suspect->job.executed_ms : stamp->seen,
        .size = (int64_t)suspect->entry->bytes.len,
    };
    // The count may be forgotten within a life, so the last retry tells two executions of one number apart.
    event_id(&suspect->event, stamp->born_us, stamp->retried_at, suspect->id);
    suspect->event.event = slice_text(suspect->id);
    if (ends) suspect->event.payload = suspect->entry->bytes;
}

// False: a key of the wrong type is in the way.
static bool append_settle(const judge_t *j, suspect_t *suspect) {
    const ward_t *ward = j->ward;
    bool retries = suspect->verdict.kind == VERDICT_RETRY;
    settle_where_t where = {0};
    know(j, suspect);
    make_event(j, suspect);
    buffer_clear(&j->room->again);
    j->ops->pass->settle(call_queue(j->call), suspect->entry, &suspect->job, retries, &where, &j->room->again);
    if (ward_blocked(ward, retries, where.ready)) return false;
    suspect->ready = where.ready;
    settle_ask_t ask = {.job = suspect->entry->bytes,
                        .digest = &suspect->entry->digest,
                        .where = &where,
                        .old = *suspect->raw,
                        .from_tail = j->standing,
                        .depth = SETTLE_DEPTH + (j->standing ? (int64_t)ward->read : 0),
                        .alone = !policy_of(j)->end_duplicates && suspect->job.trouble == JOB_FINE,
                        .blank_is_dead = j->ops->pass->blank_is_dead,
                        .report = suspect->report ? suspect->report->sha1 : "",
                        .event = &suspect->event};
    if (suspect->verdict.needs_silence) ask.heartbeat = suspect->heartbeat;
    if (retries) {
        stamp_t stamp = {.born_us = suspect->sighting.stamp.born_us,
                         .retries = suspect->verdict.attempts,
                         .retried_at = ward->now,
                         .requeued = suspect->sighting.stamp.requeued};
        ask.new = stamp_pack(&stamp);
        ask.delay_ms = verdict_jitter_ms(policy_of(j), suspect->verdict.delay_ms, 2 * random_unit() - 1);
    }
    settle_append(j->call, &ask);
    buffer_shrink(&j->room->again);
    return true;
}

static void say(const judge_t *j, const suspect_t *suspect) {
    const char *queue = j->ward->config->name;
    if (suspect->verdict.kind == VERDICT_END)
        log_warn(ROLE, queue, "a job has failed for good", F_STR("reason", suspect->verdict.reason),
                 F_STR("job", suspect->job.id), F_INT("attempts", suspect->event.attempts));
    else
        log_info(ROLE, queue, "gave a job back", F_STR("reason", suspect->verdict.reason), F_STR("job", suspect->job.id),
                 F_INT("retry", suspect->verdict.attempts));
}

// Only its copies have kept a retried job from its end.
static bool due_to_end(const judge_t *j, const suspect_t *suspect) {
    return suspect->verdict.attempts > policy_of(j)->retry_times || suspect->sighting.report == REPORT_END;
}

// What an execution was found stalled by; see METRICS_BY_LABEL.
static metrics_cause_t cause_of(const suspect_t *suspect) {
    const sighting_t *s = &suspect->sighting;
    if (suspect->verdict.kind == VERDICT_END && strcmp(suspect->verdict.reason, "alive_timeout") == 0) return CAUSE_alive_timeout;
    if (s->heartbeat != HEARTBEAT_GONE) return CAUSE_timeout;
    return s->silence_ms ? CAUSE_worker_gone : CAUSE_heartbeat_lost;
}

// What has come of one settle. What did not come to be is looked at again by the next pass.
static void note_settled(const judge_t *j, const suspect_t *suspect, settled_t settled) {
    metrics_queue_t *metrics = j->ward->metrics;
    bool ends = suspect->verdict.kind == VERDICT_END;
    switch (settled) {
    case SETTLED:
    case SETTLED_UNRECORDED:
        if (ends)
            metrics_end(metrics, suspect->verdict.reason, 1);
        else
            metric_add(&metrics->retried, 1);
        workers_forget(&j->ward->workers, &suspect->entry->digest); // whoever has it next is another
        if (!suspect->report) metrics_stall(metrics, cause_of(suspect));
        if (settled == SETTLED_UNRECORDED) metric_add(&metrics->retried_unrecorded, 1);
        if (!ends && due_to_end(j, suspect)) metric_add(&metrics->copies, 1);
        if (suspect->report) j->ward->unsettled = true; // our own write has made Redis forget to tell of the next report
        say(j, suspect);
        break;
    case SETTLED_DROPPED:
        metric_add(&metrics->duplicates_dropped, 1);
        log_info(ROLE, j->ward->config->name, "dropped a job that was done already", F_STR("job", suspect->job.id));
        break;
    case SETTLED_COPIES: metric_add(&metrics->copies, 1); break;
    case SETTLED_FULL:
        metric_add(&metrics->ends_held, 1);
        log_error(ROLE, j->ward->config->name, "the failure stream is full: no job is ended until it shrinks",
                  F_INT("max_bytes", j->call->keys->config->stream.max_bytes));
        break;
    case SETTLED_CHANGED: j->ward->unsettled = true; break;
    default: break; // finished, alive after all, or not ours to decide
    }
}

static outcome_t settle_all(const judge_t *j, suspect_t *suspects, size_t count) {
    redis_error_t *error = j->call->error;
    bool asked[BACKUP_PAGE] = {false};
    bool any = false;
    redis_error_t worst = {0};
    for (size_t i = 0; i < count; i++) {
        verdict_kind_t kind = suspects[i].verdict.kind;
        if (kind == VERDICT_END && !ward_sure(j->ward)) continue;
        asked[i] = kind == VERDICT_RETRY || kind == VERDICT_END;
        if (!asked[i]) continue;
        asked[i] = append_settle(j, &suspects[i]);
        any |= asked[i];
    }
    if (any) failpoint("settle_before");
    if (any && conn_flush(j->call->conn, error) != OUTCOME_OK) return error->outcome;
    if (any) failpoint("settle_sent");
    for (size_t i = 0; i < count; i++) {
        settled_t settled = SETTLED;
        if (!asked[i]) continue;
        if (settle_read(j->call->conn, &settled, error) == OUTCOME_DISCONNECTED) return OUTCOME_DISCONNECTED;
        if (error->outcome == OUTCOME_OK) {
            failpoint("settle_answered");
            note_settled(j, &suspects[i], settled);
        } else if (error->outcome > worst.outcome) {
            worst = *error;
        }
        // Of private lists it may be the one list of this job.
        if (settled == SETTLED_TYPE && j->ops->pass->rotation)
            ward_block(j->ward, suspects[i].verdict.kind == VERDICT_RETRY, suspects[i].ready);
    }
    *error = worst;
    return worst.outcome;
}

size_t judge_meet(const judge_t *j, const backup_page_t *page, const stamp_t *stamps, const stamp_raw_t *raws) {
    suspect_t *suspects = j->room->suspects;
    size_t count = 0;
    metric_add(&j->ward->metrics->large, (int64_t)page->large);
    for (size_t i = 0; i < page->count; i++) {
        const entry_t *entry = &page->entries[i];
        if (entry->kind != ENTRY_JOB) continue;
        if ((int64_t)entry->bytes.len > policy_of(j)->max_payload) {
            name_large(j, entry);
            ward_met(j->ward, &entry->digest); // it is in progress, and so its report is no stray
            continue;
        }
        if (meet(j, entry, &stamps[i], &raws[i], &suspects[count])) count++;
    }
    return count;
}

outcome_t judge_act(const judge_t *j, size_t count) {
    suspect_t *suspects = j->room->suspects;
    redis_error_t of_beats = {0};
    redis_error_t *error = j->call->error;
    *error = (redis_error_t){0};
    look_at_heartbeats(j, suspects, count, &of_beats);
    if (of_beats.outcome != OUTCOME_DISCONNECTED && of_beats.outcome != OUTCOME_RETRY) {
        if (write_stamps(j, suspects, count) == OUTCOME_OK) settle_all(j, suspects, count);
    }
    if (error->outcome == OUTCOME_OK) *error = of_beats;
    for (size_t i = 0; i < count; i++) free(suspects[i].heartbeat);
    return error->outcome;
}
