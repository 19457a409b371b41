// The failure stream of each queue, seen by those who copy it: read, acknowledge, trim.
#ifndef QS_QUEUE_STREAM_H
#define QS_QUEUE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event.h"
#include "queue/conn.h"
#include "queue/keys.h"

enum { STREAM_ID_SIZE = 48 };

// Asks for entries behind positions[i] of every queue (texts, borrowed until the reply is read), at most `limit` of each, and
// waits up to `block_ms` in Redis until there are any (0 = does not wait). Sends it; the reply comes to conn_fd. One request for
// all.
void stream_read_append(conn_t *conn, const keyspace_t *keys, const char (*positions)[STREAM_ID_SIZE], int64_t limit,
                        int64_t block_ms);

// One entry; slices are borrowed from the reply. `event` has what could be read; entries of a stranger have no event.event.
typedef void stream_entry_fn(void *self, size_t queue, const char *id, const event_t *event);

// Reads the reply, if it has arrived (*arrived), and calls `entry` for each entry, by queue in the order of their ids.
outcome_t stream_read_take(conn_t *conn, const keyspace_t *keys, stream_entry_fn *entry, void *self, bool *arrived,
                           fault_t *fault);

// Where a stream begins and ends, to see what was lost or began anew.
typedef struct stream_look {
    bool exists;
    char first[STREAM_ID_SIZE];   // id of the oldest entry; "0-0" = none
    char last[STREAM_ID_SIZE];    // last id ever given; "0-0" = none
    char trimmed[STREAM_ID_SIZE]; // highest id that trim has removed; "0-0" = none
} stream_look_t;
outcome_t stream_look(conn_t *conn, const keyspace_t *keys, size_t queue, stream_look_t *out, fault_t *fault);

// Says that `instance` has everything of the queue up to `position`. Only upwards; notes Redis's time with it.
outcome_t stream_acknowledge(conn_t *conn, const keyspace_t *keys, size_t queue, const char *instance, const char *position,
                             fault_t *fault);

// Removes, fenced, what is older than stream.retain, beyond stream.min_records, and acknowledged by stream.min_copies auditors
// that were heard of within 24 h; forgets auditors not heard of for 7 days. *removed tells how many; *fenced: the lock is not
// ours.
outcome_t stream_trim(conn_t *conn, const keyspace_t *keys, size_t queue, const char *token, int64_t *removed, bool *fenced,
                      fault_t *fault);

#endif
