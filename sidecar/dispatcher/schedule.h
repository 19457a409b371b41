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
    LINE_FULL_LOOK_MS = 250, // how often a full ready list is looked at again
    LINE_REREAD_MS = 1,      // re-reads caused by adds are at least this far apart
    LINE_FAULT_HOLD_MS = 5000,
    LINE_DEAR_NS = 5000000,    // a request that takes longer is dear: the next one waits
    LINE_DEAR_BYTES = 1 << 20, // if it had to read so much; else Redis was busy with others, or away
    LINE_BYTE_NS = 10,         // and a byte of it takes no longer than this
    LINE_REST_MOST_MS = 10000, // but no longer than this
    LINE_DEAR_TIMES = 10,      // this many times as long
};

typedef struct line {
    const queue_config_t *config;
    const dialect_ops_t *ops;
    metrics_queue_t *metrics;
    bool changed;          // the head must be read again
    mono_t due;            // when the head falls due; mono_never: nothing delayed, or not known
    int64_t due_us;        // the same by Redis's clock; INT64_MAX with mono_never
    mono_t hold;           // no request before this: full, or at fault
    mono_t reread;         // no read caused by a change before this
    int flying;            // requests under way
    bool backlog;          // the last batch was full: there is more
    int64_t batch;         // jobs to ask for
    int64_t first;         // of them to be read at once
    int64_t skip;          // entries at the head that are too large
    unsigned epoch;        // counts what may have changed the entries at the head
    bool large;            // the last promote met entries that are too large
    mono_t rest;           // they were dear to read: what changes does not make us read them again before this; 0 = at once
    bool stale;            // something has changed since
    bool alone;            // its key spoiled a look at many: look at it in a request of its own
    int64_t full_since_us; // Redis time when ready was first seen full; 0 = it is not
    int64_t room_us;       // Redis time of the last look that found it full; 0 = none since the last move
    int empty;             // promotes in a row that moved nothing though the head said due
} line_t;

// What a promote was asked with; its reply is judged by it.
typedef struct line_ask {
    int64_t batch;
    int64_t skip;
    int64_t first;
    bool looks; // a look at the head follows
    unsigned epoch;
} line_ask_t;

void line_init(line_t *line, const queue_config_t *config, metrics_queue_t *metrics, int64_t batch);

// Everything known may be wrong: after a reconnect, a new term, FLUSHALL.
void line_forget(line_t *line);

// Redis said that the zset changed.
void line_changed(line_t *line);
// Everything is gone, large entries too.
void line_flushed(line_t *line);

// Whether the line wants a promote, or else a look at its head, now; and the earliest time at which it will want either.
bool line_wants_promote(const line_t *line, mono_t now);
bool line_wants_read(const line_t *line, mono_t now);
mono_t line_next(const line_t *line);

// A request is on its way: a look, or a promote. Returns what to ask the promote for. While there is a backlog nobody needs to
// know the next due time, so no look follows a promote; one follows when the backlog has come to its end.
void line_sent_look(line_t *line, mono_t now);
line_ask_t line_sent_promote(line_t *line, mono_t now);

// What came back. `now` is the local time of the reply. line_promoted returns false when the lock is not ours.
bool line_promoted(line_t *line, const promote_reply_t *reply, const line_ask_t *ask, mono_t now);
void line_head(line_t *line, const head_t *head, int64_t now_us, mono_t now);
// A request took long: look at it in a request of its own, and not again before LINE_DEAR_TIMES that time.
void line_dear(line_t *line, int64_t cost_ns, mono_t now);
void line_fault(line_t *line, const char *reason, mono_t now);

// A head that nobody had announced (safety poll): true when it differs from what was known.
bool line_differs(const line_t *line, const head_t *head);

#endif
