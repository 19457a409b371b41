// What the files of auditor/ share. Calls go from auditor.c to read.c, trim.c, reconcile.c and connect.c, in this order.
#ifndef QS_AUDITOR_INTERNAL_H
#define QS_AUDITOR_INTERNAL_H

#include <stdatomic.h>

#include "auditor/requeue_markers.h"
#include "auditor/writer.h"
#include "model/metrics.h"
#include "queue/stream.h"
#include "role/lease.h"

typedef struct auditor auditor_t; // as in auditor.h

// How far the log is in one failure stream.
typedef struct stream_cursor {
    stream_id_t read_id;   // entries up to here were read and are on disk, in this life of the stream
    stream_id_t logged_id; // position in the log: it never had the entries above it that were trimmed
    bool unreadable;       // the stream has an error: skip it
    bool behind;           // it had entries above read_id when it was last looked at or read
    int64_t growth_left;   // entries that it may grow by before some could be trimmed; negative = some could
    mono_t trim_at;        // not before this
} stream_cursor_t;

typedef struct auditor_redis {
    conn_t *conn;                      // owned
    char history[STREAM_HISTORY_SIZE]; // of the server that all cursors are about
    backoff_t backoff;                 // no request before its retry_at
    int64_t now_ms;                    // Redis's clock; 0 = unknown
    mono_t now_at;                     // when it was read
} auditor_redis_t;

typedef struct auditor_timers {
    mono_t reconcile_at;
    mono_t renew_acks_at;
    requeue_markers_t markers;
} auditor_timers_t;

// The XREAD that is made, or in flight.
typedef struct stream_read {
    stream_id_t *positions; // it reads behind these; "" = not this stream; owned
    bool in_flight;
    mono_t deadline;         // of its reply
    bool one_by_one;         // streams lie in different slots: one request for each
    bool catching_up;        // one by one, only streams that are behind, without waiting: their entries may be of any size
    size_t first;            // stream whose turn is next
    int64_t budget;          // entries that the next reply may have
    int64_t streams;         // that the last reply had entries of
    int64_t count;           // entries of each stream that were asked for
    int64_t received_before; // bytes that the connection had received before
    bool release_memory;     // malloc keeps memory of large replies since the last pause
} stream_read_t;

// The entries of the reply.
typedef struct stream_reply {
    stream_id_t *ends; // where each stream ends in it; "" = nothing of it; owned
    int64_t entries;
    int64_t bytes;     // of memory
    int64_t added;     // rows
    int64_t oldest_ms; // age of the oldest entry that the log lacked
    bool write_failed; // the log has refused one
    bool full;         // there may be more
} stream_reply_t;

struct auditor {
    const keyspace_t *keys;
    leases_t *leases;
    metrics_t *metrics;
    const atomic_bool *stop;
    audit_writer_t writer;
    auditor_redis_t redis;
    auditor_timers_t timers;
    stream_cursor_t *cursors; // of each queue; owned
    stream_ends_t *states;    // of each stream, as it was last looked at; owned
    stream_read_t read;
    stream_reply_t reply;
    _Atomic int64_t missing_since_ns; // of mono_t: the log may lack an entry; 0 = it lacks none
    bool acks_unverified;             // Redis may hold acknowledgements of records that the log lacks
    bool retained;                    // the limits were looked at since the last transaction
};

const char *auditor_queue_name(const auditor_t *a, size_t queue);
void stream_id_set(stream_id_t id, const char *text);
int64_t auditor_redis_ms(const auditor_t *a);

// After a failed request: no request before the back-off ends. Always false, for callers to return.
bool auditor_back_off(auditor_t *a, const redis_error_t *error);

// Connects where needed. False: not now.
bool auditor_connect(auditor_t *a);

// Compares every cursor with its stream. False: not now. *found, where not NULL: one stream can no longer be read.
bool auditor_reconcile(auditor_t *a, bool *found);

// Tells Redis that the log holds everything up to `positions`. What Redis refuses is logged, and tried again at the next renewal.
bool auditor_acknowledge(auditor_t *a, const stream_id_t *positions);
// Reconciles, renews acknowledgements, prunes requeue markers and trims, where that is due. False: not now.
bool auditor_run_timers(auditor_t *a);
mono_t auditor_next_timer(auditor_t *a);

// Sends the next XREAD. Redis answers when there is an entry, or in time for the next timer. False: there is nothing to read, or
// not now.
bool auditor_send_read(auditor_t *a);
// Reads the reply, if it has arrived, writes it to the log and acknowledges it. False: not now.
bool auditor_read_reply(auditor_t *a);
// Updates for how long the log may have lacked an entry.
void auditor_note_lag(auditor_t *a);

#endif
