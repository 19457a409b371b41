#include "dispatcher/dispatcher.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buffer.h"
#include "base/log.h"
#include "dispatcher/schedule.h"
#include "role/leadership.h"
#include "role/session.h"

enum {
    WINDOW = 2,           // requests under way; behind a batch of a backlog none
    HEADS_PER_READ = 500, // queues per look: about half a millisecond of Redis
    TICK_MS = 100,        // a tick comes up for air at least this often
};

static const char ROLE[] = "dispatcher";

typedef enum request_kind { REQUEST_PROMOTE, REQUEST_READ, REQUEST_SAFETY } request_kind_t;

// One request under way. Replies come in the order of the requests.
typedef struct request {
    request_kind_t kind;
    uint64_t term;            // of the promote
    schedule_request_t ask;   // promote: what it was asked with
    bool reads_head;          // at the heads of the queues in asks; all but the promotes of a backlog do
    bool armed;               // the look registers for wake-ups
    next_due_request_t *asks; // the queues looked at; owned
    size_t count;
    mono_t sent;
} request_t;

struct dispatcher {
    const keyspace_t *keys;
    metrics_t *metrics;
    const atomic_bool *stop;
    session_t session;
    mono_t safety_at; // next look at all heads
    schedule_t *schedules;
    schedule_t **by_key; // lines sorted by delayed key, for wake-ups
    size_t by_key_count;
    leadership_t leadership;
    size_t cursor;    // whose turn it is
    bool read_first;  // the next request is a look, if any is wanted
    size_t read_from; // the queue that the next look begins with
    request_t requests[WINDOW];
    int in_flight;
    mono_t replied_at; // when the last reply came
    next_due_t *heads; // room for HEADS_PER_READ
};

// Whether it has jobs to promote.
static bool dispatcher_promotes(const queue_config_t *queue) {
    return (queue->policy.roles & ROLE_DISPATCHER) && dialect_ops(queue->dialect)->promote;
}

static int dispatcher_compare_keys(const void *a, const void *b) {
    return strcmp((*(schedule_t *const *)a)->config->delayed, (*(schedule_t *const *)b)->config->delayed);
}

dispatcher_t *dispatcher_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    dispatcher_t *d = mem_alloc(sizeof *d);
    *d = (dispatcher_t){.keys = keys, .metrics = metrics, .stop = stop};
    session_init(&d->session, ROLE, (const char *const[]){"queue-sidecar-dispatcher", "queue-sidecar-wakeups"},
                 &keys->config->redis, metrics, stop);
    d->schedules = mem_array(keys->queue_count, sizeof *d->schedules);
    d->by_key = mem_array(keys->queue_count, sizeof(schedule_t *));
    leadership_init(&d->leadership, ROLE, leases);
    d->heads = mem_array(HEADS_PER_READ, sizeof *d->heads);
    for (size_t i = 0; i < keys->queue_count; i++) {
        const queue_config_t *queue = keys->queues[i].config;
        schedule_init(&d->schedules[i], queue, metrics_queue(metrics, queue->name), keys->config->dispatcher.batch);
        if (dispatcher_promotes(queue)) d->by_key[d->by_key_count++] = &d->schedules[i];
    }
    qsort(d->by_key, d->by_key_count, sizeof(schedule_t *), dispatcher_compare_keys);
    return d;
}

static void dispatcher_drop_requests(dispatcher_t *d) {
    for (int i = 0; i < d->in_flight; i++) free(d->requests[i].asks);
    d->in_flight = 0;
}

void dispatcher_free(dispatcher_t *d) {
    if (!d) return;
    dispatcher_drop_requests(d);
    session_free(&d->session);
    free(d->schedules);
    free(d->by_key);
    leadership_free(&d->leadership);
    free(d->heads);
    free(d);
}

static void dispatcher_reset(dispatcher_t *d) {
    dispatcher_drop_requests(d);
    for (size_t i = 0; i < d->keys->queue_count; i++) schedule_reset(&d->schedules[i]);
}

static void dispatcher_back_off(dispatcher_t *d, const redis_error_t *error) {
    session_back_off(&d->session, error);
    if (!conn_is_open(d->session.data)) dispatcher_reset(d);
}

static void dispatcher_on_term(void *self, size_t queue) {
    dispatcher_t *d = self;
    schedule_changed(&d->schedules[queue]);
    d->schedules[queue].blocked_until = (mono_t){0};
}

// The lease under which this queue may be served now; false when there is none.
static bool dispatcher_may_serve(dispatcher_t *d, size_t queue, lease_t *lease) {
    return dispatcher_promotes(d->schedules[queue].config) && leadership_may_serve(&d->leadership, queue, lease);
}

// Opens what is closed. False: not now, see retry_at.
static bool dispatcher_connect(dispatcher_t *d, mono_t now) {
    bool fresh;
    bool open = session_open(&d->session, now, &fresh);
    if (fresh) dispatcher_reset(d);
    if (open && fresh) d->safety_at = mono_add(now, d->keys->config->dispatcher.safety_poll_ms * NS_PER_MS);
    return open;
}

static int dispatcher_compare_key(const void *key, const void *schedule) {
    return strcmp(key, (*(schedule_t *const *)schedule)->config->delayed);
}

static void dispatcher_on_change(void *self, const char *key, size_t len) {
    dispatcher_t *d = self;
    if (!key) {
        for (size_t i = 0; i < d->by_key_count; i++) schedule_flushed(d->by_key[i]);
        leadership_suspect(&d->leadership); // gone as well
        return;
    }
    if (strlen(key) != len) return; // configured keys hold no NUL
    schedule_t **found = bsearch(key, d->by_key, d->by_key_count, sizeof *d->by_key, dispatcher_compare_key);
    if (!found) return;
    metric_add(&(*found)->metrics->wakeups, 1);
    schedule_changed(*found);
}

static request_t *dispatcher_new_request(dispatcher_t *d, request_kind_t kind, size_t room) {
    request_t *request = &d->requests[d->in_flight++];
    *request = (request_t){.kind = kind, .asks = mem_array(room, sizeof(next_due_request_t)), .sent = mono_now()};
    return request;
}

static void dispatcher_send_promote(dispatcher_t *d, size_t queue, const lease_t *lease, mono_t now) {
    schedule_t *schedule = &d->schedules[queue];
    request_t *request = dispatcher_new_request(d, REQUEST_PROMOTE, 1);
    request->term = lease->term;
    request->ask = schedule_sent_promote(schedule, now);
    request->reads_head = request->ask.reads_head;
    request->armed = d->session.tracking;
    request->count = 1;
    request->asks[0] = (next_due_request_t){.queue = queue, .skip = request->ask.skip};
    const promote_request_t ask = {.batch = request->ask.batch, .skip = request->ask.skip, .first = request->ask.first};
    const call_t call = {.conn = d->session.data, .keys = d->keys, .queue = queue, .token = lease->token};
    schedule->ops->promote->append(&call, &ask);
    if (request->reads_head) next_due_append(d->session.data, d->keys, request->asks, 1, request->armed);
}

// Sends a promote for the next queue in turn that is due.
static bool dispatcher_send_due(dispatcher_t *d, mono_t now) {
    size_t count = d->keys->queue_count;
    for (size_t n = 0; n < count; n++) {
        size_t queue = (d->cursor + n) % count;
        lease_t lease;
        if (!schedule_wants_promote(&d->schedules[queue], now) || !dispatcher_may_serve(d, queue, &lease)) continue;
        d->cursor = (queue + 1) % count;
        dispatcher_send_promote(d, queue, &lease, now);
        return true;
    }
    return false;
}

// Sends one look for queues that changed, or for all of them (safety), from *from on; returns whether there was any.
static bool dispatcher_send_read(dispatcher_t *d, request_kind_t kind, size_t *from, mono_t now) {
    request_t *request = NULL;
    size_t queue = *from;
    // Queues with locks of their own may lie in other slots of a Cluster, and a script keeps to one.
    size_t most = d->keys->config->lock.scope == LOCK_SCOPE_QUEUE ? 1 : HEADS_PER_READ;
    for (; queue < d->keys->queue_count && (!request || request->count < most); queue++) {
        lease_t lease;
        schedule_t *schedule = &d->schedules[queue];
        bool wanted = kind == REQUEST_READ ? schedule_wants_read(schedule, now) : mono_reached(schedule->blocked_until, now);
        if (!wanted || !dispatcher_may_serve(d, queue, &lease)) continue;
        if (schedule->isolated && request) break; // its turn comes next
        if (!request) request = dispatcher_new_request(d, kind, most);
        if (kind == REQUEST_READ) schedule_sent_read(schedule, now); // which may begin at the head again
        request->asks[request->count++] = (next_due_request_t){.queue = queue, .skip = schedule->skip};
        if (schedule->isolated) most = 1;
    }
    *from = queue;
    if (!request) return false;
    request->reads_head = true;
    request->armed = kind == REQUEST_READ && d->session.tracking;
    next_due_append(d->session.data, d->keys, request->asks, request->count, request->armed);
    return true;
}

// Even an unchanged head is applied: Redis's clock may have been stepped since we last set our own by it.
static void dispatcher_apply_heads(dispatcher_t *d, const request_t *request, int64_t now_us, bool expensive, mono_t now) {
    for (size_t i = 0; i < request->count; i++) {
        schedule_t *schedule = &d->schedules[request->asks[i].queue];
        const next_due_t *head = &d->heads[i];
        if (request->kind == REQUEST_SAFETY &&
            (schedule->changed || schedule->backlog || schedule->in_flight > 0 || !mono_reached(schedule->blocked_until, now)))
            continue;
        if (request->kind == REQUEST_SAFETY && schedule_differs(schedule, head)) {
            metric_add(&schedule->metrics->missed, 1);
            schedule_changed(schedule); // and so registered again
        }
        if (!*head->error && !expensive) schedule->isolated = false;
        if (request->asks[i].skip != schedule->skip)
            schedule->changed = true;
        else
            schedule_read_head(schedule, head, now_us, now);
    }
}

// A look failed: what it asked is still not known. Where one key of many may be at fault, each is asked for by itself.
static void dispatcher_heads_failed(dispatcher_t *d, const request_t *request, const redis_error_t *error, mono_t now) {
    bool fault_of_one = error->outcome == OUTCOME_REFUSED && request->count == 1;
    for (size_t i = 0; i < request->count; i++) {
        schedule_t *schedule = &d->schedules[request->asks[i].queue];
        if (fault_of_one)
            schedule_refused(schedule, error->text, now);
        else if (error->outcome == OUTCOME_REFUSED)
            schedule->isolated = true;
        if (!fault_of_one && (error->outcome == OUTCOME_REFUSED || request->kind != REQUEST_SAFETY)) schedule->changed = true;
    }
}

// *bytes: what Redis had to read.
static outcome_t dispatcher_read_promote(dispatcher_t *d, const request_t *request, int64_t *bytes, redis_error_t *error) {
    schedule_t *schedule = &d->schedules[request->asks[0].queue];
    promote_reply_t reply;
    outcome_t outcome = schedule->ops->promote->read(d->session.data, &reply, error);
    mono_t now = mono_now();
    if (outcome == OUTCOME_OK) {
        session_reset_backoff(&d->session);        // a look that succeeds proves less: it writes nothing
        if (reply.large > 0) *bytes = reply.bytes; // what was moved is gone: nothing reads it again
        schedule_read_promote(schedule, &reply, &request->ask, now);
        return OUTCOME_OK;
    }
    if (outcome == OUTCOME_FENCED) {
        schedule_fenced(schedule);
        leadership_fence(&d->leadership, request->asks[0].queue, request->term);
        return OUTCOME_OK;
    }
    schedule->in_flight--;
    if (outcome == OUTCOME_REFUSED) schedule_refused(schedule, error->text, now);
    return outcome;
}

// What Redis took for this request, which waited for the one before it; true: it was dear. A dear one slows its queue down, so
// that what makes it dear (a huge entry at the head) does not take Redis from everybody; one of many is first looked at by
// itself. Time alone says nothing of that: Redis may have been busy with the slow command of another, and then what is due now
// must not wait as well.
static bool dispatcher_measure_cost(dispatcher_t *d, const request_t *request, int64_t bytes, mono_t now) {
    int64_t cost_ns = mono_diff(now, mono_max(request->sent, d->replied_at));
    int64_t own_ns = bytes < cost_ns / SCHEDULE_BYTE_NS ? bytes * SCHEDULE_BYTE_NS : cost_ns;
    d->replied_at = now;
    bool expensive = cost_ns > SCHEDULE_EXPENSIVE_NS && bytes >= SCHEDULE_EXPENSIVE_BYTES;
    for (size_t i = 0; expensive && i < request->count; i++)
        schedule_expensive(&d->schedules[request->asks[i].queue], request->count == 1 ? own_ns : 0, now);
    return expensive;
}

static int64_t dispatcher_head_bytes(const next_due_t *heads, size_t count) {
    int64_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += heads[i].bytes;
    return bytes;
}

// Reads the replies of the oldest request. What is worse than a fault of one queue is returned.
static outcome_t dispatcher_read_reply(dispatcher_t *d, redis_error_t *error) {
    request_t request = d->requests[0];
    redis_error_t read_error = {0};
    int64_t now_us = 0, bytes = 0;
    outcome_t outcome = OUTCOME_OK;
    if (request.kind == REQUEST_PROMOTE) outcome = dispatcher_read_promote(d, &request, &bytes, error);
    if (outcome != OUTCOME_DISCONNECTED && request.reads_head) {
        next_due_read(d->session.data, request.count, request.armed, d->heads, &now_us, &read_error);
        if (now_us > 0) bytes += dispatcher_head_bytes(d->heads, request.count);
    }
    if (outcome == OUTCOME_DISCONNECTED || read_error.outcome == OUTCOME_DISCONNECTED) {
        if (outcome == OUTCOME_OK || outcome == OUTCOME_REFUSED) *error = read_error; // else the first reason is the better one
        error->outcome = OUTCOME_DISCONNECTED;
        return OUTCOME_DISCONNECTED;
    }
    bool expensive = dispatcher_measure_cost(d, &request, bytes, mono_now());
    memmove(d->requests, d->requests + 1, (size_t)--d->in_flight * sizeof *d->requests);
    for (size_t i = 0; request.kind == REQUEST_READ && i < request.count; i++) d->schedules[request.asks[i].queue].in_flight--;
    // What Redis told before it answered has arrived: a change is missed only when nobody told of it.
    if (request.kind == REQUEST_SAFETY) (void)session_read_messages(&d->session, dispatcher_on_change, d);
    bool unarmed = read_error.outcome == OUTCOME_REFUSED && request.armed && now_us > 0; // the heads are good all the same
    if (unarmed && d->session.tracking) session_disable_tracking(&d->session, &read_error, mono_now());
    if (request.reads_head && (read_error.outcome == OUTCOME_OK || unarmed))
        dispatcher_apply_heads(d, &request, now_us, expensive, mono_now());
    else if (request.reads_head)
        dispatcher_heads_failed(d, &request, &read_error, mono_now());
    free(request.asks);
    if (read_error.outcome == OUTCOME_RETRY) *error = read_error;
    if (outcome == OUTCOME_RETRY || read_error.outcome == OUTCOME_RETRY) return OUTCOME_RETRY;
    return OUTCOME_OK;
}

static void dispatcher_read_all(dispatcher_t *d) {
    redis_error_t error;
    while (d->in_flight > 0 && dispatcher_read_reply(d, &error) != OUTCOME_DISCONNECTED) {
    }
    if (d->in_flight > 0) dispatcher_back_off(d, &error);
}

static bool dispatcher_send_reads(dispatcher_t *d, size_t *safety_from, mono_t now) {
    if (dispatcher_send_read(d, REQUEST_READ, &d->read_from, now)) return true;
    d->read_from = 0;
    if (dispatcher_send_read(d, REQUEST_READ, &d->read_from, now)) return true;
    return *safety_from < d->keys->queue_count && dispatcher_send_read(d, REQUEST_SAFETY, safety_from, now);
}

// Sends what comes next. Promotes and looks take turns, so that a long backlog does not keep the news of other queues waiting,
// nor much news a backlog.
static bool dispatcher_send_next(dispatcher_t *d, size_t *safety_from) {
    mono_t now = mono_now();
    d->read_first = !d->read_first;
    if (d->read_first) return dispatcher_send_reads(d, safety_from, now) || dispatcher_send_due(d, now);
    return dispatcher_send_due(d, now) || dispatcher_send_reads(d, safety_from, now);
}

// Redis answers everybody when it has done all that had arrived when it looked: a request that waits behind a batch would make
// all others wait for both. So the next batch leaves when this one is answered; what Redis idles meanwhile is a round trip.
static bool dispatcher_window_open(const dispatcher_t *d) {
    return d->in_flight == 0 || (d->in_flight < WINDOW && d->requests[d->in_flight - 1].reads_head);
}

// Fills the window. Each request leaves at once.
static bool dispatcher_fill_window(dispatcher_t *d, size_t *safety_from, redis_error_t *error) {
    while (dispatcher_window_open(d) && dispatcher_send_next(d, safety_from))
        if (conn_flush(d->session.data, error) != OUTCOME_OK) return false;
    return true;
}

// Works until nothing is wanted now, or it is time to come up for air.
static void dispatcher_work(dispatcher_t *d) {
    mono_t started = mono_now();
    size_t safety_from = d->keys->queue_count;
    if (mono_reached(d->safety_at, started)) {
        safety_from = 0;
        d->safety_at = mono_add(started, d->keys->config->dispatcher.safety_poll_ms * NS_PER_MS);
        metric_add(&d->metrics->safety_polls, 1);
    }
    while (!atomic_load(d->stop) && mono_diff(mono_now(), started) < TICK_MS * NS_PER_MS) {
        redis_error_t error;
        if (!session_read_messages(&d->session, dispatcher_on_change, d)) break;
        if (!dispatcher_fill_window(d, &safety_from, &error)) {
            dispatcher_back_off(d, &error);
            return;
        }
        if (d->in_flight == 0) return;
        if (dispatcher_read_reply(d, &error) == OUTCOME_OK) continue;
        if (error.outcome == OUTCOME_RETRY) dispatcher_read_all(d);
        dispatcher_back_off(d, &error);
        return;
    }
    dispatcher_read_all(d);
}

static mono_t dispatcher_next_time(dispatcher_t *d) {
    mono_t next = d->safety_at;
    for (size_t i = 0; i < d->keys->queue_count; i++) {
        lease_t lease;
        mono_t of_schedule = schedule_next(&d->schedules[i]);
        if (of_schedule.ns < next.ns && dispatcher_may_serve(d, i, &lease)) next = of_schedule;
    }
    return next;
}

static bool dispatcher_check_alive(dispatcher_t *d) {
    if (d->in_flight > 0 || session_check_alive(&d->session)) return true;
    dispatcher_reset(d);
    return false;
}

void dispatcher_tick(void *self, role_wait_t *wait) {
    dispatcher_t *d = self;
    bool any = d->by_key_count > 0 &&
               leadership_refresh(&d->leadership, dispatcher_on_term, d); // else the monitor alone serves these queues
    if (!any) {
        if (conn_is_open(d->session.data)) {
            session_close(&d->session);
            dispatcher_reset(d);
        }
        return; // the lease wakes us
    }
    mono_t now = mono_now();
    if (mono_reached(d->session.retry_at, now) && dispatcher_connect(d, now) && dispatcher_check_alive(d)) dispatcher_work(d);
    session_wait(&d->session, dispatcher_next_time(d), wait);
}
