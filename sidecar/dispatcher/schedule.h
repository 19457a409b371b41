// When one queue needs a request, and what follows from its reply. No I/O, so that tests reach every case.
#ifndef QS_DISPATCHER_SCHEDULE_H
#define QS_DISPATCHER_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/condition.h"
#include "dialects/dialect.h"
#include "model/metrics.h"
#include "queue/next_due.h"

enum {
    SCHEDULE_FULL_RETRY_MS = 250,
    SCHEDULE_REREAD_MS = 1, // least time between two reads of the head that changes cause
    SCHEDULE_REFUSED_MS = 5000,
    SCHEDULE_EXPENSIVE_NS = 5000000,    // a request is expensive when it takes longer than this
    SCHEDULE_EXPENSIVE_BYTES = 1 << 20, // and reads at least this much; else Redis was busy with other clients
    SCHEDULE_BYTE_NS = 10,              // most that the read of one byte takes
    SCHEDULE_COOLDOWN_FACTOR = 10,      // the next request waits this many times as long
    SCHEDULE_COOLDOWN_MAX_MS = 10000,
};

// The first entry of the zset that is not too large.
typedef struct schedule_head {
    bool changed;     // read it again
    mono_t reread_at; // but not before this
    mono_t due;       // mono_never: nothing is delayed, or it is not known
    int64_t due_us;   // the same by Redis's clock; INT64_MAX with mono_never
} schedule_head_t;

// Entries at the head that are larger than max_payload: requests skip them.
typedef struct schedule_oversized {
    int64_t skip;
    unsigned epoch;        // changes when other entries may be at the head
    bool met;              // by the last promote
    bool changed;          // the zset has changed since; read them again after the cooldown
    mono_t cooldown_until; // they were expensive to read; 0 = they were not
} schedule_oversized_t;

typedef struct schedule {
    const queue_config_t *config;
    const dialect_ops_t *ops;
    metrics_queue_t *metrics;
    int64_t batch;        // jobs of one promote
    int64_t first;        // of them to read at once
    int in_flight;        // requests
    mono_t blocked_until; // no request before this: ready is full, or Redis refused a request
    bool backlog;         // the last batch was full, so more jobs are due
    bool isolated;        // read this head in a request of its own: it spoils the reply for others
    int empty;            // promotes in a row that moved nothing although the head was due
    schedule_head_t head;
    schedule_oversized_t oversized;
    int64_t full_at_us; // by Redis's clock: when ready was last seen at ready_limit; 0 = not since the last move
    condition_t refused;
} schedule_t;

// What a promote was asked for; its reply is judged by it.
typedef struct schedule_request {
    int64_t batch;
    int64_t skip;
    int64_t first;
    bool reads_head; // a read of the head follows
    unsigned epoch;
} schedule_request_t;

void schedule_init(schedule_t *schedule, const queue_config_t *config, metrics_queue_t *metrics, int64_t batch);
void schedule_free(schedule_t *schedule);

// A new connection: all knowledge of the zset may be wrong.
void schedule_reset(schedule_t *schedule);
void schedule_changed(schedule_t *schedule); // an invalidation names the zset
void schedule_flushed(schedule_t *schedule); // FLUSHALL

// Whether the queue needs a promote, or else a read of its head, now.
bool schedule_wants_promote(const schedule_t *schedule, mono_t now);
bool schedule_wants_read(const schedule_t *schedule, mono_t now);
mono_t schedule_next(const schedule_t *schedule); // when it will need either

// A request was sent. In a backlog promotes do not read the head: the next due time matters only after the backlog.
void schedule_sent_read(schedule_t *schedule, mono_t now);
schedule_request_t schedule_sent_promote(schedule_t *schedule, mono_t now);

// A reply came at the local time `now`.
void schedule_read_promote(schedule_t *schedule, const promote_reply_t *reply, const schedule_request_t *ask, mono_t now);
void schedule_read_head(schedule_t *schedule, const next_due_t *head, int64_t now_us, mono_t now);
void schedule_fenced(schedule_t *schedule);
// Redis refuses a request: reports a new reason and leaves the queue alone for SCHEDULE_REFUSED_MS.
void schedule_refused(schedule_t *schedule, const char *reason, mono_t now);
// A request was expensive: isolates the queue, and waits SCHEDULE_COOLDOWN_FACTOR times its cost before the next read.
void schedule_expensive(schedule_t *schedule, int64_t cost_ns, mono_t now);

// Whether a head that the safety poll read differs from the known one: a wake-up was lost.
bool schedule_differs(const schedule_t *schedule, const next_due_t *head);

#endif
