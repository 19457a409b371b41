#include "dispatcher/dispatcher.h"

#include "base/buffer.h"
#include "base/digest.h"
#include "base/keyset.h"
#include "dispatcher/schedule.h"
#include "redis/window.h"
#include "role/leadership.h"
#include "role/session.h"

enum {
    NEXT_DUES_MAX = 500, // queues of one read: about half a millisecond of Redis
    TICK_MS = 100,       // after this time a tick returns, so that the role handles its signals
};

static const char ROLE[] = "dispatcher";

typedef enum request_kind { REQUEST_PROMOTE, REQUEST_READ, REQUEST_SAFETY } request_kind_t;

typedef struct request {
    request_kind_t kind;
    uint64_t term;              // term of the token in the promote
    schedule_request_t promote; // what the promote asked for
    bool reads_head;            // the request reads the head of each queue; only a promote of a backlog does not
    bool armed;                 // the read registers its keys for wake-ups
    size_t count;               // of `queues`
    mono_t sent;
    next_due_request_t queues[NEXT_DUES_MAX];
} request_t;

// Queues take turns, and so do promotes and reads.
typedef struct dispatcher_turn {
    size_t promote_from; // queue at which the search for the next promote begins
    size_t read_from;    // queue at which the next read begins
    size_t safety_from;  // queue at which the next part of the safety poll begins; the number of queues = the poll is over
    bool read_first;     // this time a read goes before a promote
} dispatcher_turn_t;

struct dispatcher {
    const keyspace_t *keys;
    metrics_t *metrics;
    const atomic_bool *stop;
    session_t session;
    leadership_t leadership;
    schedule_t *schedules;
    keymap_t by_key;  // digest of a delayed key -> its queue + 1
    mono_t safety_at; // when the next safety poll is due
    dispatcher_turn_t turn;
    window_t window;
    request_t *requests;   // WINDOW_SIZE of them
    mono_t replied_at;     // when the last reply came
    next_due_t *next_dues; // NEXT_DUES_MAX of them
};

static bool dispatcher_promotes(const queue_config_t *queue) {
    return (queue->policy.roles & ROLE_DISPATCHER) && dialect_ops(queue->dialect)->promote;
}

static mono_t dispatcher_next_poll(const dispatcher_t *d, mono_t now) {
    const config_t *config = d->keys->config;
    bool blind = d->session.tracking_refused;
    return mono_add(now, (blind ? config->dispatcher.blind_poll_ms : config->dispatcher.safety_poll_ms) * NS_PER_MS);
}

static void dispatcher_reset(void *self) {
    dispatcher_t *d = self;
    d->window = (window_t){0};
    d->safety_at = dispatcher_next_poll(d, mono_now());
    d->turn.safety_from = d->keys->queue_count;
    for (size_t i = 0; i < d->keys->queue_count; i++) schedule_reset(&d->schedules[i]);
}

static void dispatcher_on_change(void *self, const char *key, size_t len) {
    dispatcher_t *d = self;
    if (!key) {
        for (size_t i = 0; i < d->keys->queue_count; i++) schedule_flushed(&d->schedules[i]);
        leadership_suspect(&d->leadership); // FLUSHALL removed the lock too
        return;
    }
    digest_t digest = digest_of(key, len);
    const int64_t *found = keymap_find(&d->by_key, digest.bytes);
    if (!found) return;
    schedule_t *schedule = &d->schedules[*found - 1];
    metric_add(&schedule->metrics->wakeups, 1);
    schedule_changed(schedule);
}

static const session_ops_t SESSION = {.role = ROLE,
                                      .data_name = "queue-sidecar-dispatcher",
                                      .subscriber_name = "queue-sidecar-wakeups",
                                      .reset = dispatcher_reset,
                                      .on_change = dispatcher_on_change};

dispatcher_t *dispatcher_new(const keyspace_t *keys, shard_t *shard, leases_t *leases, metrics_t *metrics,
                             const atomic_bool *stop) {
    dispatcher_t *d = mem_alloc(sizeof *d);
    *d = (dispatcher_t){.keys = keys, .metrics = metrics, .stop = stop, .turn.safety_from = keys->queue_count};
    session_init(&d->session, &SESSION, d, shard, metrics, stop);
    d->schedules = mem_array(keys->queue_count, sizeof *d->schedules);
    leadership_init(&d->leadership, ROLE, leases);
    d->requests = mem_array(WINDOW_SIZE, sizeof *d->requests);
    d->next_dues = mem_array(NEXT_DUES_MAX, sizeof *d->next_dues);
    for (size_t i = 0; i < keys->queue_count; i++) {
        const queue_config_t *queue = keys->queues[i].config;
        schedule_init(&d->schedules[i], queue, metrics_queue(metrics, queue->name), keys->config->dispatcher.batch,
                      keys->config->redis.slice_us);
        if (!dispatcher_promotes(queue)) continue;
        digest_t digest = digest_of(queue->delayed, strlen(queue->delayed));
        *keymap_put(&d->by_key, digest.bytes) = (int64_t)i + 1;
    }
    return d;
}

void dispatcher_free(dispatcher_t *d) {
    if (!d) return;
    session_free(&d->session);
    for (size_t i = 0; i < d->keys->queue_count; i++) schedule_free(&d->schedules[i]);
    free(d->schedules);
    keymap_free(&d->by_key);
    leadership_free(&d->leadership);
    free(d->requests);
    free(d->next_dues);
    free(d);
}

static void dispatcher_on_term(void *self, size_t queue) {
    dispatcher_t *d = self;
    schedule_changed(&d->schedules[queue]);
    d->schedules[queue].blocked_until = (mono_t){0};
}

static bool dispatcher_may_serve(dispatcher_t *d, size_t queue, lease_t *lease) {
    return dispatcher_promotes(d->schedules[queue].config) && leadership_may_serve(&d->leadership, queue, lease);
}

static request_t *dispatcher_new_request(dispatcher_t *d, request_kind_t kind) {
    request_t *request = &d->requests[window_push(&d->window)];
    request->kind = kind;
    request->reads_head = true;
    request->armed = kind != REQUEST_SAFETY && d->session.tracking;
    request->count = 0;
    request->sent = mono_now();
    return request;
}

static void dispatcher_send_promote(dispatcher_t *d, size_t queue, const lease_t *lease, mono_t now) {
    schedule_t *schedule = &d->schedules[queue];
    request_t *request = dispatcher_new_request(d, REQUEST_PROMOTE);
    schedule_request_t promote = schedule_sent_promote(schedule, now);
    request->term = lease->term;
    request->promote = promote;
    request->reads_head = promote.reads_head;
    request->queues[request->count++] = (next_due_request_t){.queue = queue, .skip = promote.skip};
    const call_t call = {.conn = d->session.data, .keys = d->keys, .queue = queue, .token = lease->token};
    schedule->ops->promote->append(&call, &(promote_request_t){promote.batch, promote.skip, promote.first});
    if (request->reads_head) next_due_append(d->session.data, d->keys, request->queues, request->count, request->armed);
}

// Sends a promote for the next due queue in turn. False: no queue is due.
static bool dispatcher_send_due(dispatcher_t *d, mono_t now) {
    size_t count = d->keys->queue_count;
    for (size_t n = 0; n < count; n++) {
        size_t queue = (d->turn.promote_from + n) % count;
        lease_t lease;
        if (!schedule_wants_promote(&d->schedules[queue], now) || !dispatcher_may_serve(d, queue, &lease)) continue;
        d->turn.promote_from = (queue + 1) % count;
        dispatcher_send_promote(d, queue, &lease, now);
        return true;
    }
    return false;
}

// Sends one read of heads, from queue *from on: of all heads for the safety poll, otherwise of changed heads. False: none to
// read.
static bool dispatcher_send_read(dispatcher_t *d, request_kind_t kind, size_t *from, mono_t now) {
    request_t *request = NULL;
    size_t queue = *from;
    // Queues of different locks may be in different slots of a Cluster. A script has one slot.
    size_t most = d->keys->per_tag ? 1 : NEXT_DUES_MAX;
    for (; queue < d->keys->queue_count && (!request || request->count < most); queue++) {
        lease_t lease;
        schedule_t *schedule = &d->schedules[queue];
        bool wanted = kind == REQUEST_READ ? schedule_wants_read(schedule, now) : mono_reached(schedule->blocked_until, now);
        if (!wanted || !dispatcher_may_serve(d, queue, &lease)) continue;
        if (schedule->isolated && request) break; // the next request reads it
        if (!request) request = dispatcher_new_request(d, kind);
        if (kind == REQUEST_READ) schedule_sent_read(schedule, now); // may change `skip`, read below
        request->queues[request->count++] = (next_due_request_t){.queue = queue, .skip = schedule->oversized.skip};
        if (schedule->isolated) most = 1;
    }
    *from = queue;
    if (request) next_due_append(d->session.data, d->keys, request->queues, request->count, request->armed);
    return request;
}

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

// Reads the replies to the oldest request. Returns errors that concern all queues.
static outcome_t dispatcher_read_reply(dispatcher_t *d, redis_error_t *error) {
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

static void dispatcher_read_all(dispatcher_t *d) {
    redis_error_t error = {0};
    while (window_in_flight(&d->window) > 0 && dispatcher_read_reply(d, &error) != OUTCOME_DISCONNECTED) {
    }
    if (error.outcome == OUTCOME_DISCONNECTED) session_back_off(&d->session, &error);
}

static bool dispatcher_send_reads(dispatcher_t *d, mono_t now) {
    if (dispatcher_send_read(d, REQUEST_READ, &d->turn.read_from, now)) return true;
    d->turn.read_from = 0;
    if (dispatcher_send_read(d, REQUEST_READ, &d->turn.read_from, now)) return true;
    return dispatcher_send_read(d, REQUEST_SAFETY, &d->turn.safety_from, now);
}

// Promotes and reads take turns: neither a long backlog nor many changes may delay other queues.
static bool dispatcher_send_next(dispatcher_t *d) {
    mono_t now = mono_now();
    d->turn.read_first = !d->turn.read_first;
    if (d->turn.read_first) return dispatcher_send_reads(d, now) || dispatcher_send_due(d, now);
    return dispatcher_send_due(d, now) || dispatcher_send_reads(d, now);
}

// Redis replies to other clients only after all requests that have arrived. So send no request behind a batch of a backlog:
// other clients would wait for both. Redis idles for one round trip instead.
static bool dispatcher_window_open(const dispatcher_t *d) {
    if (window_in_flight(&d->window) == 0) return true;
    return !window_full(&d->window) && d->requests[window_newest(&d->window)].reads_head;
}

static bool dispatcher_fill_window(dispatcher_t *d, redis_error_t *error) {
    while (dispatcher_window_open(d) && dispatcher_send_next(d))
        if (conn_flush(d->session.data, error) != OUTCOME_OK) return false;
    return true;
}

// A poll that takes longer than a tick goes on in the next one.
static void dispatcher_begin_poll(dispatcher_t *d, mono_t now) {
    if (d->turn.safety_from < d->keys->queue_count || !mono_reached(d->safety_at, now)) return;
    d->turn.safety_from = 0;
    d->safety_at = dispatcher_next_poll(d, now);
    metric_add(&d->metrics->safety_polls, 1);
}

static void dispatcher_work(dispatcher_t *d) {
    mono_t started = mono_now();
    dispatcher_begin_poll(d, started);
    while (!atomic_load(d->stop) && mono_diff(mono_now(), started) < TICK_MS * NS_PER_MS) {
        redis_error_t error;
        if (!session_read_messages(&d->session)) break;
        if (!dispatcher_fill_window(d, &error)) {
            session_back_off(&d->session, &error);
            return;
        }
        if (window_in_flight(&d->window) == 0) return;
        if (dispatcher_read_reply(d, &error) == OUTCOME_OK) continue;
        if (error.outcome == OUTCOME_RETRY) dispatcher_read_all(d);
        session_back_off(&d->session, &error);
        return;
    }
    dispatcher_read_all(d);
}

static mono_t dispatcher_next_time(dispatcher_t *d) {
    mono_t now = mono_now(), next = d->turn.safety_from < d->keys->queue_count ? now : d->safety_at;
    for (size_t i = 0; i < d->keys->queue_count; i++) {
        lease_t lease;
        const schedule_t *schedule = &d->schedules[i];
        mono_t of_schedule = schedule_next(schedule);
        if (schedule->refused.holds && !mono_reached(schedule->blocked_until, now)) lease_note_refusal(d->leadership.leases, i);
        if (of_schedule.ns < next.ns && dispatcher_may_serve(d, i, &lease)) next = of_schedule;
    }
    return next;
}

void dispatcher_tick(void *self, role_wait_t *wait) {
    dispatcher_t *d = self;
    if (d->by_key.count == 0 || !leadership_refresh(&d->leadership, dispatcher_on_term, d)) {
        session_close(&d->session);
        return; // sleep until a lease begins
    }
    if (session_ready(&d->session)) dispatcher_work(d);
    session_wait(&d->session, dispatcher_next_time(d), wait);
}
