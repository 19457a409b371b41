#include "dispatcher/schedule.h"

#include <math.h>

#include "base/log.h"

// Scores between these are dates of this century when read in the other unit, and absurd in the one that is configured.
#define SCORE_SECONDS_LOW  1e8  // as ms: 2 January 1970; as seconds: 1973
#define SCORE_SECONDS_HIGH 1e11 // as ms: 1973; as seconds: the year 5138

enum {
    EMPTY_PATIENCE = 3,
    FIRST_UNKNOWN = 2,
    FIRST_BYTES = 256 * 1024, // to read at once where the size of entries is known
};

static const char ROLE[] = "dispatcher";

void line_init(line_t *line, const queue_config_t *config, metrics_queue_t *metrics, int64_t batch) {
    *line = (line_t){.config = config, .metrics = metrics, .ops = dialect_ops(config->dialect), .batch = batch};
    if (line->ops->promote && line->ops->promote->most < batch) line->batch = line->ops->promote->most;
    line_forget(line);
}

static void begin_anew(line_t *line) {
    line->skip = 0; // what is at the head may be another entry by now
    line->epoch++;
    line->rest = (mono_t){0};
    line->stale = false;
}

void line_forget(line_t *line) {
    begin_anew(line);
    line->changed = true;
    line->due = mono_never();
    line->due_us = INT64_MAX;
    line->hold = line->reread = (mono_t){0};
    line->flying = 0;
    line->backlog = false;
    line->large = false;
    line->first = FIRST_UNKNOWN;
    line->alone = false;
    line->empty = 0;
}

// While it rests the large entries at the head are skipped still: a producer that adds all the time would else make us read them
// all the time, and never what is behind them.
void line_changed(line_t *line) {
    line->changed = true;
    line->stale = true;
    if (line->rest.ns == 0) begin_anew(line);
}

void line_flushed(line_t *line) {
    begin_anew(line);
    line_changed(line);
}

static bool held(const line_t *line, mono_t now) { return !mono_reached(line->hold, now); }

bool line_wants_promote(const line_t *line, mono_t now) {
    return line->flying == 0 && !held(line, now) && mono_reached(line->due, now);
}

// When the head is to be read.
static mono_t read_at(const line_t *line) {
    if (line->changed) return line->reread;
    return line->stale ? mono_max(line->rest, line->reread) : mono_never();
}

bool line_wants_read(const line_t *line, mono_t now) {
    return line->flying == 0 && !held(line, now) && mono_reached(read_at(line), now);
}

mono_t line_next(const line_t *line) {
    mono_t next = mono_min(line->due, read_at(line));
    return next.ns < line->hold.ns ? line->hold : next;
}

static void looking(line_t *line, mono_t now) {
    line->changed = false;
    line->reread = mono_max(line->reread, mono_add(now, LINE_REREAD_MS * NS_PER_MS));
}

static void end_rest(line_t *line, mono_t now) {
    if (line->stale && mono_reached(line->rest, now)) begin_anew(line);
}

void line_sent_look(line_t *line, mono_t now) {
    line->large = false;
    line->flying++;
    end_rest(line, now);
    looking(line, now);
}

line_ask_t line_sent_promote(line_t *line, mono_t now) {
    line->flying++;
    end_rest(line, now);
    if (!line->backlog) looking(line, now);
    return (line_ask_t){
        .batch = line->batch, .skip = line->skip, .first = line->first, .looks = !line->backlog, .epoch = line->epoch};
}

static bool plausible_date(const line_t *line, double score) {
    double unit = line->config->policy.score_unit == SCORE_S ? 1000 : 1;
    return isfinite(score) && score * unit > SCORE_SECONDS_HIGH;
}

// Lateness is counted from the due time, or from when ready last had no room: waiting for room is another metric.
static void record_moved(line_t *line, const promote_reply_t *reply) {
    metric_add(&line->metrics->promoted, reply->moved);
    metric_add(&line->metrics->batches, 1);
    if (line->full_since_us) metric_add(&line->metrics->full_us, reply->now_us - line->full_since_us);
    int64_t from_us = reply->has_oldest ? line->ops->promote->due_us(line->config, reply->oldest) : INT64_MIN;
    if (line->room_us > from_us) from_us = line->room_us;
    if (reply->has_oldest && plausible_date(line, reply->oldest))
        metrics_lateness(line->metrics, reply->now_us - from_us, reply->moved);
    line->full_since_us = line->room_us = 0;
}

// The reply counts from where its own request began: two that are under way together meet the same entries.
static void note_large(line_t *line, const promote_reply_t *reply, const line_ask_t *ask) {
    line->changed = true;
    if (ask->epoch != line->epoch || ask->skip + reply->large <= line->skip) return;
    int64_t found = ask->skip + reply->large - line->skip;
    line->skip += found;
    metric_add(&line->metrics->large, found);
    log_warn(ROLE, line->config->name, "left entries in delayed that are larger than max_payload", F_INT("entries", found),
             F_INT("bytes", reply->large_bytes), F_NUM("score", reply->large_score), F_STR("sha1", reply->large_sha1),
             F_INT("max_payload", line->config->policy.max_payload));
}

// What follows is most likely as large as what came.
static int64_t first_step(const line_t *line, const promote_reply_t *reply) {
    if (reply->large > 0) return FIRST_UNKNOWN;
    int64_t first = FIRST_BYTES * reply->moved / (reply->bytes + 1);
    if (first < FIRST_UNKNOWN) return FIRST_UNKNOWN;
    return first < line->batch ? first : line->batch;
}

static void look_next(line_t *line, mono_t now) {
    line->changed = true;
    line->reread = now;
    line->due = mono_never();
    line->due_us = INT64_MAX;
}

static void apply_moved(line_t *line, const promote_reply_t *reply, const line_ask_t *ask, mono_t now) {
    line->backlog = reply->moved + reply->large >= ask->batch;
    if (!line->backlog && !ask->looks) look_next(line, now);
    line->large = reply->large > 0;
    if (line->large) note_large(line, reply, ask);
    if (reply->moved > 0) {
        line->empty = 0;
        line->first = first_step(line, reply);
        // What was dear to look at is no longer the head; the next one is judged by the look that follows.
        if (!line->large) line->reread = mono_min(line->reread, mono_add(now, LINE_REREAD_MS * NS_PER_MS));
        record_moved(line, reply);
    } else {
        metric_add(&line->metrics->empty, 1);
        // Our clock and Redis's may differ by a little; more often than that, something is odd, and we must not spin on it.
        if (line->flying == 0 && ++line->empty > EMPTY_PATIENCE) line->hold = mono_add(now, NS_PER_MS);
    }
}

static void apply_full(line_t *line, const promote_reply_t *reply, mono_t now) {
    if (line->full_since_us)
        metric_add(&line->metrics->full_us, reply->now_us - line->full_since_us);
    else
        log_warn(ROLE, line->config->name, "ready is at ready_limit: promotion waits",
                 F_INT("ready_limit", line->config->policy.ready_limit));
    line->full_since_us = line->room_us = reply->now_us;
    line->backlog = false;
    line->hold = mono_add(now, LINE_FULL_LOOK_MS * NS_PER_MS);
}

static void hold_for_fault(line_t *line, mono_t now) {
    metrics_refused(line->metrics, mono_now());
    line->backlog = false;
    line->changed = true;
    line->hold = mono_add(now, LINE_FAULT_HOLD_MS * NS_PER_MS);
}

bool line_promoted(line_t *line, const promote_reply_t *reply, const line_ask_t *ask, mono_t now) {
    line->flying--;
    switch (reply->kind) {
    case PROMOTED_MOVED: apply_moved(line, reply, ask, now); return true;
    case PROMOTED_FULL: apply_full(line, reply, now); return true;
    case PROMOTED_FENCED: line->backlog = false; return false;
    case PROMOTED_OWNER:
        log_warn(ROLE, line->config->name, "another group owns this queue; not serving it", F_STR("group", reply->who));
        hold_for_fault(line, now);
        return true;
    case PROMOTED_TYPE:
        log_error(ROLE, line->config->name, "a key holds the wrong type: nothing is promoted", F_STR("key", reply->who),
                  F_STR("holds", reply->what));
        hold_for_fault(line, now);
        return true;
    }
    return true;
}

void line_dear(line_t *line, int64_t cost_ns, mono_t now) {
    line->alone = true;
    if (line->large) {
        line->rest = mono_add(mono_max(line->rest, now), LINE_DEAR_TIMES * cost_ns);
        line->rest = mono_min(line->rest, mono_add(now, LINE_REST_MOST_MS * NS_PER_MS));
    } else {
        line->reread = mono_max(line->reread, mono_add(now, LINE_DEAR_TIMES * cost_ns));
    }
}

void line_fault(line_t *line, const char *reason, mono_t now) {
    log_error(ROLE, line->config->name, "redis refuses to promote", F_STR("reason", reason));
    hold_for_fault(line, now);
}

static void warn_of_unit(const line_t *line, double score) {
    if (line->config->policy.score_unit == SCORE_MS && score > SCORE_SECONDS_LOW && score < SCORE_SECONDS_HIGH)
        log_warn(ROLE, line->config->name,
                 "a delayed score looks like seconds, but score_unit is \"ms\": jobs run long before their time",
                 F_NUM("score", score));
    if (line->config->policy.score_unit == SCORE_S && score > SCORE_SECONDS_HIGH && isfinite(score))
        log_warn(ROLE, line->config->name, "a delayed score looks like milliseconds, but score_unit is \"s\": jobs will not run",
                 F_NUM("score", score));
}

static int64_t head_due_us(const line_t *line, const head_t *head) {
    return head->exists ? line->ops->promote->due_us(line->config, head->score) : INT64_MAX;
}

void line_head(line_t *line, const head_t *head, int64_t now_us, mono_t now) {
    if (*head->error) {
        log_error(ROLE, line->config->name, "delayed cannot be read: nothing is promoted", F_STR("key", line->config->delayed),
                  F_STR("reason", head->error));
        hold_for_fault(line, now);
        return;
    }
    if (head->exists) warn_of_unit(line, head->score);
    line->due_us = head_due_us(line, head);
    if (line->due_us == INT64_MAX)
        line->due = mono_never();
    else if (line->due_us <= now_us)
        line->due = now;
    else if (line->due_us - now_us > INT64_MAX / NS_PER_US)
        line->due = mono_never();
    else
        line->due = mono_add(now, (line->due_us - now_us) * NS_PER_US);
}

bool line_differs(const line_t *line, const head_t *head) { return *head->error || head_due_us(line, head) != line->due_us; }
