// Types that the files of a connection share.
#pragma once

#include <hiredis/hiredis.h>
#include <stdatomic.h>

#include "base/buffer.h"
#include "config/config.h"
#include "redis/error.h"
#include "redis/socket/channel.h"
#include "redis/socket/reply_guard.h"
#include "redis/topology.h"

typedef struct conn conn_t; // as in conn.h

struct conn {
    const redis_config_t *redis; // of the shard
    shard_t *shard;
    topology_t *own_topology; // of conn_new_at; owned; NULL = others share it
    bool of_sentinel;         // the server is a sentinel
    unsigned epoch;           // of the shard at the connect
    unsigned moves;           // of the shard that conn_take_move has reported
    const char *name;
    const atomic_bool *stop; // NULL = none
    endpoint_t address;
    int64_t timeout_ms;  // timeout of a connect, and of each reply
    mono_t deadline;     // of all waits
    channel_t *channel;  // NULL = closed
    redisReader *reader; // of the open channel
    bool counted;        // the shard counts the connection
    unsigned generation;
    int64_t received; // bytes
    int version;
    char server[64];
    mono_t server_since;
    bool script_flags; // the server takes scripts with their first line
    bool scripts_loaded;
    password_mark_t password; // that the connection has authenticated with
    mono_t auth_retry_at;     // no further AUTH before this
    mono_t heard_at;          // the last bytes came then
    mono_t pinged_at;         // of a subscribed connection: PING was sent
    bool failing;             // conn_report_failure has told of it
    mono_t failed_at;         // when it last did
    unsigned failed_generation;
    // Requests in wire format. The first `sent` bytes are sent. Requests up to `complete` are complete. The request under
    // construction follows, with room for its head.
    buffer_t requests;
    size_t sent;
    size_t complete;
    size_t last_request; // offset of the last complete request
    size_t in_flight;    // complete requests without a reply; a subscriber gets more replies than requests
    bool waits;          // these leave the connection idle
    int argc;
    size_t reader_peak; // the largest number of bytes that the reader has held since it was created
    reply_guard_t guard;
    flat_reply_t flat;
};

// The limit of a connect or of one reply; `timeout_ms` 0 = the connection's timeout.
time_limit_t conn_limit(const conn_t *conn, int timeout_ms);
void conn_start_reader(conn_t *conn); // for a new channel
// Closes the connection and sets *error. Always OUTCOME_DISCONNECTED. `detail` may be "".
outcome_t conn_lose(conn_t *conn, redis_error_t *error, redis_error_kind_t kind, const char *what, const char *detail);
