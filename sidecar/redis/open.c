// Opens a connection: the socket, the first requests (who we are, which server it is), and the scripts.

#include "redis/auth.h"
#include "redis/conn.h"
#include "redis/failure.h"
#include "redis/internal.h"
#include "redis/reply.h"
#include "redis/service/capability.h"
#include "redis/socket/socket.h"

enum { LOCATED_MS = 1000 }; // an answer of the sentinels that is good enough for a connect, which the next answer confirms

static const char UNKNOWN[] = "of an unknown version";

// Appends AUTH and SELECT if they are needed. Returns the number of these requests.
static int conn_append_login(conn_t *conn, const char *password) {
    int count = auth_append(conn, password);
    if (conn->redis->db && !conn->of_sentinel) {
        request_begin(conn, "SELECT");
        request_int(conn, conn->redis->db);
        request_end(conn);
        count++;
    }
    return count;
}

// Reads a reply that the connection can do without; *reply is NULL if the server refuses it. A refusal for lack of a login is an
// error.
static outcome_t conn_read_optional(conn_t *conn, capability_t capability, redisReply **reply, redis_error_t *error) {
    outcome_t outcome = conn_read(conn, 0, reply, error);
    if (outcome == OUTCOME_OK && !conn->of_sentinel) capability_accepted(capability);
    if (outcome != OUTCOME_REFUSED || error->kind == ERROR_NO_LOGIN) return outcome;
    if (!conn->of_sentinel) capability_refused(capability, error->text);
    *error = (redis_error_t){0};
    return OUTCOME_OK;
}

static void conn_note_server(conn_t *conn, const redisReply *info) {
    slice_t redis = reply_info(info, "redis_version:");
    slice_t valkey = reply_info(info, "valkey_version:");
    slice_t version = valkey.len ? valkey : redis;
    slice_t run_id = reply_info(info, "run_id:");
    char id[SERVER_ID_SIZE];
    int major = 0;
    int minor = 0;
    int patch = 0;
    if (sscanf(redis.data, "%d.%d.%d", &major, &minor, &patch) < 2) patch = 0;
    conn->version = major * 10000 + minor * 100 + patch;
    conn->script_flags =
        (conn->version == 0 || conn->version >= FIRST_VERSION_WITH_FLAGS) && !capability_is_refused(CAPABILITY_SCRIPT_FLAGS);
    snprintf(conn->server, sizeof conn->server, "%s %.*s", valkey.len ? "valkey" : "redis",
             version.len ? (int)version.len : (int)strlen(UNKNOWN), version.len ? version.data : UNKNOWN);
    snprintf(id, sizeof id, "%.*s", (int)run_id.len, run_id.data);
    conn->server_since = shard_note_server(conn->shard, conn->epoch, id);
}

// Reads the replies to CLIENT SETNAME and INFO.
static outcome_t conn_read_server(conn_t *conn, redis_error_t *error) {
    redisReply *named, *info;
    if (conn_read_optional(conn, CAPABILITY_CLIENT_NAME, &named, error) != OUTCOME_OK) return error->outcome;
    conn_reply_free(named);
    if (conn->of_sentinel) return OUTCOME_OK;
    if (conn_read_optional(conn, CAPABILITY_VERSION, &info, error) != OUTCOME_OK) return error->outcome;
    conn_note_server(conn, info);
    // Valkey names its mode otherwise. (valkey src/server.c, genValkeyInfoString)
    if (slice_is(reply_info(info, "redis_mode:"), "sentinel") || slice_is(reply_info(info, "server_mode:"), "sentinel"))
        redis_error_set(error, OUTCOME_REFUSED,
                        "this server is a sentinel, not Redis: set redis.sentinels and redis.master in place of the host");
    conn_reply_free(info);
    return error->outcome;
}

// Names the key of the config that a refused connect points at. `selects`: the refused request was SELECT.
static outcome_t conn_advise(const conn_t *conn, redis_error_t *error, bool selects) {
    const char *advice;
    if (error->outcome != OUTCOME_REFUSED || conn->of_sentinel) return error->outcome; // redis/sentinel/ask.c has other advice
    switch (error->kind) {
    case ERROR_NO_LOGIN: advice = "set redis.password_file"; break;
    case ERROR_WRONG_PASSWORD: advice = "see redis.username and redis.password_file"; break;
    case ERROR_NEEDLESS_PASSWORD: advice = "remove redis.password or redis.password_file"; break;
    case ERROR_DATABASE_NUMBER: advice = "see redis.db"; break;
    default:
        if (!selects) return error->outcome;
        advice = "remove redis.db";
    }
    return redis_error_reword(error, "%s; %s", error->text, advice);
}

static outcome_t conn_handshake(conn_t *conn, redis_error_t *error) {
    char *password = auth_password(conn, error);
    if (!password) return error->outcome;
    int count = conn_append_login(conn, password);
    request_append(conn, "CLIENT", "SETNAME", conn->name);
    if (!conn->of_sentinel) request_append(conn, "INFO", "server");
    explicit_bzero(password, strlen(password));
    free(password);
    if (auth_flush(conn, error) != OUTCOME_OK) return error->outcome;
    for (int i = 0; i < count; i++) {
        redisReply *reply;
        bool selects = conn->redis->db && i == count - 1;
        if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return conn_advise(conn, error, selects);
        freeReplyObject(reply);
    }
    return conn_read_server(conn, error) == OUTCOME_OK ? OUTCOME_OK : conn_advise(conn, error, false);
}

// *loaded is owned: for each script whether the server has it; NULL = the server refuses to tell.
static outcome_t conn_find_scripts(conn_t *conn, redisReply **loaded, redis_error_t *error) {
    request_begin(conn, "SCRIPT", "EXISTS");
    for (size_t i = 0; i < all_script_count; i++) request_text(conn, script_sha1(all_scripts[i], conn->script_flags));
    outcome_t outcome = request_ask(conn, loaded, error);
    if (outcome != OUTCOME_REFUSED) return outcome;
    *error = (redis_error_t){0};
    return OUTCOME_OK;
}

// The scripts are large, so send only those that are missing. *count is the number of scripts that the server has then.
static outcome_t conn_load_texts(conn_t *conn, size_t *count, redis_error_t *error) {
    redisReply *loaded;
    *count = 0;
    if (conn_find_scripts(conn, &loaded, error) != OUTCOME_OK) return error->outcome;
    for (size_t i = 0; i < all_script_count; i++) {
        size_t len;
        const char *text = script_text(all_scripts[i], conn->script_flags, &len);
        if (reply_int(reply_at(loaded, i))) continue;
        request_begin(conn, "SCRIPT", "LOAD");
        request_bytes(conn, text, len);
        request_end(conn);
    }
    for (size_t i = 0; i < all_script_count; i++) {
        bool first = error->outcome == OUTCOME_OK;
        bool missing = !reply_int(reply_at(loaded, i));
        redisReply *reply = missing ? conn_read_next(conn, NULL, error) : NULL;
        if (first && error->outcome != OUTCOME_OK) redis_error_reword(error, "%s (script %s)", error->text, all_scripts[i]->name);
        *count += !missing || reply;
        conn_reply_free(reply);
    }
    conn_reply_free(loaded);
    return error->outcome;
}

// Not every server tells its version, or knows the flags of the version that it tells. Without flags it refuses every script.
static outcome_t conn_load_without_flags(conn_t *conn, redis_error_t *error) {
    const redis_error_t refusal = *error;
    size_t count;
    *error = (redis_error_t){0};
    conn->script_flags = false;
    if (conn_load_texts(conn, &count, error) == OUTCOME_OK) capability_refused(CAPABILITY_SCRIPT_FLAGS, refusal.text);
    return error->outcome;
}

static outcome_t conn_load_scripts(conn_t *conn, redis_error_t *error) {
    assert(conn->in_flight == 0); // else the reply to another request would be taken for one to SCRIPT
    size_t count;
    outcome_t outcome = conn_load_texts(conn, &count, error);
    bool has_right = error->kind != ERROR_NO_RIGHT;
    if (outcome == OUTCOME_REFUSED && count == 0 && conn->script_flags && has_right)
        outcome = conn_load_without_flags(conn, error);
    conn->scripts_loaded = outcome == OUTCOME_OK;
    if (error->kind != ERROR_NO_COMMAND) return outcome;
    return redis_error_reword(error, "the server has no Lua scripts, which the sidecar needs: SCRIPT LOAD: %.160s", error->text);
}

// An answer of the sentinels from before the connect may be outdated: a primary that died, was replaced and came back accepts
// connections at its old address. So they must name it once more. (rule 1 of redis/sentinel/group.h)
static outcome_t conn_confirm(conn_t *conn, redis_error_t *error) {
    outcome_t outcome = shard_locate(conn->shard, mono_now(), conn->stop, error);
    if (outcome == OUTCOME_OK && !conn_is_open(conn))
        redis_error_set(error, OUTCOME_DISCONNECTED, "%s: another server became the primary", conn->address.text);
    if (error->outcome != OUTCOME_OK) conn_close(conn);
    return error->outcome;
}

static outcome_t conn_try_connect(conn_t *conn, redis_error_t *error) {
    conn_close(conn);
    mono_t recently = mono_add(mono_now(), -LOCATED_MS * NS_PER_MS);
    if (shard_locate(conn->shard, recently, conn->stop, error) != OUTCOME_OK) return error->outcome;
    conn->epoch = shard_address(conn->shard, &conn->address);
    time_limit_t limit = conn_limit(conn, 0);
    conn->channel =
        socket_open(conn->redis, &conn->address, conn->of_sentinel ? conn->redis->sentinel_tls : conn->redis->tls, &limit, error);
    if (!conn->channel) {
        topology_want_refresh(shard_topology(conn->shard));
        return error->outcome;
    }
    if (conn_confirm(conn, error) != OUTCOME_OK) return error->outcome;
    conn_start_reader(conn);
    conn->generation++;
    if (conn_handshake(conn, error) == OUTCOME_OK) return OUTCOME_OK;
    conn_close(conn); // other replies may still be in flight
    return error->outcome;
}

outcome_t conn_connect(conn_t *conn, redis_error_t *error) {
    *error = (redis_error_t){0};
    if (conn_is_open(conn)) return OUTCOME_OK;
    outcome_t outcome = conn_try_connect(conn, error);
    conn->counted = outcome == OUTCOME_OK;
    if (conn->counted) shard_connected(conn->shard, conn_first_certificate_end(conn));
    if (outcome != OUTCOME_OK) shard_connect_failed(conn->shard);
    return outcome;
}

outcome_t conn_open(conn_t *conn, redis_error_t *error) {
    if (conn_connect(conn, error) != OUTCOME_OK) return error->outcome;
    if (!conn->scripts_loaded && conn_load_scripts(conn, error) != OUTCOME_OK)
        conn_close(conn); // other replies may still be in flight
    else
        conn_report_success(conn);
    return error->outcome;
}
