#include "redis/keepalive.h"

#include "redis/auth.h"
#include "redis/internal.h"

int64_t conn_keep_alive_ms(const conn_t *conn) { return shard_keepalive_ms(conn->shard); }

static mono_t keepalive_ping_at(const conn_t *conn) { return mono_add(conn->heard_at, conn_keep_alive_ms(conn) * NS_PER_MS); }

static void keepalive_append_ping(conn_t *conn) {
    request_append(conn, "PING");
    conn_expect_wait(conn);
}

outcome_t conn_keep_alive(conn_t *conn, redis_error_t *error) {
    struct redisReply *reply = NULL;
    *error = (redis_error_t){0};
    if (!conn_is_open(conn)) return OUTCOME_OK;
    assert(conn->in_flight == 0);
    // While no reply is awaited, the connection becomes readable only when the other side has closed it.
    outcome_t outcome = conn_try_read(conn, &reply, error);
    conn_reply_free(reply);
    if (outcome != OUTCOME_OK || auth_renew(conn, error) != OUTCOME_OK || !mono_reached(keepalive_ping_at(conn), mono_now()))
        return error->outcome;
    keepalive_append_ping(conn);
    outcome = conn_read(conn, 0, &reply, error);
    conn_reply_free(reply);
    if (outcome == OUTCOME_REFUSED) *error = (redis_error_t){0}; // a refusal is a sign of life, too
    return error->outcome;
}

static bool keepalive_awaits_reply(const conn_t *conn) { return conn->pinged_at.ns > conn->heard_at.ns; }

mono_t conn_keep_subscriber_alive_at(const conn_t *subscriber) {
    if (!conn_is_open(subscriber)) return mono_never();
    if (!keepalive_awaits_reply(subscriber)) return keepalive_ping_at(subscriber);
    return mono_add(subscriber->pinged_at, subscriber->timeout_ms * NS_PER_MS);
}

outcome_t conn_keep_subscriber_alive(conn_t *subscriber, redis_error_t *error) {
    mono_t now = mono_now();
    *error = (redis_error_t){0};
    if (!mono_reached(conn_keep_subscriber_alive_at(subscriber), now)) return OUTCOME_OK;
    if (keepalive_awaits_reply(subscriber)) return conn_lose(subscriber, error, ERROR_OTHER, "no reply to PING", "");
    keepalive_append_ping(subscriber);
    subscriber->pinged_at = now;
    return conn_flush(subscriber, error);
}

mono_t conn_keep_alive_at(const conn_t *conn) {
    return conn_is_open(conn) ? mono_min(keepalive_ping_at(conn), auth_renew_at(conn)) : mono_never();
}

bool conn_replace_blocked(conn_t **conn) {
    redis_error_t error;
    if (!mono_reached(auth_renew_at(*conn), mono_now())) return false;
    conn_t *fresh = conn_like(*conn, conn_name(*conn));
    bool opened = conn_open(fresh, &error) == OUTCOME_OK;
    auth_note_attempt(*conn, opened);
    conn_free(opened ? *conn : fresh);
    if (opened) *conn = fresh;
    return opened;
}
