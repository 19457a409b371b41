// Requests in Redis's wire format (RESP2).

#include "redis/conn.h"
#include "redis/internal.h"
#include "redis/reply.h"

enum { REQUEST_HEAD_MAX = 16 }; // bytes of "*<arguments>\r\n"

void request_begin_list(conn_t *conn, const char *const *texts, size_t count) {
    static const char head[REQUEST_HEAD_MAX];
    conn->requests.len = conn->complete;
    buffer_add(&conn->requests, head, sizeof head);
    conn->argc = 0;
    request_text_list(conn, texts, count);
}

const char *script_text(const script_t *script, bool flags, size_t *len) {
    size_t skip = flags ? 0 : script->first_line_len;
    *len = script->len - skip;
    return script->text + skip;
}

const char *script_sha1(const script_t *script, bool flags) { return flags ? script->sha1 : script->sha1_without_flags; }

const char *conn_script_sha1(const conn_t *conn, const script_t *script) { return script_sha1(script, conn->script_flags); }

void request_script(conn_t *conn, const script_t *script, int keys) {
    request_begin(conn, "EVALSHA", conn_script_sha1(conn, script));
    request_int(conn, keys);
}

void request_bytes(conn_t *conn, const void *bytes, size_t len) {
    char head[32];
    char *at = head + sizeof head;
    *--at = '\n';
    *--at = '\r';
    size_t left = len;
    do *--at = (char)('0' + left % 10);
    while (left /= 10);
    *--at = '$';
    buffer_add(&conn->requests, at, (size_t)(head + sizeof head - at));
    buffer_add(&conn->requests, bytes, len);
    buffer_add(&conn->requests, "\r\n", 2);
    conn->argc++;
}

void request_text_list(conn_t *conn, const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++) request_bytes(conn, texts[i], strlen(texts[i]));
}

void request_int_list(conn_t *conn, const int64_t *numbers, size_t count) {
    char text[24];
    for (size_t i = 0; i < count; i++)
        request_bytes(conn, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)numbers[i]));
}

// The head needs the argument count, so it is written last, into the room before the arguments.
void request_end(conn_t *conn) {
    char head[REQUEST_HEAD_MAX];
    if (!conn->channel) {
        conn->requests.len = conn->complete;
        return;
    }
    size_t len = (size_t)snprintf(head, sizeof head, "*%d\r\n", conn->argc);
    char *at = conn->requests.data + conn->complete;
    assert(conn->requests.len >= conn->complete + REQUEST_HEAD_MAX);
    memmove(at + len, at + REQUEST_HEAD_MAX, conn->requests.len - conn->complete - REQUEST_HEAD_MAX);
    memcpy(at, head, len);
    conn->requests.len -= REQUEST_HEAD_MAX - len;
    conn->last_request = conn->complete;
    conn->complete = conn->requests.len;
    conn->in_flight++;
}

void request_repeat(conn_t *conn, size_t times) {
    if (!conn->channel || times == 0) return;
    buffer_t one = {0};
    buffer_add(&one, conn->requests.data + conn->last_request, conn->complete - conn->last_request);
    for (size_t i = 0; i < times; i++) buffer_add(&conn->requests, one.data, one.len);
    conn->complete = conn->requests.len;
    conn->in_flight += times;
    buffer_free(&one);
}

outcome_t request_ask(conn_t *conn, struct redisReply **reply, redis_error_t *error) {
    redisReply *ignored;
    request_end(conn);
    outcome_t outcome = conn_read(conn, 0, reply ? reply : &ignored, error);
    if (!reply) conn_reply_free(ignored);
    return outcome;
}
