#include "dispatcher/schedule.h"

#include <math.h>

#include "base/log.h"
#include "model/anomaly.h"

// Between these limits a score is plausible in seconds, but too early in ms. Above the upper limit it is too late in seconds.
// promote.lua has the same limits.
#define SCORE_SECONDS_LOW  1e8  // as ms: 2 January 1970; as seconds: 1973
#define SCORE_SECONDS_HIGH 1e11 // as ms: 1973; as seconds: the year 5138
#define SCORE_DELAY_HIGH   1e9  // as seconds: 2001. A score up to here is no time, but perhaps a delay

enum {
    FIRST_BATCH = 100,       // jobs of the first promote, while their time is unknown
    UNKNOWN_SHARE = 8,       // such a promote may take this fraction of a slice
    EMPTY_MAX = 3,           // empty promotes in a row without a pause
    FIRST_UNKNOWN = 2,       // entries of the first read while the size of entries is unknown
    FIRST_BYTES = 64 * 1024, // bytes of the first read when the size of entries is known
};

static const char ROLE[] = "dispatcher";

void schedule_init(schedule_t *schedule, const queue_config_t *config, metrics_queue_t *metrics, int64_t batch,
                   int64_t slice_us) {
    *schedule = (schedule_t){
        .config = config, .metrics = metrics, .ops = dialect_ops(config->dialect), .batch = batch, .slice_us = slice_us};
    if (schedule->ops->promote && schedule->ops->promote->max_batch < batch) schedule->batch = schedule->ops->promote->max_batch;
    schedule_reset(schedule);
}

void schedule_free(schedule_t *schedule) { condition_free(&schedule->refused); }

// Forgets the oversized entries, because other entries may be the first.
static void schedule_forget_oversized(schedule_t *schedule) {
    schedule->oversized = (schedule_oversized_t){.epoch = schedule->oversized.epoch + 1, .found = schedule->oversized.found};
}

// Call it when no further entry is due: all oversized ones that are due have been met.
static void schedule_note_oversized(const schedule_t *schedule, int64_t now_us) {
    anomaly_set(schedule->metrics, ANOMALY_large_delayed, schedule->oversized.skip - schedule->oversized.foreign, now_us / 1000);
}

void schedule_reset(schedule_t *schedule) {
    schedule_forget_oversized(schedule);
    schedule->oversized.found = false;
    schedule->next_due = (schedule_next_due_t){.changed = true, .due = mono_never(), .due_us = INT64_MAX};
    schedule->blocked_until = (mono_t){0};
    schedule->in_flight = false;
    schedule->first = FIRST_UNKNOWN;
    schedule->backlog = schedule->isolated = schedule->suspect = false;
    schedule->empty = 0;
    schedule_note_oversized(schedule, 0);
}

// During the cooldown oversized entries stay skipped, or a busy producer would cause a read of them at each change.
void schedule_changed(schedule_t *schedule) {
    schedule->next_due.changed = true;
    schedule->oversized.changed = true;
    if (schedule->oversized.cooldown_until.ns == 0) schedule_forget_oversized(schedule);
}

void schedule_flushed(schedule_t *schedule) {
    schedule_forget_oversized(schedule);
    schedule_changed(schedule);
}

void schedule_poll_oversized(schedule_t *schedule, mono_t now) {
    mono_t again = mono_add(schedule->oversized.found_at, SCHEDULE_OVERSIZED_MS * NS_PER_MS);
    if (schedule->oversized.skip && mono_reached(again, now)) schedule->oversized.changed = true;
}

static bool schedule_is_free(const schedule_t *schedule, mono_t now) {
    return !schedule->in_flight && mono_reached(schedule->blocked_until, now);
}

bool schedule_wants_promote(const schedule_t *schedule, mono_t now) {
    return schedule_is_free(schedule, now) && mono_reached(schedule->next_due.due, now);
}

static mono_t schedule_read_at(const schedule_t *schedule) {
    const schedule_next_due_t *next = &schedule->next_due;
    if (next->changed) return next->reread_at;
    return schedule->oversized.changed ? mono_max(schedule->oversized.cooldown_until, next->reread_at) : mono_never();
}

bool schedule_wants_read(const schedule_t *schedule, mono_t now) {
    return schedule_is_free(schedule, now) && mono_reached(schedule_read_at(schedule), now);
}

mono_t schedule_next(const schedule_t *schedule) {
    return mono_max(mono_min(schedule->next_due.due, schedule_read_at(schedule)), schedule->blocked_until);
}

static mono_t schedule_reread_at(mono_t now) { return mono_add(now, SCHEDULE_REREAD_MS * NS_PER_MS); }

static void schedule_note_read(schedule_t *schedule, mono_t now) {
    schedule->next_due.changed = false;
    schedule->next_due.reread_at = mono_max(schedule->next_due.reread_at, schedule_reread_at(now));
}

// Two requests in flight would read the same oversized entries, and count them twice.
static void schedule_note_sent(schedule_t *schedule, mono_t now) {
    assert(!schedule->in_flight);
    schedule->in_flight = true;
    if (schedule->oversized.changed && mono_reached(schedule->oversized.cooldown_until, now)) schedule_forget_oversized(schedule);
}

void schedule_replied(schedule_t *schedule) {
    assert(schedule->in_flight); // else the reply is to a request of another queue
    schedule->in_flight = false;
}

void schedule_sent_read(schedule_t *schedule, mono_t now) {
    schedule->oversized.found = false;
    schedule_note_sent(schedule, now);
    schedule_note_read(schedule, now);
}

bool schedule_shares_script(const schedule_t *schedule) { return schedule->ops->promote->append_many; }

bool schedule_wants_own_request(const schedule_t *schedule) {
    bool troubled = schedule->isolated || schedule->suspect || schedule->refused.holds;
    return troubled || (schedule->backlog && !schedule_shares_script(schedule));
}

int64_t schedule_least_us(const schedule_t *schedule) {
    if (schedule_shares_script(schedule)) return 0;
    const pace_t *pace = &schedule->pace;
    return pace->job_us > 0 ? pace_least_us(pace) : schedule->slice_us / UNKNOWN_SHARE;
}

static int64_t schedule_share(const schedule_t *schedule, int64_t whole, int64_t time_us) {
    return time_us < schedule->slice_us ? whole * time_us / schedule->slice_us : whole;
}

static int64_t schedule_batch(const schedule_t *schedule, int64_t time_us) {
    if (schedule_shares_script(schedule)) return schedule->batch;
    return pace_jobs(&schedule->pace, time_us, schedule_share(schedule, FIRST_BATCH, time_us), schedule->batch);
}

schedule_request_t schedule_sent_promote(schedule_t *schedule, int64_t time_us, mono_t now) {
    schedule_note_sent(schedule, now);
    if (!schedule->backlog) schedule_note_read(schedule, now);
    return (schedule_request_t){.batch = schedule_batch(schedule, time_us),
                                .skip = schedule->oversized.skip,
                                .first = schedule->first,
                                .bytes = schedule_share(schedule, PROMOTE_BYTES, time_us),
                                .reads_next_due = !schedule->backlog,
                                .epoch = schedule->oversized.epoch};
}

static bool schedule_plausible_date(const schedule_t *schedule, double score) {
    double unit = schedule->config->policy.score_unit == SCORE_S ? 1000 : 1;
    return isfinite(score) && score * unit > SCORE_SECONDS_HIGH;
}

// Whether a producer wrote seconds for ms, or a delay for a time. 0 and below mean "at once".
static bool schedule_no_time(const schedule_t *schedule, double score) {
    bool ms = schedule->config->policy.score_unit == SCORE_MS;
    return config_queue_knows(schedule->config, "score_unit") && score > 0 &&
           score < (ms ? SCORE_SECONDS_HIGH : SCORE_DELAY_HIGH);
}

// Lateness counts from the due time, or from the last time at which ready was full. Another metric counts the wait for room.
static void schedule_count_moved(schedule_t *schedule, const promote_reply_t *reply) {
    metric_add(&schedule->metrics->promoted, reply->moved);
    metric_add(&schedule->metrics->batches, 1);
    if (schedule->full_at_us) metric_add(&schedule->metrics->full_us, reply->now_us - schedule->full_at_us);
    int64_t from_us = reply->has_oldest ? schedule->ops->promote->due_us(schedule->config, reply->oldest) : INT64_MIN;
    if (schedule->full_at_us > from_us) from_us = schedule->full_at_us;
    if (reply->has_oldest && schedule_plausible_date(schedule, reply->oldest))
        metrics_lateness(schedule->metrics, reply->now_us - from_us, reply->moved);
    schedule->full_at_us = 0;
    if (reply->early == 0) return;
    anomaly_sample(schedule->metrics, ANOMALY_early_jobs, "score %.17g in %s", reply->early_score, schedule->config->delayed);
    anomaly_add(schedule->metrics, ANOMALY_early_jobs, reply->early, reply->now_us / 1000);
}

static void schedule_skip_oversized(schedule_t *schedule, const promote_reply_t *reply, const schedule_request_t *ask) {
    schedule->next_due.changed = true;
    if (ask->epoch != schedule->oversized.epoch) return;
    schedule->oversized.skip += reply->large;
    schedule->oversized.foreign += reply->foreign;
    if (reply->foreign)
        log_warn(ROLE, schedule->config->name, "left due entries that are no jobs for a list of the config",
                 F_INT("entries", reply->foreign), F_STR("queue", reply->stranger));
    if (reply->large == reply->foreign) return;
    anomaly_sample(schedule->metrics, ANOMALY_large_delayed, "score %.17g, %" PRId64 " bytes, sha1 %s, in %s", reply->large_score,
                   reply->large_bytes, reply->large_sha1, schedule->config->delayed);
    log_warn(ROLE, schedule->config->name, "left entries larger than max_payload in delayed",
             F_INT("entries", reply->large - reply->foreign), F_INT("bytes", reply->large_bytes),
             F_NUM("score", reply->large_score), F_STR("sha1", reply->large_sha1),
             F_INT("max_payload", schedule->config->policy.max_payload));
}

// Returns the entries of the next first read. The next entries are most likely as large as the last entries, and as many.
static int64_t schedule_first_read(const schedule_t *schedule, const promote_reply_t *reply) {
    if (reply->large > 0) return FIRST_UNKNOWN;
    int64_t first = FIRST_BYTES * reply->moved / (reply->bytes + 1);
    if (first > 2 * reply->moved) first = 2 * reply->moved;
    if (first < FIRST_UNKNOWN) return FIRST_UNKNOWN;
    return first < schedule->batch ? first : schedule->batch;
}

static void schedule_apply_moved(schedule_t *schedule, const promote_reply_t *reply, const schedule_request_t *ask, mono_t now) {
    schedule->backlog = reply->more || reply->moved + reply->large >= ask->batch;
    if (!schedule->backlog && !ask->reads_next_due)
        schedule->next_due = (schedule_next_due_t){.changed = true, .reread_at = now, .due = mono_never(), .due_us = INT64_MAX};
    schedule->oversized.found = reply->large > 0;
    if (schedule->oversized.found) schedule_skip_oversized(schedule, reply, ask);
    if (schedule->oversized.found) schedule->oversized.found_at = now;
    if (reply->moved + reply->large > 0) pace_note_fixed(&schedule->pace, reply->fixed_us);
    pace_note(&schedule->pace, reply->moved + reply->large, reply->took_us - reply->fixed_us);
    if (reply->moved > 0) {
        schedule->empty = 0;
        schedule->first = schedule_first_read(schedule, reply);
        // The expensive entry has moved. Its cost predicts nothing about the next one.
        if (!schedule->oversized.found)
            schedule->next_due.reread_at = mono_min(schedule->next_due.reread_at, schedule_reread_at(now));
        schedule_count_moved(schedule, reply);
        return;
    }
    metric_add(&schedule->metrics->empty, 1);
    // The clock of this machine and Redis's clock differ a little, so a few empty promotes are normal. Pause after more.
    if (++schedule->empty > EMPTY_MAX) schedule->blocked_until = mono_add(now, NS_PER_MS);
}

static void schedule_apply_full(schedule_t *schedule, const promote_reply_t *reply, mono_t now) {
    if (schedule->full_at_us)
        metric_add(&schedule->metrics->full_us, reply->now_us - schedule->full_at_us);
    else
        log_warn(ROLE, schedule->config->name, "ready is at ready_limit; promotion waits",
                 F_INT("ready_limit", schedule->config->policy.ready_limit));
    schedule->full_at_us = reply->now_us;
    schedule->backlog = false;
    schedule->blocked_until = mono_add(now, SCHEDULE_FULL_RETRY_MS * NS_PER_MS);
}

void schedule_read_promote(schedule_t *schedule, const promote_reply_t *reply, const schedule_request_t *ask, mono_t now) {
    schedule->suspect = false;
    if (condition_update_reason(&schedule->refused, NULL) == CONDITION_ENDED)
        log_info(ROLE, schedule->config->name, "redis accepts promotion again");
    if (reply->full)
        schedule_apply_full(schedule, reply, now);
    else if (!reply->later) // a queue whose turn did not come is still due
        schedule_apply_moved(schedule, reply, ask, now);
}

void schedule_fenced(schedule_t *schedule) { schedule->backlog = false; }

void schedule_refused(schedule_t *schedule, const redis_error_t *error, mono_t now) {
    if (condition_update_reason(&schedule->refused, error->text) == CONDITION_BEGAN)
        LOG_AT(error_kind_is_slot(error->kind) ? LOG_INFO : LOG_ERROR, ROLE, schedule->config->name, "redis refuses to promote",
               F_STR("reason", error->text));
    metrics_refused(schedule->metrics, mono_now());
    schedule->backlog = schedule->suspect = false;
    schedule->next_due.changed = true;
    schedule->blocked_until = mono_add(now, error_kind_pause_ms(error->kind, SCHEDULE_REFUSED_MS) * NS_PER_MS);
}

void schedule_expensive(schedule_t *schedule, int64_t cost_ns, mono_t now) {
    mono_t *cooldown_until = &schedule->oversized.cooldown_until;
    schedule->isolated = true;
    if (schedule->oversized.found) {
        *cooldown_until = mono_add(mono_max(*cooldown_until, now), SCHEDULE_COOLDOWN_FACTOR * cost_ns);
        *cooldown_until = mono_min(*cooldown_until, mono_add(now, SCHEDULE_COOLDOWN_MAX_MS * NS_PER_MS));
    } else {
        schedule->next_due.reread_at = mono_max(schedule->next_due.reread_at, mono_add(now, SCHEDULE_COOLDOWN_FACTOR * cost_ns));
    }
}

static void schedule_warn_unit(const schedule_t *schedule, double score) {
    bool ms = schedule->config->policy.score_unit == SCORE_MS;
    if (schedule_no_time(schedule, score) && (!ms || score <= SCORE_SECONDS_LOW))
        log_warn(ROLE, schedule->config->name,
                 "a delayed score is no time, but perhaps a delay: the job runs at once; write the time at which it is due",
                 F_NUM("score", score));
    if (ms && score > SCORE_SECONDS_LOW && score < SCORE_SECONDS_HIGH)
        log_warn(ROLE, schedule->config->name,
                 "a delayed score looks like seconds, but score_unit is \"ms\": jobs run long before their time",
                 F_NUM("score", score));
    if (!ms && score > SCORE_SECONDS_HIGH && isfinite(score))
        log_warn(ROLE, schedule->config->name,
                 "a delayed score looks like milliseconds, but score_unit is \"s\": jobs will not run", F_NUM("score", score));
}

static int64_t schedule_due_us(const schedule_t *schedule, const next_due_t *next) {
    return next->exists ? schedule->ops->promote->due_us(schedule->config, next->score) : INT64_MAX;
}

static mono_t schedule_local_time(int64_t due_us, int64_t now_us, mono_t now) {
    if (due_us <= now_us) return now;
    if (due_us == INT64_MAX || due_us - now_us > INT64_MAX / NS_PER_US) return mono_never();
    return mono_add(now, (due_us - now_us) * NS_PER_US);
}

void schedule_read_next_due(schedule_t *schedule, const next_due_t *next, int64_t now_us, mono_t at) {
    if (*next->error) {
        redis_error_t refusal;
        redis_error_set(&refusal, OUTCOME_REFUSED, "%s: %s", schedule->config->delayed, next->error);
        schedule_refused(schedule, &refusal, at);
        return;
    }
    if (next->exists) schedule_warn_unit(schedule, next->score);
    schedule->next_due.due_us = schedule_due_us(schedule, next);
    schedule->next_due.due = schedule_local_time(schedule->next_due.due_us, now_us, at);
    // The last batch took exactly the due jobs. With `backlog` set, the safety poll would skip this queue.
    if (mono_reached(schedule->next_due.due, at)) return;
    schedule->backlog = false;
    schedule_note_oversized(schedule, now_us);
}

bool schedule_differs(const schedule_t *schedule, const next_due_t *next) {
    return *next->error || schedule_due_us(schedule, next) != schedule->next_due.due_us;
}
