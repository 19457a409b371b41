#include "dispatcher/schedule.h"

#include <math.h>

#include "base/log.h"

// Scores between these are dates of this century when read in the other unit, and absurd in the one that is configured.
#define SCORE_SECONDS_LOW  1e8  // as ms: 2 January 1970; as seconds: 1973
#define SCORE_SECONDS_HIGH 1e11 // as ms: 1973; as seconds: the year 5138

enum {
    EMPTY_MAX = 3,
    FIRST_UNKNOWN = 2,
    FIRST_BYTES = 256 * 1024, // to read at once where the size of entries is known
};

static const char ROLE[] = "dispatcher";

void schedule_init(schedule_t *schedule, const queue_config_t *config, metrics_queue_t *metrics, int64_t batch) {
    *schedule = (schedule_t){.config = config, .metrics = metrics, .ops = dialect_ops(config->dialect), .batch = batch};
    if (schedule->ops->promote && schedule->ops->promote->most < batch) schedule->batch = schedule->ops->promote->most;
    schedule_reset(schedule);
}

static void schedule_restart_head(schedule_t *schedule) {
    schedule->skip = 0; // what is at the head may be another entry by now
    schedule->epoch++;
    schedule->cooldown_until = (mono_t){0};
    schedule->stale = false;
}

void schedule_reset(schedule_t *schedule) {
    schedule_restart_head(schedule);
    schedule->changed = true;
    schedule->due = mono_never();
    schedule->due_us = INT64_MAX;
    schedule->blocked_until = schedule->reread_at = (mono_t){0};
    schedule->in_flight = 0;
    schedule->backlog = false;
    schedule->oversized = false;
    schedule->first = FIRST_UNKNOWN;
    schedule->isolated = false;
    schedule->empty = 0;
}

// While it rests the large entries at the head are skipped still: a producer that adds all the time would else make us read them
// all the time, and never what is behind them.
void schedule_changed(schedule_t *schedule) {
    schedule->changed = true;
    schedule->stale = true;
    if (schedule->cooldown_until.ns == 0) schedule_restart_head(schedule);
}

void schedule_flushed(schedule_t *schedule) {
    schedule_restart_head(schedule);
    schedule_changed(schedule);
}

static bool schedule_blocked(const schedule_t *schedule, mono_t now) { return !mono_reached(schedule->blocked_until, now); }

bool schedule_wants_promote(const schedule_t *schedule, mono_t now) {
    return schedule->in_flight == 0 && !schedule_blocked(schedule, now) && mono_reached(schedule->due, now);
}

// When the head is to be read.
static mono_t schedule_read_at(const schedule_t *schedule) {
    if (schedule->changed) return schedule->reread_at;
    return schedule->stale ? mono_max(schedule->cooldown_until, schedule->reread_at) : mono_never();
}

bool schedule_wants_read(const schedule_t *schedule, mono_t now) {
    return schedule->in_flight == 0 && !schedule_blocked(schedule, now) && mono_reached(schedule_read_at(schedule), now);
}

mono_t schedule_next(const schedule_t *schedule) {
    mono_t next = mono_min(schedule->due, schedule_read_at(schedule));
    return next.ns < schedule->blocked_until.ns ? schedule->blocked_until : next;
}

static void schedule_note_read(schedule_t *schedule, mono_t now) {
    schedule->changed = false;
    schedule->reread_at = mono_max(schedule->reread_at, mono_add(now, SCHEDULE_REREAD_MS * NS_PER_MS));
}

static void schedule_end_cooldown(schedule_t *schedule, mono_t now) {
    if (schedule->stale && mono_reached(schedule->cooldown_until, now)) schedule_restart_head(schedule);
}

void schedule_sent_read(schedule_t *schedule, mono_t now) {
    schedule->oversized = false;
    schedule->in_flight++;
    schedule_end_cooldown(schedule, now);
    schedule_note_read(schedule, now);
}

schedule_request_t schedule_sent_promote(schedule_t *schedule, mono_t now) {
    schedule->in_flight++;
    schedule_end_cooldown(schedule, now);
    if (!schedule->backlog) schedule_note_read(schedule, now);
    return (schedule_request_t){.batch = schedule->batch,
                                .skip = schedule->skip,
                                .first = schedule->first,
                                .reads_head = !schedule->backlog,
                                .epoch = schedule->epoch};
}

static bool schedule_plausible_date(const schedule_t *schedule, double score) {
    double unit = schedule->config->policy.score_unit == SCORE_S ? 1000 : 1;
    return isfinite(score) && score * unit > SCORE_SECONDS_HIGH;
}

// Lateness is counted from the due time, or from when ready last had no room: waiting for room is another metric.
static void schedule_count_moved(schedule_t *schedule, const promote_reply_t *reply) {
    metric_add(&schedule->metrics->promoted, reply->moved);
    metric_add(&schedule->metrics->batches, 1);
    if (schedule->full_since_us) metric_add(&schedule->metrics->full_us, reply->now_us - schedule->full_since_us);
    int64_t from_us = reply->has_oldest ? schedule->ops->promote->due_us(schedule->config, reply->oldest) : INT64_MIN;
    if (schedule->room_us > from_us) from_us = schedule->room_us;
    if (reply->has_oldest && schedule_plausible_date(schedule, reply->oldest))
        metrics_lateness(schedule->metrics, reply->now_us - from_us, reply->moved);
    schedule->full_since_us = schedule->room_us = 0;
}

// The reply counts from where its own request began: two that are under way together meet the same entries.
static void schedule_skip_oversized(schedule_t *schedule, const promote_reply_t *reply, const schedule_request_t *ask) {
    schedule->changed = true;
    if (ask->epoch != schedule->epoch || ask->skip + reply->large <= schedule->skip) return;
    int64_t found = ask->skip + reply->large - schedule->skip;
    schedule->skip += found;
    metric_add(&schedule->metrics->large, found);
    log_warn(ROLE, schedule->config->name, "left entries in delayed that are larger than max_payload", F_INT("entries", found),
             F_INT("bytes", reply->large_bytes), F_NUM("score", reply->large_score), F_STR("sha1", reply->large_sha1),
             F_INT("max_payload", schedule->config->policy.max_payload));
}

// What follows is most likely as large as what came.
static int64_t schedule_first_read(const schedule_t *schedule, const promote_reply_t *reply) {
    if (reply->large > 0) return FIRST_UNKNOWN;
    int64_t first = FIRST_BYTES * reply->moved / (reply->bytes + 1);
    if (first < FIRST_UNKNOWN) return FIRST_UNKNOWN;
    return first < schedule->batch ? first : schedule->batch;
}

static void schedule_read_next(schedule_t *schedule, mono_t now) {
    schedule->changed = true;
    schedule->reread_at = now;
    schedule->due = mono_never();
    schedule->due_us = INT64_MAX;
}

static void schedule_apply_moved(schedule_t *schedule, const promote_reply_t *reply, const schedule_request_t *ask, mono_t now) {
    schedule->backlog = reply->moved + reply->large >= ask->batch;
    if (!schedule->backlog && !ask->reads_head) schedule_read_next(schedule, now);
    schedule->oversized = reply->large > 0;
    if (schedule->oversized) schedule_skip_oversized(schedule, reply, ask);
    if (reply->moved > 0) {
        schedule->empty = 0;
        schedule->first = schedule_first_read(schedule, reply);
        // What was dear to look at is no longer the head; the next one is judged by the look that follows.
        if (!schedule->oversized)
            schedule->reread_at = mono_min(schedule->reread_at, mono_add(now, SCHEDULE_REREAD_MS * NS_PER_MS));
        schedule_count_moved(schedule, reply);
    } else {
        metric_add(&schedule->metrics->empty, 1);
        // Our clock and Redis's may differ by a little; more often than that, something is odd, and we must not spin on it.
        if (schedule->in_flight == 0 && ++schedule->empty > EMPTY_MAX) schedule->blocked_until = mono_add(now, NS_PER_MS);
    }
}

static void schedule_apply_full(schedule_t *schedule, const promote_reply_t *reply, mono_t now) {
    if (schedule->full_since_us)
        metric_add(&schedule->metrics->full_us, reply->now_us - schedule->full_since_us);
    else
        log_warn(ROLE, schedule->config->name, "ready is at ready_limit: promotion waits",
                 F_INT("ready_limit", schedule->config->policy.ready_limit));
    schedule->full_since_us = schedule->room_us = reply->now_us;
    schedule->backlog = false;
    schedule->blocked_until = mono_add(now, SCHEDULE_FULL_RETRY_MS * NS_PER_MS);
}

static void schedule_block(schedule_t *schedule, mono_t now) {
    metrics_refused(schedule->metrics, mono_now());
    schedule->backlog = false;
    schedule->changed = true;
    schedule->blocked_until = mono_add(now, SCHEDULE_REFUSED_MS * NS_PER_MS);
}

void schedule_read_promote(schedule_t *schedule, const promote_reply_t *reply, const schedule_request_t *ask, mono_t now) {
    schedule->in_flight--;
    switch (reply->kind) {
    case PROMOTED_MOVED: schedule_apply_moved(schedule, reply, ask, now); break;
    case PROMOTED_FULL: schedule_apply_full(schedule, reply, now); break;
    case PROMOTED_OWNER:
        log_warn(ROLE, schedule->config->name, "another group owns this queue; not serving it", F_STR("group", reply->who));
        schedule_block(schedule, now);
        break;
    case PROMOTED_TYPE:
        log_error(ROLE, schedule->config->name, "a key holds the wrong type: nothing is promoted", F_STR("key", reply->who),
                  F_STR("holds", reply->what));
        schedule_block(schedule, now);
        break;
    }
}

void schedule_fenced(schedule_t *schedule) {
    schedule->in_flight--;
    schedule->backlog = false;
}

void schedule_expensive(schedule_t *schedule, int64_t cost_ns, mono_t now) {
    schedule->isolated = true;
    if (schedule->oversized) {
        schedule->cooldown_until = mono_add(mono_max(schedule->cooldown_until, now), SCHEDULE_COOLDOWN_FACTOR * cost_ns);
        schedule->cooldown_until = mono_min(schedule->cooldown_until, mono_add(now, SCHEDULE_COOLDOWN_MAX_MS * NS_PER_MS));
    } else {
        schedule->reread_at = mono_max(schedule->reread_at, mono_add(now, SCHEDULE_COOLDOWN_FACTOR * cost_ns));
    }
}

void schedule_refused(schedule_t *schedule, const char *reason, mono_t now) {
    log_error(ROLE, schedule->config->name, "redis refuses to promote", F_STR("reason", reason));
    schedule_block(schedule, now);
}

static void schedule_warn_unit(const schedule_t *schedule, double score) {
    if (schedule->config->policy.score_unit == SCORE_MS && score > SCORE_SECONDS_LOW && score < SCORE_SECONDS_HIGH)
        log_warn(ROLE, schedule->config->name,
                 "a delayed score looks like seconds, but score_unit is \"ms\": jobs run long before their time",
                 F_NUM("score", score));
    if (schedule->config->policy.score_unit == SCORE_S && score > SCORE_SECONDS_HIGH && isfinite(score))
        log_warn(ROLE, schedule->config->name,
                 "a delayed score looks like milliseconds, but score_unit is \"s\": jobs will not run", F_NUM("score", score));
}

static int64_t schedule_head_due_us(const schedule_t *schedule, const next_due_t *head) {
    return head->exists ? schedule->ops->promote->due_us(schedule->config, head->score) : INT64_MAX;
}

void schedule_read_head(schedule_t *schedule, const next_due_t *head, int64_t now_us, mono_t now) {
    if (*head->error) {
        log_error(ROLE, schedule->config->name, "delayed cannot be read: nothing is promoted",
                  F_STR("key", schedule->config->delayed), F_STR("reason", head->error));
        schedule_block(schedule, now);
        return;
    }
    if (head->exists) schedule_warn_unit(schedule, head->score);
    schedule->due_us = schedule_head_due_us(schedule, head);
    if (schedule->due_us == INT64_MAX)
        schedule->due = mono_never();
    else if (schedule->due_us <= now_us)
        schedule->due = now;
    else if (schedule->due_us - now_us > INT64_MAX / NS_PER_US)
        schedule->due = mono_never();
    else
        schedule->due = mono_add(now, (schedule->due_us - now_us) * NS_PER_US);
}

bool schedule_differs(const schedule_t *schedule, const next_due_t *head) {
    return *head->error || schedule_head_due_us(schedule, head) != schedule->due_us;
}
