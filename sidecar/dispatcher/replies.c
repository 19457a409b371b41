// The replies to promotes and reads of next due scores.

#include "dispatcher/internal.h"

// `at`: when Redis's clock was now_us.
static void dispatcher_apply_next_due(dispatcher_t *d, const request_t *request, size_t i, int64_t now_us, mono_t at,
                                      bool expensive) {
    const next_due_request_t *asked = &request->queues[i];
    const next_due_t *next = &d->next_dues[i];
    schedule_t *schedule = &d->schedules[asked->queue];
    mono_t now = mono_now();
    bool safety = request->kind == REQUEST_SAFETY;
    if (safety && !d->session.tracking) schedule_poll_oversized(schedule, now);
    bool busy = schedule->next_due.changed || schedule->backlog || schedule->in_flight;
    if (safety && (busy || !mono_reached(schedule->blocked_until, now))) return;
    if (safety && schedule_differs(schedule, next)) {
        if (d->session.tracking) metric_add(&schedule->metrics->missed, 1);
        schedule_changed(schedule); // the next read arms tracking again
    }
    if (!*next->error && !expensive) schedule->isolated = false;
    if (asked->skip != schedule->oversized.skip)
        schedule->next_due.changed = true;
    else
        schedule_read_next_due(schedule, next, now_us, at); // even if unchanged: Redis's clock may have been set
}

// The reply of one script that reads next due scores: of request->queues[from] and the following.
typedef struct next_dues_reply {
    size_t from;
    size_t count;
    int64_t now_us;
    mono_t at; // when Redis's clock was now_us
    redis_error_t error;
} next_dues_reply_t;

// If one key of many may be the reason, read each key in a request of its own.
static void dispatcher_apply_next_due_error(request_kind_t kind, const next_dues_reply_t *dues, schedule_t *schedule,
                                            mono_t now) {
    bool refused = dues->error.outcome == OUTCOME_REFUSED;
    if (refused && dues->count == 1) {
        schedule_refused(schedule, &dues->error, now);
        return;
    }
    if (refused) schedule->isolated = true;
    if (refused || kind != REQUEST_SAFETY) schedule->next_due.changed = true;
}

static void dispatcher_apply_next_dues(dispatcher_t *d, const request_t *request, next_dues_reply_t *dues, bool expensive) {
    bool unarmed = dues->error.outcome == OUTCOME_REFUSED && request->armed && dues->now_us > 0;
    if (unarmed && d->session.tracking) {
        session_disable_tracking(&d->session, &dues->error, mono_now());
        d->safety_at = dispatcher_next_poll(d, mono_now());
    }
    if (unarmed) dues->error = (redis_error_t){0}; // the scores are valid
    for (size_t i = dues->from; i < dues->from + dues->count; i++) {
        if (dues->error.outcome == OUTCOME_OK)
            dispatcher_apply_next_due(d, request, i, dues->now_us, dues->at, expensive);
        else
            dispatcher_apply_next_due_error(request->kind, dues, &d->schedules[request->queues[i].queue], mono_now());
    }
}

// Acts on the reply to a promote, or on the error of its script. *bytes grows by the bytes that the next request may have to read
// again. Returns errors that concern all queues.
static outcome_t dispatcher_apply_promote(dispatcher_t *d, const request_promote_t *promote, const promote_reply_t *reply,
                                          const redis_error_t *error, int64_t *bytes) {
    schedule_t *schedule = &d->schedules[promote->queue];
    mono_t now = mono_now();
    schedule_replied(schedule);
    switch (error->outcome) {
    case OUTCOME_OK:
        backoff_reset(&d->session.backoff); // only a write proves that Redis works
        if (reply->large > 0) *bytes += reply->bytes;
        schedule_read_promote(schedule, reply, &promote->asked, now);
        break;
    case OUTCOME_FENCED:
        schedule_fenced(schedule);
        leadership_fence(&d->leadership, promote->queue, promote->term);
        break;
    case OUTCOME_REFUSED: schedule_refused(schedule, error, now); break;
    case OUTCOME_RETRY:
    case OUTCOME_DISCONNECTED: return error->outcome;
    }
    return OUTCOME_OK;
}

// Keeps the first reason. After some errors Redis is left, and the reason of the lost connection says less.
static outcome_t dispatcher_note_error(redis_error_t *worst, const redis_error_t *error) {
    if (worst->outcome == OUTCOME_OK) *worst = *error;
    if (error->outcome == OUTCOME_DISCONNECTED) worst->outcome = OUTCOME_DISCONNECTED;
    return worst->outcome;
}

// Redis refused a script of several queues, and one key of one queue may be the reason: promote each in a request of its own.
static void dispatcher_suspect(dispatcher_t *d, const request_promote_t *promotes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        schedule_t *schedule = &d->schedules[promotes[i].queue];
        schedule->suspect = true;
        schedule_replied(schedule);
    }
}

// Reads the reply of one script: of the `count` promotes.
static outcome_t dispatcher_read_script(dispatcher_t *d, const request_promote_t *promotes, size_t count, int64_t *bytes,
                                        redis_error_t *worst) {
    promote_reply_t replies[PROMOTES_MAX];
    redis_error_t error = {0};
    bool passed = false;
    if (promote_read_replies(d->session.data, replies, count, &error) == OUTCOME_REFUSED && count > 1) {
        dispatcher_suspect(d, promotes, count);
        return OUTCOME_OK;
    }
    for (size_t i = 0; i < count; i++) {
        const redis_error_t *own = error.outcome == OUTCOME_OK ? &replies[i].error : &error;
        if (dispatcher_apply_promote(d, &promotes[i], &replies[i], own, bytes) != OUTCOME_OK) dispatcher_note_error(worst, own);
        bool later = own->outcome == OUTCOME_OK && replies[i].later;
        if (later && !passed) d->turn.promote_from = promotes[i].queue;
        passed |= later;
    }
    return worst->outcome;
}

// Reads the replies of all scripts: each is of other queues, so an error of one says nothing about the next.
static outcome_t dispatcher_read_promotes(dispatcher_t *d, const request_t *request, int64_t *bytes, redis_error_t *worst) {
    const request_promote_t *all = request->promotes;
    for (size_t from = 0, count; from < request->promote_count; from += count) {
        for (count = 1; from + count < request->promote_count && all[from + count].script == all[from].script;) count++;
        if (dispatcher_read_script(d, &all[from], count, bytes, worst) == OUTCOME_DISCONNECTED) break;
    }
    return worst->outcome;
}

static outcome_t dispatcher_read_next_dues(dispatcher_t *d, const request_t *request, next_dues_reply_t *dues, int64_t *bytes) {
    next_due_t *next_dues = &d->next_dues[dues->from];
    outcome_t outcome = next_due_read(d->session.data, dues->count, request->armed, next_dues, &dues->now_us, &dues->error);
    if (dues->now_us > 0) dues->at = remote_clock_note(&d->clock, dues->now_us, request->sent, mono_now());
    for (size_t i = 0; dues->now_us > 0 && i < dues->count; i++) *bytes += next_dues[i].bytes;
    return outcome;
}

// An expensive request (a huge first entry) slows its queue down, so that other clients get their share of Redis. Duration
// alone proves nothing: another client's slow command may have taken the time.
static bool dispatcher_measure_cost(dispatcher_t *d, const request_t *request, int64_t bytes) {
    mono_t now = mono_now();
    int64_t cost_ns = mono_diff(now, mono_max(request->sent, d->replied_at)); // the request waited for the request before it
    int64_t own_ns = bytes < cost_ns / SCHEDULE_BYTE_NS ? bytes * SCHEDULE_BYTE_NS : cost_ns;
    bool expensive = cost_ns > SCHEDULE_EXPENSIVE_NS && bytes >= SCHEDULE_EXPENSIVE_BYTES;
    d->replied_at = now;
    size_t count = request->promote_count > 0 ? request->promote_count : request->count;
    for (size_t i = 0; expensive && i < count; i++) {
        size_t queue = request->promote_count > 0 ? request->promotes[i].queue : request->queues[i].queue;
        schedule_expensive(&d->schedules[queue], count == 1 ? own_ns : 0, now);
    }
    return expensive;
}

outcome_t dispatcher_read_reply(dispatcher_t *d, redis_error_t *error) {
    const request_t *request = &d->requests[window_oldest(&d->window)];
    next_dues_reply_t dues[PROMOTES_MAX];
    size_t scripts = 0, most = dispatcher_next_dues_max(d);
    int64_t bytes = 0;
    *error = (redis_error_t){0};
    if (request->kind == REQUEST_PROMOTE && dispatcher_read_promotes(d, request, &bytes, error) == OUTCOME_DISCONNECTED)
        return OUTCOME_DISCONNECTED;
    for (size_t from = 0; from < request->count; from += most) {
        size_t left = request->count - from;
        next_dues_reply_t *reply = &dues[scripts++];
        *reply = (next_dues_reply_t){.from = from, .count = left < most ? left : most};
        if (dispatcher_read_next_dues(d, request, reply, &bytes) == OUTCOME_DISCONNECTED)
            return dispatcher_note_error(error, &reply->error);
    }
    bool expensive = dispatcher_measure_cost(d, request, bytes);
    window_pop(&d->window);
    for (size_t i = 0; request->kind == REQUEST_READ && i < request->count; i++)
        schedule_replied(&d->schedules[request->queues[i].queue]);
    // Invalidations that Redis sent before this reply have arrived: read them, or the safety poll would count them as missed.
    if (request->kind == REQUEST_SAFETY) (void)session_read_messages(&d->session);
    for (size_t i = 0; i < scripts; i++) {
        dispatcher_apply_next_dues(d, request, &dues[i], expensive);
        if (dues[i].error.outcome == OUTCOME_RETRY) *error = dues[i].error;
    }
    return error->outcome;
}
