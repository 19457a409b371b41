#include "redis/keepalive.h"

#include "redis/auth.h"
#include "redis/internal.h"

static mono_t keepalive_ping_at(const conn_t *conn) { return mono_add(conn->heard_at, KEEPALIVE_S * NS_PER_S); }

outcome_t conn_keep_alive(conn_t *conn, redis_error_t *error) {
    *error = (redis_error_t){0};
    if (!conn_is_open(conn)) return OUTCOME_OK;
    if (auth_renew(conn, error) != OUTCOME_OK || !mono_reached(keepalive_ping_at(conn), mono_now())) return error->outcome;
    assert(conn->in_flight == 0);
    request_begin(conn, "PING");
    if (request_ask(conn, NULL, error) == OUTCOME_REFUSED) *error = (redis_error_t){0}; // a refusal is a sign of life, too
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
    request_append(subscriber, "PING");
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
