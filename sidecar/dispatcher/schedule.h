// What the dispatcher knows of one queue, and what follows from each reply. No I/O: a test can walk through every case.
#ifndef QS_DISPATCHER_SCHEDULE_H
#define QS_DISPATCHER_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "dialects/dialect.h"
#include "model/metrics.h"
#include "queue/next_due.h"

enum {
    SCHEDULE_FULL_RETRY_MS = 250, // how often a full ready list is looked at again
    SCHEDULE_REREAD_MS = 1,       // re-reads caused by adds are at least this far apart
    SCHEDULE_REFUSED_MS = 5000,
    SCHEDULE_EXPENSIVE_NS = 5000000,    // a request that takes longer is dear: the next one waits
    SCHEDULE_EXPENSIVE_BYTES = 1 << 20, // if it had to read so much; else Redis was busy with others, or away
    SCHEDULE_BYTE_NS = 10,              // and a byte of it takes no longer than this
    SCHEDULE_COOLDOWN_MAX_MS = 10000,   // but no longer than this
    SCHEDULE_COOLDOWN_FACTOR = 10,      // this many times as long
};

typedef struct schedule {
    const queue_config_t *config;
    const dialect_ops_t *ops;
    metrics_queue_t *metrics;
    bool changed;          // the head must be read again
    mono_t due;            // when the head falls due; mono_never: nothing delayed, or not known
    int64_t due_us;        // the same by Redis's clock; INT64_MAX with mono_never
    mono_t blocked_until;  // no request before this: full, or at fault
    mono_t reread_at;      // no read caused by a change before this
    int in_flight;         // requests under way
    bool backlog;          // the last batch was full: there is more
    int64_t batch;         // jobs to ask for
    int64_t first;         // of them to be read at once
    int64_t skip;          // entries at the head that are too large
    unsigned epoch;        // counts what may have changed the entries at the head
    bool oversized;        // the last promote met entries that are too large
    mono_t cooldown_until; // they were dear to read: what changes does not make us read them again before this; 0 = at once
    bool stale;            // something has changed since
    bool isolated;         // its key spoiled a look at many: look at it in a request of its own
    int64_t full_since_us; // Redis time when ready was first seen full; 0 = it is not
    int64_t room_us;       // Redis time of the last look that found it full; 0 = none since the last move
    int empty;             // promotes in a row that moved nothing though the head said due
} schedule_t;

// What a promote was asked with; its reply is judged by it.
typedef struct schedule_request {
    int64_t batch;
    int64_t skip;
    int64_t first;
    bool reads_head; // a look at the head follows
    unsigned epoch;
} schedule_request_t;

void schedule_init(schedule_t *schedule, const queue_config_t *config, metrics_queue_t *metrics, int64_t batch);

// Everything known may be wrong: after a reconnect, a new term, FLUSHALL.
void schedule_reset(schedule_t *schedule);

// Redis said that the zset changed.
void schedule_changed(schedule_t *schedule);
// Everything is gone, large entries too.
void schedule_flushed(schedule_t *schedule);

// Whether the queue wants a promote, or else a look at its head, now; and the earliest time at which it will want either.
bool schedule_wants_promote(const schedule_t *schedule, mono_t now);
bool schedule_wants_read(const schedule_t *schedule, mono_t now);
mono_t schedule_next(const schedule_t *schedule);

// A request is on its way: a look, or a promote. Returns what to ask the promote for. While there is a backlog nobody needs to
// know the next due time, so no look follows a promote; one follows when the backlog has come to its end.
void schedule_sent_read(schedule_t *schedule, mono_t now);
schedule_request_t schedule_sent_promote(schedule_t *schedule, mono_t now);

// What came back. `now` is the local time of the reply.
void schedule_read_promote(schedule_t *schedule, const promote_reply_t *reply, const schedule_request_t *ask, mono_t now);
void schedule_fenced(schedule_t *schedule); // in place of a reply: the lock is lost
void schedule_read_head(schedule_t *schedule, const next_due_t *head, int64_t now_us, mono_t now);
// A request took long: look at it in a request of its own, and not again before SCHEDULE_COOLDOWN_FACTOR that time.
void schedule_expensive(schedule_t *schedule, int64_t cost_ns, mono_t now);
void schedule_refused(schedule_t *schedule, const char *reason, mono_t now);

// A head that nobody had announced (safety poll): true when it differs from what was known.
bool schedule_differs(const schedule_t *schedule, const next_due_t *head);

#endif
