// One connection to Redis, owned by one role. Requests are pipelined: append any number, then read as many replies, in order.
//
// The socket never blocks: a reply is awaited in poll() with a deadline of its own, because hiredis drops a context for good when
// one of its own blocking reads times out. After a lost connection or a timeout the connection is closed, so that a late reply
// cannot answer the next request.
#ifndef QS_REDIS_CONN_H
#define QS_REDIS_CONN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "config/config.h"
#include "redis/error.h"
#include "redis/script.h"

struct redisReply;

typedef struct conn conn_t;

// `redis` is borrowed for the connection's life. `name` (borrowed) is what CLIENT LIST shows. `stop` (borrowed, may be NULL):
// once it is true, no wait lasts longer than CONN_STOP_GRACE_MS. Returns owned; nothing is opened yet.
conn_t *conn_new(const redis_config_t *redis, const char *name, const atomic_bool *stop);
void conn_free(conn_t *conn); // takes; NULL is fine

// Another connection to the same server, with the same stop and timeout. Returns owned.
conn_t *conn_like(const conn_t *conn, const char *name);

// From now on a connect or a reply may take at most `ms`, and at most the configured timeout.
void conn_limit_timeout(conn_t *conn, int ms);

enum { CONN_STOP_GRACE_MS = 500 };

// Connects, authenticates, selects the database, names the client, reads the server's version and loads the scripts. Does nothing
// when all that is done. Call it only when no reply is awaited.
outcome_t conn_open(conn_t *conn, redis_error_t *error);
void conn_close(conn_t *conn);
bool conn_is_open(const conn_t *conn);
int conn_fd(const conn_t *conn);              // -1 when closed
int conn_version(const conn_t *conn);         // 70015 for 7.0.15; of the Redis that a Valkey is compatible with; 0 when unknown
const char *conn_server(const conn_t *conn);  // "redis 7.0.15" or "valkey 8.1.1"; "" when unknown
const char *conn_target(const conn_t *conn);  // "127.0.0.1:6379" or the socket's path, for messages
unsigned conn_generation(const conn_t *conn); // changes with every connect
int64_t conn_received(const conn_t *conn);    // bytes, ever; also those of a reply that is not complete

// Builds one request and appends it to what will be sent. Arguments are copied.
void request_begin(conn_t *conn, const char *command);
void request_script(conn_t *conn, const script_t *script, int keys); // EVALSHA; `keys` of the arguments that follow are KEYS
void request_bytes(conn_t *conn, const void *bytes, size_t len);
void request_text(conn_t *conn, const char *text);
void request_int(conn_t *conn, int64_t number);
void request_end(conn_t *conn);
void request_repeat(conn_t *conn, size_t times); // appends the request that was ended last so many times more

// Sends what was appended and waits for the next reply, at most `timeout_ms` (0 = the connection's timeout). On OUTCOME_OK *reply
// is owned (conn_reply_free) and no error. An error reply is judged by redis_error_from_reply. READONLY and MASTERDOWN also close
// the connection: the name may lead to the new primary by now.
outcome_t conn_read(conn_t *conn, int timeout_ms, struct redisReply **reply, redis_error_t *error);

// Takes a reply that has arrived already, without waiting. OUTCOME_OK with *reply == NULL: there is none.
outcome_t conn_try_read(conn_t *conn, struct redisReply **reply, redis_error_t *error);

// Sends what was appended without waiting for a reply.
outcome_t conn_flush(conn_t *conn, redis_error_t *error);

void conn_reply_free(struct redisReply *reply); // NULL is fine

// request_end and conn_read in one, for a request that stands alone.
outcome_t request_ask(conn_t *conn, struct redisReply **reply, redis_error_t *error);

#endif
