// The replies to promotes and reads of heads.

#include "dispatcher/internal.h"

static void dispatcher_apply_head(dispatcher_t *d, const request_t *request, size_t i, int64_t now_us, bool expensive) {
    const next_due_request_t *asked = &request->queues[i];
    const next_due_t *head = &d->next_dues[i];
    schedule_t *schedule = &d->schedules[asked->queue];
    mono_t now = mono_now();
    bool safety = request->kind == REQUEST_SAFETY;
    if (safety && !d->session.tracking) schedule_poll_oversized(schedule, now);
    bool busy = schedule->head.changed || schedule->backlog || schedule->in_flight > 0;
    if (safety && (busy || !mono_reached(schedule->blocked_until, now))) return;
    if (safety && schedule_differs(schedule, head)) {
        if (d->session.tracking) metric_add(&schedule->metrics->missed, 1);
        schedule_changed(schedule); // the next read arms tracking again
    }
    if (!*head->error && !expensive) schedule->isolated = false;
    if (asked->skip != schedule->oversized.skip)
        schedule->head.changed = true;
    else
        schedule_read_head(schedule, head, now_us, now); // even if unchanged: Redis's clock may have been set
}

// If one key of many may be the reason, read each key in a request of its own.
static void dispatcher_apply_head_error(const request_t *request, schedule_t *schedule, const redis_error_t *error, mono_t now) {
    bool refused = error->outcome == OUTCOME_REFUSED;
    if (refused && request->count == 1) {
        schedule_refused(schedule, error->text, now);
        return;
    }
    if (refused) schedule->isolated = true;
    if (refused || request->kind != REQUEST_SAFETY) schedule->head.changed = true;
}

static void dispatcher_apply_heads(dispatcher_t *d, const request_t *request, const redis_error_t *error, int64_t now_us,
                                   bool expensive) {
    for (size_t i = 0; i < request->count; i++) {
        if (error->outcome == OUTCOME_OK)
            dispatcher_apply_head(d, request, i, now_us, expensive);
        else
            dispatcher_apply_head_error(request, &d->schedules[request->queues[i].queue], error, mono_now());
    }
}

// Reads a promote's reply. *bytes is the number of bytes that the next request may have to read again. Returns errors that
// concern all queues.
static outcome_t dispatcher_read_promote(dispatcher_t *d, const request_t *request, int64_t *bytes, redis_error_t *error) {
    size_t queue = request->queues[0].queue;
    schedule_t *schedule = &d->schedules[queue];
    promote_reply_t reply;
    outcome_t outcome = promote_read_reply(d->session.data, &reply, error);
    mono_t now = mono_now();
    schedule->in_flight--;
    switch (outcome) {
    case OUTCOME_OK:
        backoff_reset(&d->session.backoff); // only a write proves that Redis works
        if (reply.large > 0) *bytes = reply.bytes;
        schedule_read_promote(schedule, &reply, &request->promote, now);
        break;
    case OUTCOME_FENCED:
        schedule_fenced(schedule);
        leadership_fence(&d->leadership, queue, request->term);
        break;
    case OUTCOME_REFUSED: schedule_refused(schedule, error->text, now); break;
    case OUTCOME_RETRY:
    case OUTCOME_DISCONNECTED: return outcome;
    }
    *error = (redis_error_t){0};
    return OUTCOME_OK;
}

// An expensive request (a huge entry at the head) slows its queue down, so that other clients get their share of Redis. Duration
// alone proves nothing: another client's slow command may have taken the time.
static bool dispatcher_measure_cost(dispatcher_t *d, const request_t *request, int64_t bytes) {
    mono_t now = mono_now();
    int64_t cost_ns = mono_diff(now, mono_max(request->sent, d->replied_at)); // the request waited for the request before it
    int64_t own_ns = bytes < cost_ns / SCHEDULE_BYTE_NS ? bytes * SCHEDULE_BYTE_NS : cost_ns;
    bool expensive = cost_ns > SCHEDULE_EXPENSIVE_NS && bytes >= SCHEDULE_EXPENSIVE_BYTES;
    d->replied_at = now;
    for (size_t i = 0; expensive && i < request->count; i++)
        schedule_expensive(&d->schedules[request->queues[i].queue], request->count == 1 ? own_ns : 0, now);
    return expensive;
}

outcome_t dispatcher_read_reply(dispatcher_t *d, redis_error_t *error) {
    const request_t *request = &d->requests[window_oldest(&d->window)];
    redis_error_t head_error = {0};
    int64_t now_us = 0, bytes = 0;
    *error = (redis_error_t){0};
    if (request->kind == REQUEST_PROMOTE && dispatcher_read_promote(d, request, &bytes, error) == OUTCOME_DISCONNECTED)
        return OUTCOME_DISCONNECTED;
    if (request->reads_head) {
        next_due_read(d->session.data, request->count, request->armed, d->next_dues, &now_us, &head_error);
        for (size_t i = 0; now_us > 0 && i < request->count; i++) bytes += d->next_dues[i].bytes;
    }
    if (head_error.outcome == OUTCOME_DISCONNECTED) {
        if (error->outcome == OUTCOME_OK) *error = head_error; // otherwise the promote's reason is the better one
        return error->outcome = OUTCOME_DISCONNECTED;
    }
    bool expensive = dispatcher_measure_cost(d, request, bytes);
    window_pop(&d->window);
    for (size_t i = 0; request->kind == REQUEST_READ && i < request->count; i++)
        d->schedules[request->queues[i].queue].in_flight--;
    // Invalidations that Redis sent before this reply have arrived: read them, or the safety poll would count them as missed.
    if (request->kind == REQUEST_SAFETY) (void)session_read_messages(&d->session);
    bool unarmed = head_error.outcome == OUTCOME_REFUSED && request->armed && now_us > 0;
    if (unarmed && d->session.tracking) {
        session_disable_tracking(&d->session, &head_error, mono_now());
        d->safety_at = dispatcher_next_poll(d, mono_now());
    }
    if (unarmed) head_error = (redis_error_t){0}; // the heads are valid
    if (request->reads_head) dispatcher_apply_heads(d, request, &head_error, now_us, expensive);
    if (head_error.outcome == OUTCOME_RETRY) *error = head_error;
    return error->outcome;
}
