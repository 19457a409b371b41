// Decides when one queue needs a request, and acts on each reply. No I/O, so that tests reach every case.
#pragma once

#include "base/clock.h"
#include "base/condition.h"
#include "base/pace.h"
#include "dialects/dialect.h"
#include "model/metrics.h"
#include "queue/next_due.h"

enum {
    SCHEDULE_FULL_RETRY_MS = 250,       // pause after ready was at ready_limit
    SCHEDULE_REREAD_MS = 1,             // shortest time between two reads of the next due score after changes
    SCHEDULE_REFUSED_MS = 5000,         // pause after a refusal
    SCHEDULE_EXPENSIVE_NS = 5000000,    // a request is expensive if it takes longer than this
    SCHEDULE_EXPENSIVE_BYTES = 1 << 20, // and if it reads at least this much; otherwise other clients kept Redis busy
    SCHEDULE_BYTE_NS = 10,              // longest time for the read of one byte
    SCHEDULE_COOLDOWN_FACTOR = 10,      // the pause after an expensive request, as a multiple of its duration
    SCHEDULE_COOLDOWN_MAX_MS = 10000,   // longest pause after an expensive request
    SCHEDULE_OVERSIZED_MS = 60000,      // time between two reads of oversized entries while no wake-up comes
};

// The first entry of the zset that is not oversized.
typedef struct schedule_next_due {
    bool changed;     // the score must be read again
    mono_t reread_at; // no read of the score before this
    mono_t due;       // mono_never: the zset is empty, or the score is unknown
    int64_t due_us;   // due time by Redis's clock; INT64_MAX with mono_never
} schedule_next_due_t;

// Entries that are larger than max_payload, or foreign: requests skip them.
typedef struct schedule_oversized {
    int64_t skip;
    int64_t foreign;       // of these
    unsigned epoch;        // changes when other entries may be the first
    bool found;            // the last promote read one of these entries
    bool changed;          // the zset has changed since the last read; read these entries again after the cooldown
    mono_t cooldown_until; // end of the pause after an expensive read of these entries; 0 = no pause
    mono_t found_at;       // when a promote last read one of these entries
} schedule_oversized_t;

typedef struct schedule {
    const queue_config_t *config;
    const dialect_ops_t *ops;
    metrics_queue_t *metrics;
    int64_t batch;    // most jobs of one promote
    int64_t slice_us; // time of Redis that one promote may take
    pace_t pace;
    int64_t first;        // entries of the first read of a promote
    bool in_flight;       // a request is in flight: a promote, or a read of the next due score
    mono_t blocked_until; // no request before this: ready is full, or Redis refused a request
    bool backlog;         // the last batch was full, so more jobs are due
    bool isolated;        // read its next due score in a request of its own: its error or its cost would harm other queues
    bool suspect;         // Redis refused a script that promotes this queue and others: promote this queue alone
    int empty;            // promotes in a row that moved nothing although a job was due
    schedule_next_due_t next_due;
    schedule_oversized_t oversized;
    int64_t full_at_us; // by Redis's clock: when ready was last seen at ready_limit; 0 = not since the last move
    condition_t refused;
} schedule_t;

// A promote that was sent. schedule_read_promote needs it to interpret the reply.
typedef struct schedule_request {
    int64_t batch;       // move at most this many jobs
    int64_t skip;        // skip this many oversized entries
    int64_t first;       // entries of the first read
    int64_t bytes;       // the batch ends after this many
    bool reads_next_due; // the request also reads the next due score
    unsigned epoch;      // schedule_oversized_t.epoch when it was sent
} schedule_request_t;

void schedule_init(schedule_t *schedule, const queue_config_t *config, metrics_queue_t *metrics, int64_t batch, int64_t slice_us);
void schedule_free(schedule_t *schedule);

// Drops all facts about the zset after a new connection, because they may be out of date.
void schedule_reset(schedule_t *schedule);
void schedule_changed(schedule_t *schedule); // an invalidation names the zset
void schedule_flushed(schedule_t *schedule); // Redis was flushed (FLUSHALL)
// Without wake-ups, reads oversized entries again: another entry may have taken the place of one.
void schedule_poll_oversized(schedule_t *schedule, mono_t now);

// Whether the queue needs a promote, or else a read of its next due score, now.
bool schedule_wants_promote(const schedule_t *schedule, mono_t now);
bool schedule_wants_read(const schedule_t *schedule, mono_t now);
mono_t schedule_next(const schedule_t *schedule); // when the queue will need a promote or a read

// The queue may share no request with others: its batch takes the whole slice, or its first entry or its error would harm them.
bool schedule_wants_own_request(const schedule_t *schedule);
// Whether the dialect's script promotes many queues. Such a script looks at the clock itself.
bool schedule_shares_script(const schedule_t *schedule);
// Time of Redis that even a small promote is expected to take; 0 if the script looks at the clock itself.
int64_t schedule_least_us(const schedule_t *schedule);

// A request was sent. A promote may take `time_us` of Redis. In a backlog promotes do not read the next due score: it
// matters only after the backlog.
void schedule_sent_read(schedule_t *schedule, mono_t now);
schedule_request_t schedule_sent_promote(schedule_t *schedule, int64_t time_us, mono_t now);

// A request has ended, with a reply or without.
void schedule_replied(schedule_t *schedule);
// Records a reply at the local time `now`; a next due score at the local time `at` at which Redis's clock was now_us.
void schedule_read_promote(schedule_t *schedule, const promote_reply_t *reply, const schedule_request_t *ask, mono_t now);
void schedule_read_next_due(schedule_t *schedule, const next_due_t *next, int64_t now_us, mono_t at);
void schedule_fenced(schedule_t *schedule);
// Handles a refusal: reports a new reason and sends no request for SCHEDULE_REFUSED_MS.
void schedule_refused(schedule_t *schedule, const redis_error_t *error, mono_t now);
// Handles an expensive request: isolates the queue and waits SCHEDULE_COOLDOWN_FACTOR times the duration before the next read.
void schedule_expensive(schedule_t *schedule, int64_t cost_ns, mono_t now);

// Whether a next due score that the safety poll read differs from the known one: a wake-up was lost.
bool schedule_differs(const schedule_t *schedule, const next_due_t *next);
