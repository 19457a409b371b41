// The failure stream of each queue: read, acknowledge, trim.
#pragma once

#include "model/event.h"
#include "queue/call.h"

// Text of a stream id, "<ms>-<sequence>". Each part is at most 2^64 - 1. Some arguments allow "": skip this queue.
enum { STREAM_ID_SIZE = 42 };
typedef char stream_id_t[STREAM_ID_SIZE];
#define STREAM_ID_NONE "0-0"
#define STREAM_ID_MAX  "18446744073709551615-18446744073709551615"

// Like strcmp, but compares the numbers. A text that is not an id counts as 0-0.
int stream_id_compare(const char *a, const char *b);
// The time in an id, ms since 1970; INT64_MAX when it is larger.
int64_t stream_id_ms(const char *id);

// Requests the entries behind positions[i] of each queue, at most `limit` of each. "" skips the queue; at least one position
// must be set. Redis waits up to `block_ms` for an entry (0 = does not wait). One request serves all queues. conn_flush sends
// the request. conn_fd becomes readable when the reply comes.
void stream_read_append(conn_t *conn, const keyspace_t *keys, const stream_id_t *positions, int64_t limit, int64_t block_ms);

// One entry. Slices are borrowed from the reply. `event` has the readable fields; an entry that is not a record has no
// event.event. `bytes` is the size of all values.
typedef void stream_entry_fn(void *self, size_t queue, const char *id, const event_t *event, size_t bytes);

// Reads the reply. `arrived` NULL: waits for the reply. Otherwise does not wait; *arrived is false if the reply has not come yet.
outcome_t stream_read_reply(conn_t *conn, bool *arrived, redis_error_t *error);
// Calls `call` for the id of each entry of the reply. *bytes: of all texts of the reply.
typedef void stream_id_fn(void *self, size_t queue, const char *id);
outcome_t stream_read_ids(conn_t *conn, const keyspace_t *keys, stream_id_fn *call, void *self, int64_t *bytes,
                          redis_error_t *error);
// Calls `entry` for each entry of the reply, queue by queue in the order of the ids.
void stream_read_each(conn_t *conn, const keyspace_t *keys, stream_entry_fn *entry, void *self);

// Receives a reply and calls `entry` for each of its entries.
outcome_t stream_read_take(conn_t *conn, const keyspace_t *keys, stream_entry_fn *entry, void *self, bool *arrived,
                           redis_error_t *error);

// Further parts of a stream for stream_read_ends. Redis gives an entry only as a whole, so each costs its bytes.
typedef struct stream_wanted {
    stream_id_t event_of; // an entry whose event id is wanted; "" = none
    stream_id_t after;    // the first id is wanted if the last one is above this; "" = in any case
} stream_wanted_t;

// The first and the last id of a stream.
typedef struct stream_ends {
    char *error; // why the stream could not be read; NULL = the other fields are valid. Owned
    redis_error_kind_t error_kind;
    int64_t length;      // entries
    stream_id_t first;   // id of the oldest entry; "0-0" = none, or not wanted
    stream_id_t last;    // last id ever given; "0-0" = none
    stream_id_t trimmed; // highest id that trim has removed; "0-0" = none
    int64_t bytes;       // bytes of all values, as the scripts count them
    // Event id of the wanted entry; STREAM_NO_EVENT = the entry has none; "" = no such entry.
    char event[EVENT_ID_SIZE];
} stream_ends_t;
#define STREAM_NO_EVENT "-"
void stream_ends_free(stream_ends_t *ends, size_t count); // with the array

// Reads the ends of every queue's stream. `out` has room for all queues, and was zero before the first read. `wanted` of all
// queues; NULL = no first id, and no event. One request serves all queues, unless the entries that it reads are large. If Redis
// refuses this request, each queue gets a request of its own. *now_ms is Redis's time.
outcome_t stream_read_ends(conn_t *conn, const keyspace_t *keys, const stream_wanted_t *wanted, stream_ends_t *out,
                           int64_t *now_ms, redis_error_t *error);
// The same for `count` queues from call->queue on. `wanted` and `out` are those of all queues.
outcome_t stream_read_some_ends(const call_t *call, size_t count, const stream_wanted_t *wanted, stream_ends_t *out,
                                int64_t *now_ms);

// Reads `trimmed` and `bytes` of the stream of each queue i whose wanted[i] is not "" into out[i]. Skips a key that Redis refuses
// to read.
outcome_t stream_read_counts(conn_t *conn, const keyspace_t *keys, const stream_id_t *wanted, stream_ends_t *out,
                             redis_error_t *error);

// Stores the position up to which `instance` has copied each stream, with Redis's time. "" skips the queue. A stored position
// goes down only if it is above the last id of the stream, because another stream began in its place. OUTCOME_REFUSED names one
// of the queues that failed. The other queues are acknowledged nevertheless.
outcome_t stream_acknowledge(conn_t *conn, const keyspace_t *keys, const char *instance, const stream_id_t *positions,
                             redis_error_t *error);

// Revokes acknowledgements of `instance` for records that its log has lost: in each queue whose acknowledgement is above its
// position in `above` (NULL: in every queue). *removed counts the queues. Skips a key that Redis refuses to read or write. A
// trim cannot use such a key either.
outcome_t stream_revoke_acks(conn_t *conn, const keyspace_t *keys, const char *instance, const stream_id_t *above,
                             int64_t *removed, redis_error_t *error);

enum {
    STREAM_TRIM_FIRST = 32,             // the first call removes at most this many entries: their time is unknown
    STREAM_TRIM_MAX = 256,              // a later one at most this many
    STREAM_TRIM_BYTES = 128 * 1024,     // a call stops after it has read about this many bytes
    STREAM_HEARD_MS = 24 * 3600 * 1000, // an auditor that is silent for longer does not count, and is removed
};

typedef struct stream_trimmed {
    int64_t removed;  // entries
    int64_t early;    // of these: younger than stream.retain
    int64_t left;     // entries
    int64_t bytes;    // of the values of these, as the scripts count them
    int64_t took_us;  // time of Redis
    int64_t fixed_us; // of this: without the entries
    bool crowded;     // another call is to remove auditors
    // Time until the oldest entry is older than stream.retain; 0 = it is, or the stream is above `room`; -1 = the stream is too
    // short to remove an entry.
    int64_t wait_ms;
} stream_trimmed_t;

// Half of stream.max_bytes. When a stream has more bytes, the leader trims it to stream_room_low. That trim ignores stream.retain
// and stream.min_records, but removes no record that fewer than stream.min_copies logs have. So only such records fill a stream.
int64_t stream_room(const keyspace_t *keys);
// Lower than stream_room by enough that a stream which stays there is not trimmed at every record.
int64_t stream_room_low(const keyspace_t *keys);

// Removes at most `most` of the oldest entries; fenced. Each of them is acknowledged by stream.min_copies auditors that wrote
// within 24 h. Each is older than stream.retain and not among the last stream.min_records, unless the stream is above `room`
// bytes. Also removes auditors that are silent for a day, and of too many those that are silent for longest.
outcome_t stream_trim(const call_t *call, int64_t room, int64_t most, stream_trimmed_t *out);
