#include "dispatcher/dispatcher.h"

#include "base/buffer.h"
#include "base/digest.h"
#include "dispatcher/internal.h"

enum { TICK_MS = 100 }; // after this time a tick returns, so that the role handles its signals

static const char ROLE[] = "dispatcher";

static bool dispatcher_promotes(const queue_config_t *queue) {
    return (queue->policy.roles & ROLE_DISPATCHER) && dialect_ops(queue->dialect)->promote;
}

static void dispatcher_reset(void *self) {
    dispatcher_t *d = self;
    d->window = (window_t){0};
    d->clock = (remote_clock_t){0};
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
    *d = (dispatcher_t){.keys = keys, .metrics = metrics, .stop = stop};
    d->turn = (dispatcher_turn_t){.safety_from = keys->queue_count};
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
    request->promote_count = 0;
    request->backlog = false;
    request->armed = kind != REQUEST_SAFETY && d->session.tracking;
    request->count = 0;
    request->sent = mono_now();
    return request;
}

static void dispatcher_append_next_dues(const dispatcher_t *d, const request_t *request) {
    size_t most = dispatcher_next_dues_max(d);
    for (size_t from = 0; from < request->count; from += most) {
        size_t left = request->count - from;
        next_due_append(d->session.data, d->keys, &request->queues[from], left < most ? left : most, request->armed);
    }
}

// The due queues of one request.
typedef struct due_set {
    size_t count;
    size_t queues[PROMOTES_MAX];
    lease_t leases[PROMOTES_MAX];
    int64_t spare_us; // of redis.slice, besides the least time of each queue
} due_set_t;

// Chooses due queues in turn. A queue that needs a request of its own, or more time than is left, is the first of the next
// request. Later queues need not wait for it.
static void dispatcher_choose_due(dispatcher_t *d, due_set_t *due, mono_t now) {
    size_t count = d->keys->queue_count, first = d->turn.promote_from;
    bool passed = false;
    due->count = 0;
    due->spare_us = d->keys->config->redis.slice_us;
    for (size_t n = 0; n < count && due->count < PROMOTES_MAX; n++) {
        size_t queue = (first + n) % count;
        const schedule_t *schedule = &d->schedules[queue];
        if (!schedule_wants_promote(schedule, now) || !dispatcher_may_serve(d, queue, &due->leases[due->count])) continue;
        bool alone = schedule_wants_own_request(schedule);
        int64_t least_us = schedule_least_us(schedule);
        if (due->count > 0 && (alone || least_us > due->spare_us)) {
            if (!passed) d->turn.promote_from = queue;
            passed = true;
            continue;
        }
        due->queues[due->count++] = queue;
        due->spare_us -= least_us;
        if (!passed) d->turn.promote_from = (queue + 1) % count;
        if (alone) return;
    }
}

// Whether one script can promote both queues. Their keys must be in one slot of a Cluster.
static bool dispatcher_shares_script(const dispatcher_t *d, size_t a, size_t b) {
    const dialect_ops_t *ops = d->schedules[a].ops;
    return schedule_shares_script(&d->schedules[a]) && d->schedules[b].ops == ops &&
           d->keys->queues[a].lock == d->keys->queues[b].lock;
}

// Appends the script that promotes the due queues from `from` on, as many as can share it. Returns the number of these queues.
static size_t dispatcher_append_script(dispatcher_t *d, request_t *request, const due_set_t *due, size_t from, mono_t now) {
    int64_t spare_us = due->spare_us > 0 ? due->spare_us / (int64_t)due->count : 0, slice_us = 0;
    promote_request_t asks[PROMOTES_MAX];
    size_t count = 0, script = from;
    for (size_t i = from; i < due->count && (i == from || dispatcher_shares_script(d, due->queues[from], due->queues[i])); i++) {
        size_t queue = due->queues[i];
        schedule_t *schedule = &d->schedules[queue];
        int64_t time_us = schedule_least_us(schedule) + spare_us;
        request->backlog |= schedule->backlog;
        schedule_request_t asked = schedule_sent_promote(schedule, time_us, now);
        if (asked.reads_next_due) request->queues[request->count++] = (next_due_request_t){.queue = queue, .skip = asked.skip};
        request->promotes[request->promote_count++] = (request_promote_t){queue, script, due->leases[from].term, asked};
        asks[count++] = (promote_request_t){queue, asked.batch, asked.skip, asked.first, asked.bytes};
        slice_us += time_us;
    }
    const promote_ops_t *ops = d->schedules[due->queues[from]].ops->promote;
    const call_t call = {.conn = d->session.data, .keys = d->keys, .queue = due->queues[from], .token = due->leases[from].token};
    if (ops->append_many)
        ops->append_many(&call, asks, count, slice_us);
    else
        ops->append(&call, asks);
    return count;
}

// Sends the promotes of due queues in one write. Redis runs them all before it serves other clients, so together they may take
// redis.slice. False: no queue is due.
static bool dispatcher_send_due(dispatcher_t *d, mono_t now) {
    due_set_t due;
    dispatcher_choose_due(d, &due, now);
    if (due.count == 0) return false;
    request_t *request = dispatcher_new_request(d, REQUEST_PROMOTE);
    for (size_t i = 0; i < due.count;) i += dispatcher_append_script(d, request, &due, i, now);
    dispatcher_append_next_dues(d, request);
    return true;
}

// Sends one read of next due scores, from queue *from on: of all for the safety poll, otherwise of changed ones. False: none to
// read.
static bool dispatcher_send_read(dispatcher_t *d, request_kind_t kind, size_t *from, mono_t now) {
    request_t *request = NULL;
    size_t queue = *from;
    size_t most = dispatcher_next_dues_max(d);
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
    if (request) dispatcher_append_next_dues(d, request);
    return request;
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
    return !window_full(&d->window) && !d->requests[window_newest(&d->window)].backlog;
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
    assert(window_in_flight(&d->window) == 0); // session_ready would take the reply
    if (session_ready(&d->session)) dispatcher_work(d);
    session_wait(&d->session, dispatcher_next_time(d), wait);
}
