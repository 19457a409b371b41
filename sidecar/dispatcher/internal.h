// Private to dispatcher/: the state of the dispatcher, and the replies to its requests.
#pragma once

#include <stdatomic.h>

#include "base/keyset.h"
#include "base/remote_clock.h"
#include "dispatcher/schedule.h"
#include "redis/window.h"
#include "role/leadership.h"
#include "role/session.h"

typedef struct dispatcher dispatcher_t; // as in dispatcher.h

enum {
    NEXT_DUES_MAX = 250, // queues of one read: about half a millisecond of Redis
    PROMOTES_MAX = 16,   // queues of one request that promotes
};

typedef enum request_kind { REQUEST_PROMOTE, REQUEST_READ, REQUEST_SAFETY } request_kind_t;

typedef struct request_promote {
    size_t queue;
    size_t script; // of the request's scripts, that which promotes this queue
    uint64_t term; // term of the token
    schedule_request_t asked;
} request_promote_t;

// Promotes, or none, and behind them a read of the next due scores of `queues`, or none: one write, one round trip.
typedef struct request {
    request_kind_t kind;
    request_promote_t promotes[PROMOTES_MAX];
    size_t promote_count;
    bool backlog; // more jobs were due than the promotes before have moved
    bool armed;   // the read registers its keys for wake-ups
    size_t count; // of `queues`
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
    remote_clock_t clock;  // Redis's
};

static inline mono_t dispatcher_next_poll(const dispatcher_t *d, mono_t now) {
    const config_t *config = d->keys->config;
    bool blind = d->session.tracking_refused;
    return mono_add(now, (blind ? config->dispatcher.blind_poll_ms : config->dispatcher.safety_poll_ms) * NS_PER_MS);
}

// Queues of one script that reads next due scores. Queues of different locks may be in different slots of a Cluster. A script has
// one slot.
static inline size_t dispatcher_next_dues_max(const dispatcher_t *d) { return d->keys->per_tag ? 1 : NEXT_DUES_MAX; }

// Reads the replies to the oldest request. Returns errors that concern all queues.
outcome_t dispatcher_read_reply(dispatcher_t *d, redis_error_t *error);
