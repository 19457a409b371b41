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

// What is known of one stream.
typedef struct copy {
    stream_id_t at;   // read and on disk up to here, in this life of the stream
    stream_id_t kept; // the position in the log: what trim has removed above it this log never had
    bool held;        // it cannot be read
    bool behind;      // when it was last looked at or read it had entries above `at`
    int64_t spare;    // entries that it may grow by before some could be trimmed; negative = some could
    mono_t trim_at;   // not before this
} copy_t;

struct auditor {
    const keyspace_t *keys;
    leases_t *leases;
    metrics_t *metrics;
    const atomic_bool *stop;
    pen_t pen; // of the audit log
    conn_t *conn;
    char history[STREAM_HISTORY_SIZE]; // of the server that all positions are about
    backoff_t backoff;
    mono_t trouble_at; // when the latest trouble began
    mono_t retry_at;   // no request before this
    mono_t look_at;
    mono_t renew_at;
    marks_t marks; // of jobs put back
    copy_t *copies;
    stream_look_t *looks;
    stream_id_t *asks; // of the request being made
    bool flying;       // an XREAD is under way
    mono_t give_up;    // and its reply is overdue
    bool unsettled;    // since the log was opened it is not known what Redis believes to be in it
    bool turns;        // streams lie in slots of their own: one after the other
    bool alone;        // likewise, but only those that are behind, without a wait: nobody knows how large their entries are
    size_t turn;
    // The reply being read.
    stream_id_t *next; // where each stream ends in it; "" = nothing of it
    int64_t entries;
    int64_t bytes;
    int64_t added;
    int64_t oldest_ms; // age of the oldest that the log lacked
    bool spoilt;       // the log has refused one
    bool full;         // there may be more
    int64_t room;      // entries that the next reply may have
    int64_t streams;   // that the last one had entries of
    int64_t limit;     // entries of each, as it was asked for
    int64_t had;       // bytes that the connection had received before
    bool kept;         // since the last transaction the limits were looked at
    bool bulky;        // since the last pause memory was taken that is to be given back
    // Redis's clock: its ms at our time.
    int64_t redis_ms;
    mono_t redis_at;
};

const char *auditor_queue_name(const auditor_t *a, size_t queue);
void auditor_set_id(stream_id_t id, const char *text);

// Redis cannot do what we asked: waits before the next request. Always false, for its callers to return.
bool auditor_put_off(auditor_t *a, const fault_t *fault);

// Looks at all streams; false: not now. *found, where not NULL: one can no longer be read.
bool auditor_look(auditor_t *a, bool *found);

#endif
