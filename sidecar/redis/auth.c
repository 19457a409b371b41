#include "redis/auth.h"

#include "base/log.h"
#include "redis/internal.h"
#include "redis/socket/socket.h"

enum { AUTH_RETRY_S = 5 }; // between attempts with a password that the server refuses

static const char ROLE[] = "redis";

char *auth_password(conn_t *conn, redis_error_t *error) {
    unsigned changes = topology_password_changes(shard_topology(conn->shard));
    char *password = conn->of_sentinel ? redis_sentinel_password(conn->redis, error) : redis_password(conn->redis, error);
    if (password) conn->password = (password_mark_t){password_tag(password), changes};
    return password;
}

bool auth_append(conn_t *conn, const char *password) {
    const char *username = conn->of_sentinel ? conn->redis->sentinel_username : conn->redis->username;
    if (!*password && !*username) return false; // a user may have no password; without AUTH it is the default user
    request_begin(conn, "AUTH");
    if (*username) request_text(conn, username);
    request_text(conn, password);
    request_end(conn);
    return true;
}

outcome_t auth_flush(conn_t *conn, redis_error_t *error) {
    outcome_t outcome = conn_flush(conn, error);
    if (conn->requests.data) explicit_bzero(conn->requests.data, conn->requests.cap);
    return outcome;
}

static bool auth_is_old(const conn_t *conn) {
    return conn_is_open(conn) && topology_password_is_old(shard_topology(conn->shard), &conn->password);
}

static void auth_report(conn_t *conn, const char *refusal) {
    condition_change_t change = topology_note_refusal(shard_topology(conn->shard), refusal);
    if (change == CONDITION_BEGAN)
        log_error(ROLE, NULL, "cannot authenticate with the new password; open connections keep the old one",
                  F_STR("reason", refusal));
    if (change == CONDITION_ENDED) log_info(ROLE, NULL, "redis accepts the new password");
}

// Sends AUTH with the password of the file. Redis leaves the user of the connection as it is when it refuses (redis src/acl.c,
// authCommand).
static outcome_t auth_send(conn_t *conn, redis_error_t *error) {
    assert(conn->in_flight == 0); // else the reply to another request would be taken for that to AUTH
    password_mark_t before = conn->password;
    char *password = auth_password(conn, error);
    if (password && auth_append(conn, password) && auth_flush(conn, error) == OUTCOME_OK) {
        redisReply *reply;
        conn_read(conn, 0, &reply, error);
        conn_reply_free(reply);
    }
    if (password) explicit_bzero(password, strlen(password));
    free(password);
    if (error->outcome != OUTCOME_OK) conn->password = before;
    return error->outcome;
}

outcome_t auth_renew(conn_t *conn, redis_error_t *error) {
    *error = (redis_error_t){0};
    if (!auth_is_old(conn) || !mono_reached(conn->auth_retry_at, mono_now())) return OUTCOME_OK;
    conn->auth_retry_at = mono_add(mono_now(), AUTH_RETRY_S * NS_PER_S);
    outcome_t outcome = auth_send(conn, error);
    if (outcome != OUTCOME_OK && outcome != OUTCOME_REFUSED) return outcome;
    if (!auth_is_old(conn)) conn->auth_retry_at = (mono_t){0};
    auth_report(conn, outcome == OUTCOME_OK ? NULL : error->text);
    *error = (redis_error_t){0};
    return OUTCOME_OK;
}

void auth_note_attempt(conn_t *conn, bool accepted) {
    conn->auth_retry_at = mono_add(mono_now(), AUTH_RETRY_S * NS_PER_S);
    if (accepted) auth_report(conn, NULL);
}

mono_t auth_renew_at(const conn_t *conn) { return auth_is_old(conn) ? conn->auth_retry_at : mono_never(); }

bool auth_is_outdated(const conn_t *data, const conn_t *subscriber) { return !auth_is_old(data) && auth_is_old(subscriber); }
