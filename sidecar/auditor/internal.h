// What the files of the auditor share. For auditor*.c only.
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
    stream_id_t read_id;   // entries up to this one were read and are on disk, in this life of the stream
    stream_id_t logged_id; // position in the log: this log never had the entries above it that were trimmed
    bool unreadable;       // the stream has an error: it is left out
    bool behind;           // it had entries above read_id when it was last looked at or read
    int64_t growth_left;   // entries that it may grow by before some could be trimmed; negative = some could
    mono_t trim_at;        // not before this
} stream_cursor_t;

typedef struct auditor_redis {
    conn_t *conn;                      // owned
    char history[STREAM_HISTORY_SIZE]; // of the server that all cursors are about
    backoff_t backoff;
    mono_t retry_at; // no request before this
    int64_t now_ms;  // Redis's clock was this
    mono_t now_at;   // at our time; 0 = it was not asked for
} auditor_redis_t;

typedef struct auditor_timers {
    mono_t reconcile_at;
    mono_t renew_acks_at;
    requeue_markers_t markers;
} auditor_timers_t;

// The XREAD that is made, or under way.
typedef struct stream_read {
    stream_id_t *positions; // it reads behind these; "" = not this stream; owned
    bool in_flight;
    mono_t deadline;         // of its reply
    bool one_by_one;         // streams lie in different slots: one after the other
    bool catching_up;        // one after the other, only those behind, without waiting: their entries may be of any size
    size_t first;            // stream whose turn is next
    int64_t budget;          // entries that the next reply may have
    int64_t streams;         // that the last reply had entries of
    int64_t count;           // entries of each stream that were asked for
    int64_t received_before; // bytes that the connection had received before
    bool release_memory;     // memory was taken since the last pause that malloc keeps
} stream_read_t;

// What the reply has brought so far.
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
    stream_look_t *states;    // of each stream, as it was last looked at; owned
    stream_read_t read;
    stream_reply_t reply;
    bool acks_unverified; // Redis may believe that the log has what it lacks
    bool retained;        // the limits were looked at since the last transaction
};

const char *auditor_queue_name(const auditor_t *a, size_t queue);
void stream_id_set(stream_id_t id, const char *text);

// Redis cannot do what we asked: no request before the back-off ends. Always false, for its callers to return.
bool auditor_back_off(auditor_t *a, const redis_error_t *error);

// Compares every cursor with its stream. False: not now. *found, where not NULL: one stream can no longer be read.
bool auditor_reconcile(auditor_t *a, bool *found);

#endif
