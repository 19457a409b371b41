#include "redis/conn.h"

#include <poll.h>
#include <sys/socket.h>

#include "redis/internal.h"
#include "redis/reply.h"

static const char TOO_LARGE[] = "reply is larger than any reply that was asked for";

enum { POLL_SLICE_MS = 100 };

conn_t *conn_new(shard_t *shard, const char *name, const atomic_bool *stop) {
    const redis_config_t *redis = shard_config(shard);
    conn_t *conn = mem_alloc(sizeof *conn);
    *conn = (conn_t){.redis = redis, .shard = shard, .name = name, .stop = stop, .timeout_ms = redis->timeout_ms};
    conn->epoch = shard_address(shard, &conn->address);
    return conn;
}

void conn_free(conn_t *conn) {
    if (!conn) return;
    conn_close(conn);
    free(conn);
}

void conn_expect_job(conn_t *conn) { conn->guard.most_bytes = MAX_JOB_REPLY; }

conn_t *conn_like(const conn_t *conn, const char *name) {
    conn_t *other = conn_new(conn->shard, name, conn->stop);
    other->timeout_ms = conn->timeout_ms;
    return other;
}

void conn_limit_timeout(conn_t *conn, int ms) {
    if (ms < conn->timeout_ms) conn->timeout_ms = ms;
}

void conn_close(conn_t *conn) {
    if (conn->context) redisFree(conn->context);
    conn->context = NULL;
    conn->scripts_loaded = false;
    buffer_free(&conn->requests);
    conn->sent = conn->complete = conn->reader_peak = 0;
}

static bool conn_is_current(const conn_t *conn) { return conn->epoch == shard_epoch(conn->shard); }
bool conn_is_open(const conn_t *conn) { return conn->context && conn_is_current(conn); }
int conn_fd(const conn_t *conn) { return conn->context ? conn->context->fd : -1; }
int conn_version(const conn_t *conn) { return conn->version; }
const char *conn_server(const conn_t *conn) { return conn->server; }
const char *conn_target(const conn_t *conn) { return conn->address.text; }
unsigned conn_generation(const conn_t *conn) { return conn->generation; }
int64_t conn_received(const conn_t *conn) { return conn->received; }

void conn_reply_free(struct redisReply *reply) {
    if (reply) freeReplyObject(reply);
}

static outcome_t conn_lose(conn_t *conn, redis_error_t *error, const char *what) {
    const char *detail = conn->context && conn->context->err ? conn->context->errstr : "";
    redis_error_set(error, OUTCOME_DISCONNECTED, "%s: %s%s%s", conn->address.text, what, *detail ? ": " : "", detail);
    conn_close(conn);
    return OUTCOME_DISCONNECTED;
}

// Waits until the socket is ready for `events`, the deadline has passed, the role must stop, or the primary has changed.
static outcome_t conn_wait(conn_t *conn, short events, mono_t deadline, redis_error_t *error) {
    bool stopping = false;
    for (;;) {
        mono_t now = mono_now();
        if (!stopping && conn->stop && atomic_load(conn->stop)) {
            stopping = true;
            deadline = mono_min(deadline, mono_add(now, CONN_STOP_GRACE_MS * NS_PER_MS));
        }
        if (mono_reached(deadline, now))
            return conn_lose(conn, error, stopping ? "no reply before the stop" : "no reply in time");
        if (!conn_is_current(conn)) return conn_lose(conn, error, "another server became the primary");
        int64_t left_ms = mono_diff(deadline, now) / NS_PER_MS + 1;
        struct pollfd ready = {.fd = conn->context->fd, .events = events};
        int count = poll(&ready, 1, left_ms < POLL_SLICE_MS ? (int)left_ms : POLL_SLICE_MS);
        if (count > 0) return OUTCOME_OK;
        if (count < 0 && errno != EINTR) return conn_lose(conn, error, "poll failed");
    }
}

static outcome_t conn_send_failed(conn_t *conn, redis_error_t *error) {
    char *what = mem_printf("cannot send: %s", strerror(errno));
    conn_lose(conn, error, what);
    free(what);
    return OUTCOME_DISCONNECTED;
}

static outcome_t conn_send_pending(conn_t *conn, mono_t deadline, redis_error_t *error) {
    while (conn->sent < conn->complete) {
        ssize_t count = send(conn->context->fd, conn->requests.data + conn->sent, conn->complete - conn->sent, MSG_NOSIGNAL);
        if (count > 0) conn->sent += (size_t)count;
        if (count >= 0 || errno == EINTR) continue;
        if (errno != EAGAIN) return conn_send_failed(conn, error);
        if (conn_wait(conn, POLLOUT, deadline, error) != OUTCOME_OK) return error->outcome;
    }
    if (conn->complete == 0) return OUTCOME_OK;
    conn->sent = conn->complete = 0;
    buffer_shrink(&conn->requests); // the next large request may be days away
    return OUTCOME_OK;
}

static mono_t conn_deadline(const conn_t *conn, int timeout_ms) {
    return mono_add(mono_now(), (timeout_ms ? timeout_ms : conn->timeout_ms) * NS_PER_MS);
}

outcome_t conn_flush(conn_t *conn, redis_error_t *error) {
    if (!conn->context) return conn_lose(conn, error, "not connected");
    return conn_send_pending(conn, conn_deadline(conn, 0), error);
}

// Frees the reply.
static outcome_t conn_read_error_reply(conn_t *conn, redisReply *reply, redis_error_t *error) {
    outcome_t outcome = redis_error_from_reply(error, reply->str, reply->len);
    freeReplyObject(reply);
    if (strncmp(error->text, "NOSCRIPT", 8) == 0) conn->scripts_loaded = false;
    if (strncmp(error->text, "READONLY", 8) == 0 || strncmp(error->text, "MASTERDOWN", 10) == 0) {
        shard_suspect(conn->shard, conn->epoch);
        conn_close(conn);
    }
    return outcome;
}

// hiredis keeps the buffer of the largest reply, so replace an idle reader that has grown.
static void conn_shrink_reader(conn_t *conn) {
    redisReader *reader = conn->context->reader;
    if (conn->reader_peak <= BUFFER_KEEP_BYTES || reader->len > reader->pos) return;
    redisReader *fresh = redisReaderCreate();
    if (!fresh) return;
    redisReaderFree(reader);
    conn->context->reader = fresh;
    conn->reader_peak = 0;
    guard_install(&conn->guard, fresh);
}

static outcome_t conn_receive(conn_t *conn, redis_error_t *error) {
    redisReader *reader = conn->context->reader;
    size_t had = reader->len;
    if (redisBufferRead(conn->context) != REDIS_OK) return conn_lose(conn, error, "connection lost");
    conn->received += (int64_t)(reader->len - had);
    if (!guard_receive(&conn->guard, reader, reader->len - had)) return conn_lose(conn, error, TOO_LARGE);
    if (reader->len > conn->reader_peak) conn->reader_peak = reader->len;
    return OUTCOME_OK;
}

// *found is NULL if no whole reply has arrived.
static outcome_t conn_parse(conn_t *conn, void **found, redis_error_t *error) {
    if (redisGetReplyFromReader(conn->context, found) != REDIS_OK)
        return conn_lose(conn, error, guard_is_exceeded(&conn->guard) ? TOO_LARGE : "broken reply");
    if (*found) guard_begin_reply(&conn->guard, conn->context->reader);
    return OUTCOME_OK;
}

outcome_t conn_try_read(conn_t *conn, struct redisReply **reply, redis_error_t *error) {
    void *found = NULL;
    *reply = NULL;
    *error = (redis_error_t){0};
    if (!conn->context) return conn_lose(conn, error, "not connected");
    if (conn_parse(conn, &found, error) != OUTCOME_OK) return error->outcome;
    if (!found && (conn_receive(conn, error) != OUTCOME_OK || conn_parse(conn, &found, error) != OUTCOME_OK))
        return error->outcome;
    if (found) conn_shrink_reader(conn);
    redisReply *got = found;
    if (got && got->type == REDIS_REPLY_ERROR) return conn_read_error_reply(conn, got, error);
    *reply = got;
    return OUTCOME_OK;
}

outcome_t conn_read(conn_t *conn, int timeout_ms, struct redisReply **reply, redis_error_t *error) {
    *reply = NULL;
    if (!conn->context) return conn_lose(conn, error, "not connected");
    mono_t deadline = conn_deadline(conn, timeout_ms);
    if (conn_send_pending(conn, deadline, error) != OUTCOME_OK) return error->outcome;
    for (;;) {
        outcome_t outcome = conn_try_read(conn, reply, error);
        if (outcome != OUTCOME_OK || *reply) return outcome;
        if (conn_wait(conn, POLLIN, deadline, error) != OUTCOME_OK) return error->outcome;
    }
}

redisReply *conn_read_next(conn_t *conn, const char *subject, redis_error_t *worst) {
    redisReply *reply;
    redis_error_t error;
    if (worst->outcome == OUTCOME_DISCONNECTED) return NULL;
    if (conn_read(conn, 0, &reply, &error) == OUTCOME_OK) return reply;
    if (error.outcome > worst->outcome)
        redis_error_set(worst, error.outcome, "%s%s%s", subject ? subject : "", subject ? ": " : "", error.text);
    return NULL;
}

redisReply *conn_read_or_refusal(conn_t *conn, redis_error_t *refusal, redis_error_t *worst) {
    redis_error_t error = {0};
    redisReply *reply = worst->outcome == OUTCOME_DISCONNECTED ? NULL : conn_read_next(conn, NULL, &error);
    bool refused = error.outcome == OUTCOME_REFUSED;
    *refusal = refused ? error : (redis_error_t){0};
    if (!refused && error.outcome > worst->outcome) *worst = error;
    return reply;
}

int64_t conn_read_int(conn_t *conn, const char *subject, redis_error_t *worst) {
    redisReply *reply = conn_read_next(conn, subject, worst);
    int64_t number = reply_int(reply);
    conn_reply_free(reply);
    return number;
}
