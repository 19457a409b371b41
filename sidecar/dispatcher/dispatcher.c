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
    WINDOW = 2,        // requests under way; behind a batch of a backlog none
    HEADS_CHUNK = 500, // queues per look: about half a millisecond of Redis
    TICK_MS = 100,     // a tick comes up for air at least this often
};

static const char ROLE[] = "dispatcher";

typedef enum flight_kind { FLIGHT_PROMOTE, FLIGHT_READ, FLIGHT_SAFETY } flight_kind_t;

// One request under way. Replies come in the order of the requests.
typedef struct flight {
    flight_kind_t kind;
    uint64_t term;    // of the promote
    line_ask_t ask;   // promote: what it was asked with
    bool looks;       // at the heads of the queues in asks; all but the promotes of a backlog do
    bool armed;       // the look registers for wake-ups
    head_ask_t *asks; // the queues looked at; owned
    size_t count;
    mono_t sent;
} flight_t;

struct dispatcher {
    const keyspace_t *keys;
    metrics_t *metrics;
    const atomic_bool *stop;
    session_t session;
    mono_t safety_at; // next look at all heads
    line_t *lines;
    line_t **by_key; // lines sorted by delayed key, for wake-ups
    size_t by_key_count;
    leadership_t leadership;
    size_t cursor;    // whose turn it is
    bool look_first;  // the next request is a look, if any is wanted
    size_t look_from; // the queue that the next look begins with
    flight_t flights[WINDOW];
    int flying;
    mono_t landed; // when the last reply came
    head_t *heads; // room for HEADS_CHUNK
};

// Whether it has jobs to promote.
static bool promotes(const queue_config_t *queue) {
    return (queue->policy.roles & ROLE_DISPATCHER) && dialect_ops(queue->dialect)->promote;
}

static int compare_keys(const void *a, const void *b) {
    return strcmp((*(line_t *const *)a)->config->delayed, (*(line_t *const *)b)->config->delayed);
}

dispatcher_t *dispatcher_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    dispatcher_t *d = mem_alloc(sizeof *d);
    *d = (dispatcher_t){.keys = keys, .metrics = metrics, .stop = stop};
    session_init(&d->session, ROLE, (const char *const[]){"queue-sidecar-dispatcher", "queue-sidecar-wakeups"},
                 &keys->config->redis, metrics, stop);
    d->lines = mem_array(keys->queue_count, sizeof *d->lines);
    d->by_key = mem_array(keys->queue_count, sizeof(line_t *));
    leadership_init(&d->leadership, ROLE, keys, leases);
    d->heads = mem_array(HEADS_CHUNK, sizeof *d->heads);
    for (size_t i = 0; i < keys->queue_count; i++) {
        const queue_config_t *queue = keys->queues[i].config;
        line_init(&d->lines[i], queue, metrics_queue(metrics, queue->name), keys->config->dispatcher.batch);
        if (promotes(queue)) d->by_key[d->by_key_count++] = &d->lines[i];
    }
    qsort(d->by_key, d->by_key_count, sizeof(line_t *), compare_keys);
    return d;
}

static void drop_flights(dispatcher_t *d) {
    for (int i = 0; i < d->flying; i++) free(d->flights[i].asks);
    d->flying = 0;
}

void dispatcher_free(dispatcher_t *d) {
    if (!d) return;
    drop_flights(d);
    session_free(&d->session);
    free(d->lines);
    free(d->by_key);
    leadership_free(&d->leadership);
    free(d->heads);
    free(d);
}

static void forget_everything(dispatcher_t *d) {
    drop_flights(d);
    for (size_t i = 0; i < d->keys->queue_count; i++) line_forget(&d->lines[i]);
}

static void put_off(dispatcher_t *d, const redis_error_t *error) {
    session_back_off(&d->session, error);
    if (!conn_is_open(d->session.data)) forget_everything(d);
}

static void term_began(void *self, size_t queue) {
    dispatcher_t *d = self;
    line_changed(&d->lines[queue]);
    d->lines[queue].hold = (mono_t){0};
}

// The lease under which this queue may be served now; false when there is none.
static bool served(dispatcher_t *d, size_t queue, lease_t *lease) {
    return promotes(d->lines[queue].config) && leadership_may_serve(&d->leadership, queue, lease);
}

// Opens what is closed. False: not now, see retry_at.
static bool connected(dispatcher_t *d, mono_t now) {
    bool fresh;
    bool open = session_open(&d->session, now, &fresh);
    if (fresh) forget_everything(d);
    if (open && fresh) d->safety_at = mono_add(now, d->keys->config->dispatcher.safety_poll_ms * NS_PER_MS);
    return open;
}

static int compare_key(const void *key, const void *line) { return strcmp(key, (*(line_t *const *)line)->config->delayed); }

static void on_change(void *self, const char *key, size_t len) {
    dispatcher_t *d = self;
    if (!key) {
        for (size_t i = 0; i < d->by_key_count; i++) line_flushed(d->by_key[i]);
        leadership_suspect(&d->leadership); // gone as well
        return;
    }
    if (strlen(key) != len) return; // configured keys hold no NUL
    line_t **found = bsearch(key, d->by_key, d->by_key_count, sizeof *d->by_key, compare_key);
    if (!found) return;
    metric_add(&(*found)->metrics->wakeups, 1);
    line_changed(*found);
}

static flight_t *new_flight(dispatcher_t *d, flight_kind_t kind, size_t room) {
    flight_t *flight = &d->flights[d->flying++];
    *flight = (flight_t){.kind = kind, .asks = mem_array(room, sizeof(head_ask_t)), .sent = mono_now()};
    return flight;
}

static void send_promote(dispatcher_t *d, size_t queue, const lease_t *lease, mono_t now) {
    line_t *line = &d->lines[queue];
    flight_t *flight = new_flight(d, FLIGHT_PROMOTE, 1);
    flight->term = lease->term;
    flight->ask = line_sent_promote(line, now);
    flight->looks = flight->ask.looks;
    flight->armed = d->session.tracking;
    flight->count = 1;
    flight->asks[0] = (head_ask_t){.queue = queue, .skip = flight->ask.skip};
    promote_ask_t ask = {
        .queue = queue, .token = lease->token, .batch = flight->ask.batch, .skip = flight->ask.skip, .first = flight->ask.first};
    line->ops->promote->append(d->session.data, d->keys, &ask);
    if (flight->looks) heads_append(d->session.data, d->keys, flight->asks, 1, flight->armed);
}

// Sends a promote for the next queue in turn that is due.
static bool send_due(dispatcher_t *d, mono_t now) {
    size_t count = d->keys->queue_count;
    for (size_t n = 0; n < count; n++) {
        size_t queue = (d->cursor + n) % count;
        lease_t lease;
        if (!line_wants_promote(&d->lines[queue], now) || !served(d, queue, &lease)) continue;
        d->cursor = (queue + 1) % count;
        send_promote(d, queue, &lease, now);
        return true;
    }
    return false;
}

// Sends one look for queues that changed, or for all of them (safety), from *from on; returns whether there was any.
static bool send_look(dispatcher_t *d, flight_kind_t kind, size_t *from, mono_t now) {
    flight_t *flight = NULL;
    size_t queue = *from;
    // Queues with locks of their own may lie in other slots of a Cluster, and a script keeps to one.
    size_t most = d->keys->config->lock.scope == LOCK_SCOPE_QUEUE ? 1 : HEADS_CHUNK;
    for (; queue < d->keys->queue_count && (!flight || flight->count < most); queue++) {
        lease_t lease;
        line_t *line = &d->lines[queue];
        bool wanted = kind == FLIGHT_READ ? line_wants_read(line, now) : mono_reached(line->hold, now);
        if (!wanted || !served(d, queue, &lease)) continue;
        if (line->alone && flight) break; // its turn comes next
        if (!flight) flight = new_flight(d, kind, most);
        if (kind == FLIGHT_READ) line_sent_look(line, now); // which may begin at the head again
        flight->asks[flight->count++] = (head_ask_t){.queue = queue, .skip = line->skip};
        if (line->alone) most = 1;
    }
    *from = queue;
    if (!flight) return false;
    flight->looks = true;
    flight->armed = kind == FLIGHT_READ && d->session.tracking;
    heads_append(d->session.data, d->keys, flight->asks, flight->count, flight->armed);
    return true;
}

// Even an unchanged head is applied: Redis's clock may have been stepped since we last set our own by it.
static void apply_heads(dispatcher_t *d, const flight_t *flight, int64_t now_us, bool dear, mono_t now) {
    for (size_t i = 0; i < flight->count; i++) {
        line_t *line = &d->lines[flight->asks[i].queue];
        const head_t *head = &d->heads[i];
        if (flight->kind == FLIGHT_SAFETY &&
            (line->changed || line->backlog || line->flying > 0 || !mono_reached(line->hold, now)))
            continue;
        if (flight->kind == FLIGHT_SAFETY && line_differs(line, head)) {
            metric_add(&line->metrics->missed, 1);
            line_changed(line); // and so registered again
        }
        if (!*head->error && !dear) line->alone = false;
        if (flight->asks[i].skip != line->skip)
            line->changed = true;
        else
            line_head(line, head, now_us, now);
    }
}

// A look failed: what it asked is still not known. Where one key of many may be at fault, each is asked for by itself.
static void heads_failed(dispatcher_t *d, const flight_t *flight, const redis_error_t *error, mono_t now) {
    bool fault_of_one = error->outcome == OUTCOME_REFUSED && flight->count == 1;
    for (size_t i = 0; i < flight->count; i++) {
        line_t *line = &d->lines[flight->asks[i].queue];
        if (fault_of_one)
            line_fault(line, error->text, now);
        else if (error->outcome == OUTCOME_REFUSED)
            line->alone = true;
        if (!fault_of_one && (error->outcome == OUTCOME_REFUSED || flight->kind != FLIGHT_SAFETY)) line->changed = true;
    }
}

// *bytes: what Redis had to read.
static outcome_t land_promote(dispatcher_t *d, const flight_t *flight, int64_t *bytes, redis_error_t *error) {
    line_t *line = &d->lines[flight->asks[0].queue];
    promote_reply_t reply;
    outcome_t outcome = line->ops->promote->read(d->session.data, &reply, error);
    mono_t now = mono_now();
    if (outcome == OUTCOME_OK) {
        session_reset_backoff(&d->session);        // a look that succeeds proves less: it writes nothing
        if (reply.large > 0) *bytes = reply.bytes; // what was moved is gone: nothing reads it again
        if (!line_promoted(line, &reply, &flight->ask, now))
            leadership_fence(&d->leadership, flight->asks[0].queue, flight->term);
        return OUTCOME_OK;
    }
    line->flying--;
    if (outcome == OUTCOME_REFUSED) line_fault(line, error->text, now);
    return outcome;
}

// What Redis took for this request, which waited for the one before it; true: it was dear. A dear one slows its queue down, so
// that what makes it dear (a huge entry at the head) does not take Redis from everybody; one of many is first looked at by
// itself. Time alone says nothing of that: Redis may have been busy with the slow command of another, and then what is due now
// must not wait as well.
static bool charge(dispatcher_t *d, const flight_t *flight, int64_t bytes, mono_t now) {
    int64_t cost_ns = mono_diff(now, mono_max(flight->sent, d->landed));
    int64_t own_ns = bytes < cost_ns / LINE_BYTE_NS ? bytes * LINE_BYTE_NS : cost_ns;
    d->landed = now;
    bool dear = cost_ns > LINE_DEAR_NS && bytes >= LINE_DEAR_BYTES;
    for (size_t i = 0; dear && i < flight->count; i++)
        line_dear(&d->lines[flight->asks[i].queue], flight->count == 1 ? own_ns : 0, now);
    return dear;
}

static int64_t bytes_of(const head_t *heads, size_t count) {
    int64_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += heads[i].bytes;
    return bytes;
}

// Reads the replies of the oldest request. What is worse than a fault of one queue is returned.
static outcome_t land(dispatcher_t *d, redis_error_t *error) {
    flight_t flight = d->flights[0];
    redis_error_t looked = {0};
    int64_t now_us = 0, bytes = 0;
    outcome_t outcome = OUTCOME_OK;
    if (flight.kind == FLIGHT_PROMOTE) outcome = land_promote(d, &flight, &bytes, error);
    if (outcome != OUTCOME_DISCONNECTED && flight.looks) {
        heads_read(d->session.data, flight.count, flight.armed, d->heads, &now_us, &looked);
        if (now_us > 0) bytes += bytes_of(d->heads, flight.count);
    }
    if (outcome == OUTCOME_DISCONNECTED || looked.outcome == OUTCOME_DISCONNECTED) {
        if (outcome == OUTCOME_OK || outcome == OUTCOME_REFUSED) *error = looked; // else the first reason is the better one
        error->outcome = OUTCOME_DISCONNECTED;
        return OUTCOME_DISCONNECTED;
    }
    bool dear = charge(d, &flight, bytes, mono_now());
    memmove(d->flights, d->flights + 1, (size_t)--d->flying * sizeof *d->flights);
    for (size_t i = 0; flight.kind == FLIGHT_READ && i < flight.count; i++) d->lines[flight.asks[i].queue].flying--;
    // What Redis told before it answered has arrived: a change is missed only when nobody told of it.
    if (flight.kind == FLIGHT_SAFETY) (void)session_read_messages(&d->session, on_change, d);
    bool unarmed = looked.outcome == OUTCOME_REFUSED && flight.armed && now_us > 0; // the heads are good all the same
    if (unarmed && d->session.tracking) session_disable_tracking(&d->session, &looked, mono_now());
    if (flight.looks && (looked.outcome == OUTCOME_OK || unarmed))
        apply_heads(d, &flight, now_us, dear, mono_now());
    else if (flight.looks)
        heads_failed(d, &flight, &looked, mono_now());
    free(flight.asks);
    if (looked.outcome == OUTCOME_RETRY) *error = looked;
    if (outcome == OUTCOME_RETRY || looked.outcome == OUTCOME_RETRY) return OUTCOME_RETRY;
    return OUTCOME_OK;
}

static void land_rest(dispatcher_t *d) {
    redis_error_t error;
    while (d->flying > 0 && land(d, &error) != OUTCOME_DISCONNECTED) {
    }
    if (d->flying > 0) put_off(d, &error);
}

static bool send_looks(dispatcher_t *d, size_t *safety_from, mono_t now) {
    if (send_look(d, FLIGHT_READ, &d->look_from, now)) return true;
    d->look_from = 0;
    if (send_look(d, FLIGHT_READ, &d->look_from, now)) return true;
    return *safety_from < d->keys->queue_count && send_look(d, FLIGHT_SAFETY, safety_from, now);
}

// Sends what comes next. Promotes and looks take turns, so that a long backlog does not keep the news of other queues waiting,
// nor much news a backlog.
static bool send_next(dispatcher_t *d, size_t *safety_from) {
    mono_t now = mono_now();
    d->look_first = !d->look_first;
    if (d->look_first) return send_looks(d, safety_from, now) || send_due(d, now);
    return send_due(d, now) || send_looks(d, safety_from, now);
}

// Redis answers everybody when it has done all that had arrived when it looked: a request that waits behind a batch would make
// all others wait for both. So the next batch leaves when this one is answered; what Redis idles meanwhile is a round trip.
static bool has_room(const dispatcher_t *d) { return d->flying == 0 || (d->flying < WINDOW && d->flights[d->flying - 1].looks); }

// Fills the window. Each request leaves at once.
static bool send_all(dispatcher_t *d, size_t *safety_from, redis_error_t *error) {
    while (has_room(d) && send_next(d, safety_from))
        if (conn_flush(d->session.data, error) != OUTCOME_OK) return false;
    return true;
}

// Works until nothing is wanted now, or it is time to come up for air.
static void work(dispatcher_t *d) {
    mono_t started = mono_now();
    size_t safety_from = d->keys->queue_count;
    if (mono_reached(d->safety_at, started)) {
        safety_from = 0;
        d->safety_at = mono_add(started, d->keys->config->dispatcher.safety_poll_ms * NS_PER_MS);
        metric_add(&d->metrics->safety_polls, 1);
    }
    while (!atomic_load(d->stop) && mono_diff(mono_now(), started) < TICK_MS * NS_PER_MS) {
        redis_error_t error;
        if (!session_read_messages(&d->session, on_change, d)) break;
        if (!send_all(d, &safety_from, &error)) {
            put_off(d, &error);
            return;
        }
        if (d->flying == 0) return;
        if (land(d, &error) == OUTCOME_OK) continue;
        if (error.outcome == OUTCOME_RETRY) land_rest(d);
        put_off(d, &error);
        return;
    }
    land_rest(d);
}

static mono_t next_time(dispatcher_t *d) {
    mono_t next = d->safety_at;
    for (size_t i = 0; i < d->keys->queue_count; i++) {
        lease_t lease;
        mono_t of_line = line_next(&d->lines[i]);
        if (of_line.ns < next.ns && served(d, i, &lease)) next = of_line;
    }
    if (!d->session.tracking) next = mono_min(next, d->session.tracking_retry_at);
    return next.ns < d->session.retry_at.ns ? d->session.retry_at : next;
}

static bool alive(dispatcher_t *d) {
    if (d->flying > 0 || session_check_alive(&d->session)) return true;
    forget_everything(d);
    return false;
}

void dispatcher_tick(void *self, role_wait_t *wait) {
    dispatcher_t *d = self;
    bool any =
        d->by_key_count > 0 && leadership_refresh(&d->leadership, term_began, d); // else the monitor alone serves these queues
    if (!any) {
        if (conn_is_open(d->session.data)) {
            session_close(&d->session);
            forget_everything(d);
        }
        return; // the lease wakes us
    }
    mono_t now = mono_now();
    if (mono_reached(d->session.retry_at, now) && connected(d, now) && alive(d)) work(d);
    wait->until = next_time(d);
    // While we are put off nothing is read, and a socket with news would end every wait at once.
    if (role_backing_off(wait, d->session.retry_at)) return;
    role_wait_fd(wait, conn_fd(d->session.data));
    if (d->session.tracking) role_wait_fd(wait, conn_fd(d->session.subscriber));
}
