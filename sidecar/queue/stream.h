// The failure stream of each queue, seen by those who copy it: read, acknowledge, trim.
#ifndef QS_QUEUE_STREAM_H
#define QS_QUEUE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"
#include "queue/call.h"

// Text of a stream id, "<ms>-<sequence>", each part up to 2^64 - 1; or "", where an argument says so: leave this queue out.
enum { STREAM_ID_SIZE = 48 };
typedef char stream_id_t[STREAM_ID_SIZE];
#define STREAM_ID_NONE "0-0"

// Like strcmp, by the numbers. A text that is no id counts as 0-0.
int stream_id_compare(const char *a, const char *b);
// The time in an id, ms since 1970; INT64_MAX when it is larger.
int64_t stream_id_ms(const char *id);

// A text that is another one as soon as the server may hold other data than it had: after a restart or a failover (INFO
// replication, master_replid).
enum { STREAM_HISTORY_SIZE = 48 };
outcome_t stream_history(conn_t *conn, char history[STREAM_HISTORY_SIZE], redis_error_t *error);

// Asks for entries behind positions[i] of every queue ("": not of this one; at least one must be given), at most `limit` of each,
// and waits up to `block_ms` in Redis until there are any (0 = does not wait). One request for all. conn_flush sends it; the
// reply comes to conn_fd.
void stream_read_append(conn_t *conn, const keyspace_t *keys, const stream_id_t *positions, int64_t limit, int64_t block_ms);

// One entry; slices are borrowed from the reply. `event` has what could be read; entries of a stranger have no event.event.
// `bytes` is the size of all its values.
typedef void stream_entry_fn(void *self, size_t queue, const char *id, const event_t *event, size_t bytes);

// Reads the reply, if it has arrived (*arrived), and calls `entry` for each entry, by queue in the order of their ids. Does not
// wait.
outcome_t stream_read_take(conn_t *conn, const keyspace_t *keys, stream_entry_fn *entry, void *self, bool *arrived,
                           redis_error_t *error);

// Where a stream begins and ends, to see what was lost or began anew.
typedef struct stream_read_ends {
    char error[160];     // why nothing is known of this queue; "" = the rest is good
    int64_t length;      // entries
    stream_id_t first;   // id of the oldest entry; "0-0" = none
    stream_id_t last;    // last id ever given; "0-0" = none
    stream_id_t trimmed; // highest id that trim has removed; "0-0" = none
    int64_t bytes;       // of all values, as they are counted
} stream_ends_t;
// Of every queue; out has room for all. One request, or one for each queue where all together are refused. *now_ms is Redis's.
outcome_t stream_read_ends(conn_t *conn, const keyspace_t *keys, stream_ends_t *out, int64_t *now_ms, redis_error_t *error);

// Says that `instance` has everything of each queue up to its position ("": not of this one). Only upwards; notes Redis's time
// with it. OUTCOME_REFUSED names one of the queues that failed; the others are acknowledged all the same.
outcome_t stream_acknowledge(conn_t *conn, const keyspace_t *keys, const char *instance, const stream_id_t *positions,
                             redis_error_t *error);

// Takes back what `instance` has acknowledged, of each queue where that is above its position in `above` (NULL: of every queue):
// the copy is gone. *removed counts queues. A key that cannot be read or written is passed over: nothing is trimmed by it either.
outcome_t stream_revoke_acks(conn_t *conn, const keyspace_t *keys, const char *instance, const stream_id_t *above,
                             int64_t *removed, redis_error_t *error);

enum {
    STREAM_TRIM_MOST = 1000,                 // entries that one call removes at the most
    STREAM_TRIM_BYTES = 2 * 1024 * 1024,     // and it ends once it has read so many
    STREAM_HEARD_MS = 24 * 3600 * 1000,      // an auditor silent for longer does not count
    STREAM_FORGET_MS = 7 * 24 * 3600 * 1000, // and is forgotten then
};

typedef struct stream_trimmed {
    int64_t removed; // entries
    int64_t left;
    int64_t wait_ms; // until the oldest entry is old enough; 0 = it is, or more can be removed; -1 = no entry is spare
} stream_trimmed_t;

// Bytes that a stream may hold before stream.min_records keeps nothing any more: half of stream.max_bytes.
int64_t stream_room(const keyspace_t *keys);

// Removes, fenced, what is older than stream.retain, beyond stream.min_records or stream_room, and acknowledged by
// stream.min_copies auditors that were heard of within 24 h, in bounded steps; forgets auditors not heard of for 7 days.
outcome_t stream_trim(const call_t *call, stream_trimmed_t *out);

#endif
