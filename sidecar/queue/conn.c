#include "queue/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "queue/conn_open.h"
#include "queue/reply.h"

enum { POLL_SLICE_MS = 100 };

struct conn {
    const redis_config_t *redis;
    const char *name;
    const atomic_bool *stop; // NULL = nobody stops this one
    char *target;            // owned, for messages
    int64_t timeout_ms;      // for a connect, and for each reply
    redisContext *context;   // NULL = closed
    unsigned generation;
    int64_t received; // bytes
    int version;
    char server[64];
    bool scripts_loaded;
    char sha[SCRIPT_COUNT][41];
    // The request under construction: bytes of all arguments, and the length of each.
    buffer_t bytes;
    size_t *lens;
    int argc;
    int capacity;
};

conn_t *conn_new(const redis_config_t *redis, const char *name, const atomic_bool *stop) {
    conn_t *conn = mem_alloc(sizeof *conn);
    *conn = (conn_t){.redis = redis, .name = name, .stop = stop, .timeout_ms = redis->timeout_ms};
    conn->target = *redis->socket ? mem_str(redis->socket) : mem_printf("%s:%lld", redis->host, (long long)redis->port);
    return conn;
}

void conn_free(conn_t *conn) {
    if (!conn) return;
    conn_close(conn);
    buffer_free(&conn->bytes);
    free(conn->lens);
    free(conn->target);
    free(conn);
}

conn_t *conn_like(const conn_t *conn, const char *name) {
    conn_t *other = conn_new(conn->redis, name, conn->stop);
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
}

bool conn_is_open(const conn_t *conn) { return conn->context != NULL; }
int conn_fd(const conn_t *conn) { return conn->context ? conn->context->fd : -1; }
int conn_version(const conn_t *conn) { return conn->version; }
const char *conn_server(const conn_t *conn) { return conn->server; }
const char *conn_target(const conn_t *conn) { return conn->target; }
unsigned conn_generation(const conn_t *conn) { return conn->generation; }
int64_t conn_received(const conn_t *conn) { return conn->received; }

void conn_reply_free(struct redisReply *reply) {
    if (reply) freeReplyObject(reply);
}

void request_begin(conn_t *conn, const char *command) {
    buffer_clear(&conn->bytes);
    conn->argc = 0;
    request_text(conn, command);
}

void request_script(conn_t *conn, script_id_t script, int keys) {
    request_begin(conn, "EVALSHA");
    request_text(conn, conn->sha[script]);
    request_int(conn, keys);
}

void request_bytes(conn_t *conn, const void *bytes, size_t len) {
    if (conn->argc == conn->capacity) {
        int capacity = conn->capacity ? conn->capacity * 2 : 16;
        size_t *lens = mem_array((size_t)capacity, sizeof *lens);
        if (conn->argc) memcpy(lens, conn->lens, (size_t)conn->argc * sizeof *lens);
        free(conn->lens);
        conn->lens = lens;
        conn->capacity = capacity;
    }
    buffer_add(&conn->bytes, bytes, len);
    conn->lens[conn->argc++] = len;
}

void request_text(conn_t *conn, const char *text) { request_bytes(conn, text, strlen(text)); }

void request_int(conn_t *conn, int64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    request_text(conn, text);
}

// The arguments of the request as hiredis takes them; owned, they point into conn->bytes.
static const char **arguments(const conn_t *conn) {
    const char **argv = mem_array((size_t)conn->argc, sizeof *argv);
    const char *at = buffer_text(&conn->bytes);
    for (int i = 0; i < conn->argc; i++) {
        argv[i] = at;
        at += conn->lens[i];
    }
    return argv;
}

void request_end(conn_t *conn) {
    if (!conn->context) return;
    const char **argv = arguments(conn);
    redisAppendCommandArgv(conn->context, conn->argc, argv, conn->lens);
    free(argv);
}

void request_repeat(conn_t *conn, size_t times) {
    if (!conn->context || times == 0) return;
    const char **argv = arguments(conn);
    char *one;
    long long len = redisFormatCommandArgv(&one, conn->argc, argv, conn->lens);
    buffer_t all = {0};
    for (size_t i = 0; len > 0 && i < times; i++) buffer_add(&all, one, (size_t)len);
    redisAppendFormattedCommand(conn->context, buffer_text(&all), all.len);
    buffer_free(&all);
    redisFreeCommand(one);
    free(argv);
}

static outcome_t lost(conn_t *conn, fault_t *fault, const char *what) {
    const char *detail = conn->context && conn->context->err ? conn->context->errstr : "";
    fault_set(fault, OUTCOME_LOST, "%s: %s%s%s", conn->target, what, *detail ? ": " : "", detail);
    conn_close(conn);
    return OUTCOME_LOST;
}

// Waits until the socket is ready for `events`, the deadline has passed, or the role is to stop.
static outcome_t await(conn_t *conn, short events, mono_t deadline, fault_t *fault) {
    bool stopping = false;
    for (;;) {
        mono_t now = mono_now();
        if (!stopping && conn->stop && atomic_load(conn->stop)) {
            stopping = true;
            deadline = mono_min(deadline, mono_add(now, CONN_STOP_GRACE_MS * NS_PER_MS));
        }
        if (mono_reached(deadline, now)) return lost(conn, fault, stopping ? "no reply before the stop" : "no reply in time");
        int64_t left_ms = mono_diff(deadline, now) / NS_PER_MS + 1;
        struct pollfd ready = {.fd = conn->context->fd, .events = events};
        int count = poll(&ready, 1, left_ms < POLL_SLICE_MS ? (int)left_ms : POLL_SLICE_MS);
        if (count > 0) return OUTCOME_OK;
        if (count < 0 && errno != EINTR) return lost(conn, fault, "poll failed");
    }
}

static outcome_t send_pending(conn_t *conn, mono_t deadline, fault_t *fault) {
    int done = 0;
    while (!done) {
        if (redisBufferWrite(conn->context, &done) != REDIS_OK) return lost(conn, fault, "cannot send");
        if (!done && await(conn, POLLOUT, deadline, fault) != OUTCOME_OK) return fault->outcome;
    }
    return OUTCOME_OK;
}

static mono_t deadline_in(const conn_t *conn, int timeout_ms) {
    return mono_add(mono_now(), (timeout_ms ? timeout_ms : conn->timeout_ms) * NS_PER_MS);
}

outcome_t conn_flush(conn_t *conn, fault_t *fault) {
    if (!conn->context) return lost(conn, fault, "not connected");
    return send_pending(conn, deadline_in(conn, 0), fault);
}

// Turns an error reply into an outcome; takes it.
static outcome_t judge(conn_t *conn, redisReply *reply, fault_t *fault) {
    outcome_t outcome = fault_from_error(fault, reply->str, reply->len);
    freeReplyObject(reply);
    if (strncmp(fault->text, "NOSCRIPT", 8) == 0) conn->scripts_loaded = false;
    if (strncmp(fault->text, "READONLY", 8) == 0 || strncmp(fault->text, "MASTERDOWN", 10) == 0) conn_close(conn);
    return outcome;
}

outcome_t conn_take(conn_t *conn, struct redisReply **reply, fault_t *fault) {
    void *found = NULL;
    *reply = NULL;
    *fault = (fault_t){0};
    if (!conn->context) return lost(conn, fault, "not connected");
    if (redisGetReplyFromReader(conn->context, &found) != REDIS_OK) return lost(conn, fault, "broken reply");
    if (!found) {
        size_t had = conn->context->reader->len;
        if (redisBufferRead(conn->context) != REDIS_OK) return lost(conn, fault, "connection lost");
        conn->received += (int64_t)(conn->context->reader->len - had);
        if (redisGetReplyFromReader(conn->context, &found) != REDIS_OK) return lost(conn, fault, "broken reply");
    }
    redisReply *got = found;
    if (got && got->type == REDIS_REPLY_ERROR) return judge(conn, got, fault);
    *reply = got;
    return OUTCOME_OK;
}

outcome_t conn_read(conn_t *conn, int timeout_ms, struct redisReply **reply, fault_t *fault) {
    *reply = NULL;
    if (!conn->context) return lost(conn, fault, "not connected");
    mono_t deadline = deadline_in(conn, timeout_ms);
    if (send_pending(conn, deadline, fault) != OUTCOME_OK) return fault->outcome;
    for (;;) {
        outcome_t outcome = conn_take(conn, reply, fault);
        if (outcome != OUTCOME_OK || *reply) return outcome;
        if (await(conn, POLLIN, deadline, fault) != OUTCOME_OK) return fault->outcome;
    }
}

outcome_t request_ask(conn_t *conn, struct redisReply **reply, fault_t *fault) {
    request_end(conn);
    return conn_read(conn, 0, reply, fault);
}

// Sends AUTH, SELECT and CLIENT SETNAME where they are needed; INFO tells what the server is.
static int append_handshake(conn_t *conn, const char *password) {
    int count = 2;
    if (*password || *conn->redis->username) { // a user may have no password; without AUTH we would be somebody else
        request_begin(conn, "AUTH");
        if (*conn->redis->username) request_text(conn, conn->redis->username);
        request_text(conn, password);
        request_end(conn);
        count++;
    }
    if (conn->redis->db) {
        request_begin(conn, "SELECT");
        request_int(conn, conn->redis->db);
        request_end(conn);
        count++;
    }
    request_begin(conn, "CLIENT");
    request_text(conn, "SETNAME");
    request_text(conn, conn->name);
    request_end(conn);
    request_begin(conn, "INFO");
    request_text(conn, "server");
    request_end(conn);
    return count;
}

// Reads "7.0.15" after `key` in the INFO text into `word`; false when the key is not there.
static bool info_word(const char *info, const char *key, char *word, size_t size) {
    const char *at = strstr(info, key);
    if (!at) return false;
    at += strlen(key);
    size_t len = strcspn(at, "\r\n");
    snprintf(word, size, "%.*s", (int)len, at);
    return true;
}

static void learn_version(conn_t *conn, const char *info) {
    char redis[24] = "";
    char valkey[24] = "";
    int major = 0;
    int minor = 0;
    int patch = 0;
    info_word(info, "redis_version:", redis, sizeof redis);
    if (sscanf(redis, "%d.%d.%d", &major, &minor, &patch) < 2) patch = 0;
    conn->version = major * 10000 + minor * 100 + patch;
    if (info_word(info, "valkey_version:", valkey, sizeof valkey))
        snprintf(conn->server, sizeof conn->server, "valkey %s", valkey);
    else
        snprintf(conn->server, sizeof conn->server, "redis %s", redis);
}

static outcome_t handshake(conn_t *conn, fault_t *fault) {
    char *password = conn_password(conn->redis, fault);
    if (!password) return fault->outcome;
    int count = append_handshake(conn, password);
    explicit_bzero(password, strlen(password));
    free(password);
    explicit_bzero(conn->bytes.data, conn->bytes.cap);
    for (int i = 0; i < count; i++) {
        redisReply *reply;
        if (conn_read(conn, 0, &reply, fault) != OUTCOME_OK) return fault->outcome;
        if (reply_is_text(reply)) learn_version(conn, reply_text(reply));
        freeReplyObject(reply);
    }
    return OUTCOME_OK;
}

static outcome_t load_scripts(conn_t *conn, fault_t *fault) {
    for (int i = 0; i < SCRIPT_COUNT; i++) {
        size_t len;
        const char *text = script_text((script_id_t)i, conn->version, &len);
        request_begin(conn, "SCRIPT");
        request_text(conn, "LOAD");
        request_bytes(conn, text, len);
        request_end(conn);
    }
    for (int i = 0; i < SCRIPT_COUNT; i++) {
        redisReply *reply;
        if (conn_read(conn, 0, &reply, fault) != OUTCOME_OK) return fault->outcome;
        if (reply_is_text(reply)) snprintf(conn->sha[i], sizeof conn->sha[i], "%s", reply_text(reply));
        freeReplyObject(reply);
    }
    conn->scripts_loaded = true;
    return OUTCOME_OK;
}

outcome_t conn_open(conn_t *conn, fault_t *fault) {
    *fault = (fault_t){0};
    if (!conn->context) {
        conn->context = conn_open_socket(conn->redis, conn->timeout_ms, conn->target, fault);
        if (!conn->context) return fault->outcome;
        conn->generation++;
        if (handshake(conn, fault) != OUTCOME_OK) goto fail;
    }
    if (!conn->scripts_loaded && load_scripts(conn, fault) != OUTCOME_OK) goto fail;
    return OUTCOME_OK;
fail:
    // Other replies may still be under way, so nothing can be said on this connection any more.
    conn_close(conn);
    return fault->outcome;
}
