// One connection to Redis or to a sentinel. One role owns it. Requests are pipelined: append any number, then read as many
// replies, in order.
//
// hiredis only parses the replies. Connecting, TLS, sending and waiting are ours: hiredis 0.14 has no TLS, 1.2 checks no host
// name, and both give a connection up when a blocking read times out. Here the socket never blocks, and poll() waits for each
// reply until a deadline. An I/O error or a timeout closes the connection, so a late reply cannot answer the next request.
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "config/config.h"
#include "redis/error.h"
#include "redis/script.h"
#include "redis/socket/channel.h"
#include "redis/topology.h"

struct redisReply;

typedef struct conn conn_t;

// A connection to the primary of `shard` (borrowed). CLIENT LIST shows `name` (borrowed). `stop` is borrowed and may be NULL.
// Once *stop is true, no wait lasts longer than STOP_GRACE_MS. Returns owned. The socket is not opened yet.
conn_t *conn_new(shard_t *shard, const char *name, const atomic_bool *stop);
// A connection to this one server, whatever the mode of `redis`, which is borrowed. Returns owned.
conn_t *conn_new_at(const redis_config_t *redis, const char *host, int port, const char *name, const atomic_bool *stop);
// The same to a sentinel, with TLS, user and password of the redis.sentinel_* settings. conn_connect opens it.
conn_t *conn_new_to_sentinel(const redis_config_t *redis, const address_t *sentinel, const char *name);
void conn_free(conn_t *conn); // NULL is fine

// Another connection to the same server, with the same stop and timeout. Returns owned.
conn_t *conn_like(const conn_t *conn, const char *name);

// Lowers the timeout of connects and replies to `ms`; never raises it.
void conn_limit_timeout(conn_t *conn, int ms);
// From now on no wait ends after `deadline`, or STOP_GRACE_MS after *stop.
void conn_limit_all(conn_t *conn, mono_t deadline, const atomic_bool *stop);

// Does the part of conn_open before the scripts: connects, authenticates, selects the database, names the client and reads the
// server's version.
outcome_t conn_connect(conn_t *conn, redis_error_t *error);
// Opens the connection: connects, authenticates, selects the database, names the client, reads the server's version and loads
// the scripts. Skips the steps that are done. Replaces a connection to a former primary. Call it only when no reply is
// outstanding.
outcome_t conn_open(conn_t *conn, redis_error_t *error);
void conn_close(conn_t *conn);
bool conn_is_open(const conn_t *conn); // false also when another server became the primary
int conn_fd(const conn_t *conn);       // -1 when closed
const char *conn_name(const conn_t *conn);
// 70015 for 7.0.15; for Valkey, the Redis version that Valkey is compatible with; 0 = unknown.
int conn_version(const conn_t *conn);
const char *conn_server(const conn_t *conn); // "redis 7.0.15" or "valkey 8.1.1"; "" before the first connect
// The time at which this process first reached the data of this server. An earlier answer may have come from another primary.
mono_t conn_server_since(const conn_t *conn);
const char *conn_tls_text(const conn_t *conn);          // "TLS 1.3"; "" = the connection is plain or closed
int64_t conn_certificate_end(const conn_t *conn);       // of the server, seconds since 1970; 0 = plain, closed or unknown
int64_t conn_own_certificate_end(const conn_t *conn);   // of the client; 0 = it has none
int64_t conn_first_certificate_end(const conn_t *conn); // the earlier of the two
const char *conn_target(const conn_t *conn);            // "127.0.0.1:6379" or the socket's path, for messages
unsigned conn_generation(const conn_t *conn);           // changes with every connect
bool conn_take_move(conn_t *conn);         // true once after another server became the primary: no reason to back off
int64_t conn_received(const conn_t *conn); // bytes since conn_new, incomplete replies included

// Builds one request and appends it to the pipeline. Arguments are copied. Each of these takes one argument or more, in the order
// of the request.
#define request_begin(conn, ...) request_begin_list(conn, LIST_OF(const char *, __VA_ARGS__)) // the command, then arguments
#define request_text(conn, ...)  request_text_list(conn, LIST_OF(const char *, __VA_ARGS__))
#define request_int(conn, ...)   request_int_list(conn, LIST_OF(int64_t, __VA_ARGS__))
const char *conn_script_sha1(const conn_t *conn, const script_t *script); // as the server has it
// EVALSHA; the first `keys` of the following arguments are KEYS.
void request_script(conn_t *conn, const script_t *script, int keys);
void request_bytes(conn_t *conn, const void *bytes, size_t len);
void request_end(conn_t *conn);
#define request_append(conn, ...) (request_begin(conn, __VA_ARGS__), request_end(conn)) // a whole request of texts
void request_repeat(conn_t *conn, size_t times); // appends the last complete request `times` more times

// An array of the arguments, and their number.
#define LIST_OF(type, ...) (type const[]){__VA_ARGS__}, sizeof((type const[]){__VA_ARGS__}) / sizeof(type)
void request_begin_list(conn_t *conn, const char *const *texts, size_t count);
void request_text_list(conn_t *conn, const char *const *texts, size_t count);
void request_int_list(conn_t *conn, const int64_t *numbers, size_t count);

// Sends the pipeline and waits for the next reply, at most `timeout_ms` (0 = the connection's timeout). On OUTCOME_OK *reply is
// owned (conn_reply_free) and is no error. redis_error_from_reply classifies error replies. READONLY and MASTERDOWN also close
// the connection and make the shard suspect, because another server may be the primary now.
outcome_t conn_read(conn_t *conn, int timeout_ms, struct redisReply **reply, redis_error_t *error);

// Reads the next of several replies; owned. NULL: an error. *worst keeps the worst error of all replies, behind `subject` and a
// colon unless `subject` is NULL. After the connection is lost, each further call returns NULL.
struct redisReply *conn_read_next(conn_t *conn, const char *subject, redis_error_t *worst);
// Like conn_read_next, for requests that stand alone: a refusal goes to *refusal, which is OUTCOME_OK otherwise, and not to
// *worst.
struct redisReply *conn_read_or_refusal(conn_t *conn, redis_error_t *refusal, redis_error_t *worst);
int64_t conn_read_int(conn_t *conn, const char *subject, redis_error_t *worst); // the next reply; 0 = an error

// A reply larger than MAX_REPLY (redis/socket/reply_guard.h) closes the connection. Only the next reply may be as large as
// MAX_JOB_REPLY, because it holds bytes of jobs.
void conn_expect_job(conn_t *conn);

// Until the last reply to the requests sent so far the connection counts as idle: they wait for news, or are of no use.
void conn_expect_wait(conn_t *conn);

// Like conn_expect_job, for a reply that is an array of very many parts: conn_flat has them, and *reply has none. Call it again
// until the reply has come.
void conn_expect_flat(conn_t *conn);
const struct flat_reply *conn_flat(const conn_t *conn); // valid until the next such reply
void conn_release_flat(conn_t *conn);                   // frees the memory of the last one
bool conn_reply_is_flat(const struct redisReply *reply);

// Like conn_read, without waiting. OUTCOME_OK with *reply == NULL: no reply has arrived.
outcome_t conn_try_read(conn_t *conn, struct redisReply **reply, redis_error_t *error);

// Sends the pipeline without waiting for a reply.
outcome_t conn_flush(conn_t *conn, redis_error_t *error);

void conn_reply_free(struct redisReply *reply); // NULL is fine

// request_end and conn_read in one, for a single request. `reply` may be NULL.
outcome_t request_ask(conn_t *conn, struct redisReply **reply, redis_error_t *error);
