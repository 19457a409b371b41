#include "model/verdict.h"

static bool stamp_correct_time(int64_t *time, int64_t now) {
    bool ahead = *time > now;
    if (ahead) *time = now;
    return ahead;
}

bool stamp_correct(stamp_t *stamp, int64_t now) {
    bool ahead = stamp->born_us / 1000 > now;
    if (ahead) stamp->born_us = 0;
    ahead |= stamp_correct_time(&stamp->seen, now);
    ahead |= stamp_correct_time(&stamp->missing, now);
    return stamp_correct_time(&stamp->retried_at, now) || ahead;
}

static int64_t verdict_retries(const observation_t *s, const queue_policy_t *policy) {
    const stamp_t *stamp = &s->stamp;
    if (s->has_retries_in_job) return s->retries_in_job;
    bool forgotten = stamp->retried_at && s->now - stamp->retried_at > policy->retry.window_ms;
    return forgotten ? 0 : stamp->retries;
}

int64_t verdict_delay_ms(const queue_policy_t *policy, int64_t retry) {
    if (policy->retry.backoff == BACKOFF_NONE) return 0;
    int64_t delay = policy->retry.delay_ms;
    if (policy->retry.backoff == BACKOFF_FIXED) return delay;
    for (int64_t i = 1; i < retry && delay < policy->retry.delay_max_ms; i++) delay *= 2;
    return delay < policy->retry.delay_max_ms ? delay : policy->retry.delay_max_ms;
}

int64_t verdict_jitter_ms(const queue_policy_t *policy, int64_t delay_ms, double share) {
    if (!delay_ms) return 0;
    int64_t delay = delay_ms + (int64_t)((double)delay_ms * policy->retry.jitter * share);
    int64_t most = policy->retry.backoff == BACKOFF_EXPONENTIAL ? policy->retry.delay_max_ms : INT64_MAX;
    if (delay > most) delay = most - (delay - most); // a cap at `most` would send half of the retries at the same time
    return delay < 1 ? 1 : delay;
}

// Counts this execution too.
static int64_t verdict_attempts(const observation_t *s, const queue_policy_t *policy) {
    return verdict_retries(s, policy) + (s->deliveries ? s->deliveries : 1);
}

static verdict_t verdict_leave_until(int64_t again) { return (verdict_t){.kind = VERDICT_LEAVE, .again = again}; }

static verdict_t verdict_retry_or_end(const observation_t *s, const queue_policy_t *policy, const char *why,
                                      const char *at_last) {
    int64_t count = verdict_attempts(s, policy);
    bool again = count <= policy->retry.times && s->report != REPORT_END;
    if (again && s->foreign) at_last = "invalid_target";
    // Duplicates look alike, so an end while several are in progress could end more jobs than have failed. A foreign job is
    // ended all the same: it cannot be retried, and would stay for ever.
    if (s->foreign || (!again && (!s->has_duplicates || policy->end_duplicates)))
        return (verdict_t){.kind = VERDICT_END, .reason = at_last, .attempts = count};
    return (verdict_t){.kind = VERDICT_RETRY, .reason = why, .attempts = count, .delay_ms = verdict_delay_ms(policy, count)};
}

// The execution is overdue. Two scans must find the heartbeat missing.
static verdict_t verdict_overdue(const observation_t *s, const queue_policy_t *policy, int64_t alive_until) {
    switch (s->heartbeat) {
    case HEARTBEAT_UNKNOWN: return (verdict_t){.kind = VERDICT_LOOK};
    case HEARTBEAT_THERE: return (verdict_t){.kind = s->stamp.missing ? VERDICT_PRESENT : VERDICT_LEAVE, .again = alive_until};
    case HEARTBEAT_GONE:
        if (!s->stamp.missing) return (verdict_t){.kind = VERDICT_MISSING, .again = s->now};
        // A scan may see a job twice, and duplicates share a stamp: ignore a `missing` that this scan set.
        if (s->stamp.missing >= s->began) return verdict_leave_until(s->now);
        if (s->now - s->stamp.missing <= s->silence_ms && s->silence_ms)
            return verdict_leave_until(s->stamp.missing + s->silence_ms);
        if (s->now < s->certain_at) return verdict_leave_until(s->certain_at);
        break;
    case HEARTBEAT_NONE: break;
    }
    verdict_t out = verdict_retry_or_end(s, policy, "stalled", "retries_exhausted");
    out.needs_silence = s->heartbeat == HEARTBEAT_GONE;
    return out;
}

// Counts from the job's own start or its first observation, whichever is later. Ignores a start in the future.
static int64_t verdict_protected_until(const observation_t *s, const queue_policy_t *policy) {
    int64_t began = s->stamp.seen;
    if (s->executed > began && s->executed <= s->now) began = s->executed;
    return began + policy->protected_timeout_ms;
}

// A worker may still be working on an unreadable job, so end the job only after the protected timeout. Duplicates end one by
// one, as each end removes the stamp.
static verdict_t verdict_unreadable(const observation_t *s, const queue_policy_t *policy) {
    int64_t until = verdict_protected_until(s, policy);
    if (s->now <= until) return verdict_leave_until(until);
    return (verdict_t){.kind = VERDICT_END, .reason = "unreadable", .attempts = verdict_attempts(s, policy)};
}

verdict_t verdict(const observation_t *s, const queue_policy_t *policy) {
    const stamp_t *stamp = &s->stamp;
    stamp_t corrected = *stamp;
    if (!stamp->born_us) return (verdict_t){.kind = VERDICT_STAMP};
    if (stamp_correct(&corrected, s->now)) return (verdict_t){.kind = VERDICT_SEEN};
    if (s->report != REPORT_NONE && !s->unreadable) return verdict_retry_or_end(s, policy, "reported", "reported");
    // A scan may see a job that it has just retried once more, from a page that was read before the retry.
    if (!stamp->seen && stamp->retried_at >= s->began) return verdict_leave_until(s->now + policy->protected_timeout_ms);
    if (!stamp->seen) return (verdict_t){.kind = VERDICT_SEEN};
    if (s->unreadable) return verdict_unreadable(s, policy);

    int64_t alive_until = INT64_MAX;
    if (policy->alive_timeout_ms && (!s->has_duplicates || policy->end_duplicates)) {
        bool dated = s->created > 0 && s->created <= s->now && !stamp->requeued;
        int64_t made = dated ? s->created : stamp->born_us / 1000;
        alive_until = made + policy->alive_timeout_ms;
        if (s->now > alive_until) {
            bool kills = policy->alive_kills || s->heartbeat == HEARTBEAT_NONE;
            if (!kills && s->heartbeat == HEARTBEAT_UNKNOWN) return (verdict_t){.kind = VERDICT_LOOK};
            if (!kills && s->heartbeat == HEARTBEAT_GONE && s->now < s->certain_at) return verdict_leave_until(s->certain_at);
            if (kills || s->heartbeat == HEARTBEAT_GONE)
                return (verdict_t){.kind = VERDICT_END,
                                   .reason = "alive_timeout",
                                   .attempts = verdict_attempts(s, policy),
                                   .needs_silence = !kills};
            alive_until = INT64_MAX; // only a missing heartbeat can end it now
        }
    }
    int64_t until = verdict_protected_until(s, policy);
    bool of_worker = s->silence_ms && s->heartbeat != HEARTBEAT_NONE;
    if (of_worker || s->now > until) return verdict_overdue(s, policy, alive_until);
    return verdict_leave_until(until < alive_until ? until : alive_until);
}
