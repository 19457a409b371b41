// The failure stream of each queue: read, acknowledge, trim.
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

// Reads a text that changes when the server may hold other data than before: after a restart or a failover (INFO replication,
// master_replid).
enum { STREAM_HISTORY_SIZE = 48 };
outcome_t stream_history(conn_t *conn, char history[STREAM_HISTORY_SIZE], redis_error_t *error);

// Asks for entries behind positions[i] of every queue ("": not of this one; at least one must be given), at most `limit` of each,
// and waits up to `block_ms` in Redis until there are any (0 = does not wait). One request for all. conn_flush sends it; the
// reply comes to conn_fd.
void stream_read_append(conn_t *conn, const keyspace_t *keys, const stream_id_t *positions, int64_t limit, int64_t block_ms);

// One entry; slices are borrowed from the reply. `event` has the fields that could be read; a foreign entry has no event.event.
// `bytes` is the size of all its values.
typedef void stream_entry_fn(void *self, size_t queue, const char *id, const event_t *event, size_t bytes);

// Reads the reply, if it has arrived (*arrived), and calls `entry` for each entry, by queue in the order of their ids. Does not
// wait.
outcome_t stream_read_take(conn_t *conn, const keyspace_t *keys, stream_entry_fn *entry, void *self, bool *arrived,
                           redis_error_t *error);

// Where a stream begins and ends.
typedef struct stream_read_ends {
    char error[160];     // why nothing is known of this queue; "" = the other fields are valid
    int64_t length;      // entries
    stream_id_t first;   // id of the oldest entry; "0-0" = none
    stream_id_t last;    // last id ever given; "0-0" = none
    stream_id_t trimmed; // highest id that trim has removed; "0-0" = none
    int64_t bytes;       // of all values, as they are counted
} stream_ends_t;
// Of every queue; out has room for all. One request, or one for each queue where all together are refused. *now_ms is Redis's.
outcome_t stream_read_ends(conn_t *conn, const keyspace_t *keys, stream_ends_t *out, int64_t *now_ms, redis_error_t *error);

// Records that `instance` has copied each queue up to its position ("": skip this queue). A position never goes down. Redis's
// time is stored with it. OUTCOME_REFUSED names one of the queues that failed; the others are acknowledged all the same.
outcome_t stream_acknowledge(conn_t *conn, const keyspace_t *keys, const char *instance, const stream_id_t *positions,
                             redis_error_t *error);

// Revokes acknowledgements of `instance` for records that its log no longer holds: of each queue where they are above the
// position in `above` (NULL: of every queue). *removed counts queues. Skips a key that cannot be read or written: it trims
// nothing either.
outcome_t stream_revoke_acks(conn_t *conn, const keyspace_t *keys, const char *instance, const stream_id_t *above,
                             int64_t *removed, redis_error_t *error);

enum {
    STREAM_TRIM_MOST = 1000,                 // entries that one call removes
    STREAM_TRIM_BYTES = 2 * 1024 * 1024,     // a call stops after it has read this many
    STREAM_HEARD_MS = 24 * 3600 * 1000,      // a longer silent auditor does not count
    STREAM_FORGET_MS = 7 * 24 * 3600 * 1000, // a longer silent auditor is removed
};

typedef struct stream_trimmed {
    int64_t removed; // entries
    int64_t left;
    int64_t wait_ms; // until the oldest entry is old enough; 0 = it is, or more can be removed; -1 = no entry is spare
} stream_trimmed_t;

// Above this many bytes stream.min_records is ignored: half of stream.max_bytes.
int64_t stream_room(const keyspace_t *keys);

// Removes, fenced, what is older than stream.retain, beyond stream.min_records or stream_room, and acknowledged by
// stream.min_copies auditors heard of within 24 h, in bounded steps; removes auditors not heard of for 7 days.
outcome_t stream_trim(const call_t *call, stream_trimmed_t *out);

#endif
