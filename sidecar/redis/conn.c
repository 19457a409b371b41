#include "redis/conn.h"

#include "redis/failure.h"
#include "redis/internal.h"
#include "redis/reply.h"

static const char TOO_LARGE[] = "reply is larger than any reply that was asked for";

enum {
    RECEIVE_BYTES = TLS_RECORD_MAX,
    SLOW_MS = 500,
    SENTINEL_PONG_MS = 5000, // an ask has a shorter limit of its own
};

conn_t *conn_new(shard_t *shard, const char *name, const atomic_bool *stop) {
    const redis_config_t *redis = shard_config(shard);
    conn_t *conn = mem_alloc(sizeof *conn);
    *conn = (conn_t){.redis = redis, .shard = shard, .name = name, .stop = stop, .timeout_ms = redis->timeout_ms};
    conn->deadline = mono_never();
    conn->epoch = shard_address(shard, &conn->address);
    return conn;
}

conn_t *conn_new_at(const redis_config_t *redis, const char *host, int port, const char *name, const atomic_bool *stop) {
    topology_t *topology = topology_new_at(redis, host, port);
    conn_t *conn = conn_new(topology_shard(topology, 0), name, stop);
    conn->own_topology = topology;
    return conn;
}

conn_t *conn_new_to_sentinel(const redis_config_t *redis, const address_t *sentinel, const char *name) {
    conn_t *conn = conn_new_at(redis, sentinel->host, sentinel->port, name, NULL);
    conn->of_sentinel = true;
    conn->timeout_ms = SENTINEL_PONG_MS;
    return conn;
}

void conn_free(conn_t *conn) {
    if (!conn) return;
    conn_forget_failure(conn);
    conn_close(conn);
    conn_release_flat(conn);
    topology_free(conn->own_topology);
    free(conn);
}

void conn_expect_job(conn_t *conn) { conn->guard.most_bytes = MAX_JOB_REPLY; }

void conn_expect_wait(conn_t *conn) { conn->waits = true; }

void conn_expect_flat(conn_t *conn) {
    conn_expect_job(conn);
    conn->guard.flat = &conn->flat;
}

const flat_reply_t *conn_flat(const conn_t *conn) { return &conn->flat; }
void conn_release_flat(conn_t *conn) { flat_reply_free(&conn->flat); }
bool conn_reply_is_flat(const redisReply *reply) { return reply && guard_is_flat(reply); }

conn_t *conn_like(const conn_t *conn, const char *name) {
    conn_t *other = conn_new(conn->shard, name, conn->stop);
    other->timeout_ms = conn->timeout_ms;
    return other;
}

void conn_limit_timeout(conn_t *conn, int ms) {
    if (ms < conn->timeout_ms) conn->timeout_ms = ms;
}

void conn_limit_all(conn_t *conn, mono_t deadline, const atomic_bool *stop) {
    conn->deadline = deadline;
    conn->stop = stop;
}

void conn_close(conn_t *conn) {
    if (conn->counted) shard_disconnected(conn->shard);
    conn->counted = false;
    channel_free(conn->channel);
    if (conn->reader) redisReaderFree(conn->reader);
    conn->channel = NULL;
    conn->reader = NULL;
    conn->scripts_loaded = conn->waits = false;
    buffer_free(&conn->requests);
    conn->sent = conn->complete = conn->in_flight = conn->reader_peak = 0;
}

static bool conn_is_current(const conn_t *conn) { return conn->epoch == shard_epoch(conn->shard); }
bool conn_is_open(const conn_t *conn) { return conn->channel && conn_is_current(conn); }
int conn_fd(const conn_t *conn) { return conn->channel ? channel_fd(conn->channel) : -1; }
const char *conn_name(const conn_t *conn) { return conn->name; }
int conn_version(const conn_t *conn) { return conn->version; }
const char *conn_server(const conn_t *conn) { return conn->server; }
mono_t conn_server_since(const conn_t *conn) { return conn->server_since; }
const char *conn_target(const conn_t *conn) { return conn->address.text; }

static const tls_t *conn_tls(const conn_t *conn) { return conn->channel ? channel_tls(conn->channel) : NULL; }

const char *conn_tls_text(const conn_t *conn) { return tls_version(conn_tls(conn)); }
int64_t conn_certificate_end(const conn_t *conn) { return tls_certificate_end(conn_tls(conn)); }
int64_t conn_own_certificate_end(const conn_t *conn) { return tls_client_end(conn_tls(conn)); }
int64_t conn_first_certificate_end(const conn_t *conn) { return tls_first_end(conn_tls(conn)); }

unsigned conn_generation(const conn_t *conn) { return conn->generation; }

bool conn_take_move(conn_t *conn) {
    bool moved = conn->moves != shard_moves(conn->shard);
    conn->moves = shard_moves(conn->shard);
    return moved;
}

int64_t conn_received(const conn_t *conn) { return conn->received; }

void conn_reply_free(struct redisReply *reply) {
    if (reply && !guard_is_flat(reply)) freeReplyObject(reply);
}

outcome_t conn_lose(conn_t *conn, redis_error_t *error, redis_error_kind_t kind, const char *what, const char *detail) {
    redis_error_set_kind(error, OUTCOME_DISCONNECTED, kind, "%s%s%s", what, *detail ? ": " : "", detail);
    redis_error_add_address(error, conn->address.text);
    conn_close(conn);
    topology_want_refresh(shard_topology(conn->shard));
    return OUTCOME_DISCONNECTED;
}

// Servers and balancers close idle connections, none before a second.
static bool conn_was_idle(const conn_t *conn) {
    return (conn->in_flight == 0 || conn->waits) && mono_diff(mono_now(), conn->heard_at) >= NS_PER_S;
}

static outcome_t conn_lose_channel(conn_t *conn, redis_error_t *error, const char *what) {
    return conn_lose(conn, error, conn_was_idle(conn) ? ERROR_IDLE : ERROR_OTHER, what, channel_reason(conn->channel));
}

time_limit_t conn_limit(const conn_t *conn, int timeout_ms) {
    mono_t deadline = mono_add(mono_now(), (timeout_ms ? timeout_ms : conn->timeout_ms) * NS_PER_MS);
    return (time_limit_t){
        .deadline = mono_min(deadline, conn->deadline),
        .stop = conn->stop,
        .epoch = shard_epoch_place(conn->shard),
        .current_epoch = conn->epoch,
    };
}

// A server that is slow may be frozen, and another one the primary. So the watcher asks early.
static outcome_t conn_wait(conn_t *conn, time_limit_t *limit, redis_error_t *error) {
    time_limit_t slow = *limit;
    slow.deadline = mono_min(limit->deadline, mono_add(mono_now(), SLOW_MS * NS_PER_MS));
    wait_result_t result = channel_wait(conn->channel, &slow);
    if (result == WAIT_TIMEOUT) {
        topology_want_refresh(shard_topology(conn->shard));
        result = channel_wait(conn->channel, limit);
    }
    return result == WAIT_READY ? OUTCOME_OK : conn_lose(conn, error, wait_kind(result), wait_text(result), "");
}

// A former primary must get no more requests. If the watcher has not looked in time, this process was frozen and may have missed
// an event: then ask first. Sentinels that do not answer change nothing.
static bool conn_may_send(conn_t *conn) {
    redis_error_t ignored;
    mono_t now = mono_now();
    if (topology_is_unwatched(shard_topology(conn->shard), now)) shard_locate(conn->shard, now, conn->stop, &ignored);
    return conn_is_current(conn);
}

static outcome_t conn_send_pending(conn_t *conn, time_limit_t limit, redis_error_t *error) {
    if (conn->sent < conn->complete && !conn_may_send(conn))
        return conn_lose(conn, error, ERROR_OTHER, wait_text(WAIT_MOVED), "");
    assert(conn->complete <= conn->requests.len && conn->sent <= conn->complete);
    while (conn->sent < conn->complete) {
        size_t count = 0;
        channel_state_t state =
            channel_send(conn->channel, conn->requests.data + conn->sent, conn->complete - conn->sent, &count);
        if (state == CHANNEL_LOST) return conn_lose_channel(conn, error, "cannot send");
        if (state == CHANNEL_WAIT && conn_wait(conn, &limit, error) != OUTCOME_OK) return error->outcome;
        conn->sent += count;
    }
    if (conn->complete == 0) return OUTCOME_OK;
    conn->sent = conn->complete = 0;
    buffer_shrink(&conn->requests); // the next large request may be days away
    return OUTCOME_OK;
}

outcome_t conn_flush(conn_t *conn, redis_error_t *error) {
    if (!conn->channel) return conn_lose(conn, error, ERROR_OTHER, "not connected", "");
    return conn_send_pending(conn, conn_limit(conn, 0), error);
}

// In a Cluster these errors concern the one slot of the request, and nothing was written.
static void conn_note_redirection(conn_t *conn, const redisReply *reply, redis_error_t *error) {
    topology_t *topology = shard_topology(conn->shard);
    redirection_t to;
    switch (error->kind) {
    case ERROR_MOVED:
        if (!redirection_read((slice_t){reply->str, reply->len}, conn->address.host, &to)) return;
        topology_slot_moved(topology, to.slot, &to.address);
        redis_error_set_kind(error, OUTCOME_REFUSED, ERROR_SLOT_HAS_MOVED, "its slot has moved: %s", error->text);
        return;
    case ERROR_ASK:
    case ERROR_TRY_AGAIN:
        redis_error_set_kind(error, OUTCOME_REFUSED, ERROR_SLOT_IS_MOVING, "its slot is being moved: %s", error->text);
        return;
    case ERROR_SLOT_UNSERVED:
        redis_error_set_kind(error, OUTCOME_REFUSED, ERROR_SLOT_UNSERVED, "no node serves its slot: %s", error->text);
        topology_want_refresh(topology);
        return;
    case ERROR_CLUSTER_DOWN: topology_want_refresh(topology); return;
    default: return;
    }
}

static void conn_count_redirection(const conn_t *conn, redis_error_kind_t kind) {
    static const redis_error_kind_t kinds[METRICS_REDIRECT_COUNT] = {
        [REDIRECTED_moved] = ERROR_MOVED, [REDIRECTED_ask] = ERROR_ASK, [REDIRECTED_tryagain] = ERROR_TRY_AGAIN};
    for (int i = 0; i < METRICS_REDIRECT_COUNT; i++)
        if (kind == kinds[i]) metric_add(&shard_metrics(conn->shard)->redirects[i], 1);
}

// Frees the reply.
static outcome_t conn_read_error_reply(conn_t *conn, redisReply *reply, redis_error_t *error) {
    redis_error_from_reply(error, reply->str, reply->len);
    conn_count_redirection(conn, error->kind);
    if (topology_is_cluster(shard_topology(conn->shard))) conn_note_redirection(conn, reply, error);
    freeReplyObject(reply);
    if (error->kind == ERROR_NO_SCRIPT) conn->scripts_loaded = false;
    if (error->kind == ERROR_OTHER_PRIMARY) {
        shard_suspect(conn->shard, conn->epoch);
        conn_close(conn);
    }
    return error->outcome;
}

static redisReader *conn_new_reader(conn_t *conn) {
    redisReader *reader = redisReaderCreate();
    if (!reader) abort(); // no memory
    guard_install(&conn->guard, reader);
    return reader;
}

void conn_start_reader(conn_t *conn) {
    conn->reader = conn_new_reader(conn);
    guard_begin_reply(&conn->guard, conn->reader);
    conn->heard_at = mono_now();
    conn->pinged_at = conn->auth_retry_at = (mono_t){0};
}

// hiredis keeps the buffer of the largest reply, so replace an idle reader that has grown.
static void conn_shrink_reader(conn_t *conn) {
    if (conn->reader_peak <= BUFFER_KEEP_BYTES || conn->reader->len > conn->reader->pos) return;
    redisReaderFree(conn->reader);
    conn->reader = conn_new_reader(conn);
    conn->reader_peak = 0;
}

// Receives what has arrived, at most RECEIVE_BYTES.
static outcome_t conn_receive(conn_t *conn, redis_error_t *error) {
    char bytes[RECEIVE_BYTES];
    size_t count = 0;
    redisReader *reader = conn->reader;
    channel_state_t state = channel_receive(conn->channel, bytes, sizeof bytes, &count);
    if (state == CHANNEL_LOST) return conn_lose_channel(conn, error, "connection lost");
    if (state == CHANNEL_WAIT) return OUTCOME_OK;
    if (redisReaderFeed(reader, bytes, count) != REDIS_OK)
        return conn_lose(conn, error, ERROR_OTHER, "broken reply", reader->errstr);
    conn->received += (int64_t)count;
    conn->heard_at = mono_now();
    if (!guard_receive(&conn->guard, reader, count)) return conn_lose(conn, error, ERROR_OTHER, TOO_LARGE, "");
    if (reader->len > conn->reader_peak) conn->reader_peak = reader->len;
    return OUTCOME_OK;
}

// *found is NULL if no whole reply has arrived.
static outcome_t conn_parse(conn_t *conn, void **found, redis_error_t *error) {
    if (redisReaderGetReply(conn->reader, found) != REDIS_OK) {
        bool too_large = guard_is_exceeded(&conn->guard);
        return conn_lose(conn, error, ERROR_OTHER, too_large ? TOO_LARGE : "broken reply", too_large ? "" : conn->reader->errstr);
    }
    if (*found) guard_begin_reply(&conn->guard, conn->reader);
    return OUTCOME_OK;
}

outcome_t conn_try_read(conn_t *conn, struct redisReply **reply, redis_error_t *error) {
    void *found = NULL;
    *reply = NULL;
    *error = (redis_error_t){0};
    if (!conn->channel) return conn_lose(conn, error, ERROR_OTHER, "not connected", "");
    if (!conn_is_current(conn)) return conn_lose(conn, error, ERROR_OTHER, wait_text(WAIT_MOVED), "");
    if (conn_parse(conn, &found, error) != OUTCOME_OK) return error->outcome;
    if (!found && (conn_receive(conn, error) != OUTCOME_OK || conn_parse(conn, &found, error) != OUTCOME_OK))
        return error->outcome;
    if (found) conn_shrink_reader(conn);
    if (found && conn->in_flight) conn->in_flight--;
    if (conn->in_flight == 0) conn->waits = false;
    redisReply *got = found;
    if (got && got->type == REDIS_REPLY_ERROR) return conn_read_error_reply(conn, got, error);
    *reply = got;
    return OUTCOME_OK;
}

outcome_t conn_read(conn_t *conn, int timeout_ms, struct redisReply **reply, redis_error_t *error) {
    *reply = NULL;
    if (!conn->channel) return conn_lose(conn, error, ERROR_OTHER, "not connected", "");
    time_limit_t limit = conn_limit(conn, timeout_ms);
    if (conn_send_pending(conn, limit, error) != OUTCOME_OK) return error->outcome;
    for (;;) {
        outcome_t outcome = conn_try_read(conn, reply, error);
        if (outcome != OUTCOME_OK || *reply) return outcome;
        if (conn_wait(conn, &limit, error) != OUTCOME_OK) return error->outcome;
    }
}

redisReply *conn_read_next(conn_t *conn, const char *subject, redis_error_t *worst) {
    redisReply *reply;
    redis_error_t error;
    if (worst->outcome == OUTCOME_DISCONNECTED) return NULL;
    if (conn_read(conn, 0, &reply, &error) == OUTCOME_OK) return reply;
    if (error.outcome <= worst->outcome) return NULL;
    *worst = error;
    if (subject) redis_error_reword(worst, "%s: %s", subject, error.text);
    return NULL;
}

redisReply *conn_read_or_refusal(conn_t *conn, redis_error_t *refusal, redis_error_t *worst) {
    redis_error_t error = {0};
    redisReply *reply = worst->outcome == OUTCOME_DISCONNECTED ? NULL : conn_read_next(conn, NULL, &error);
    bool refused = error.outcome == OUTCOME_REFUSED;
    *refusal = refused ? error : (redis_error_t){0};
    if (!refused) redis_error_keep_worse(worst, &error);
    return reply;
}

int64_t conn_read_int(conn_t *conn, const char *subject, redis_error_t *worst) {
    redisReply *reply = conn_read_next(conn, subject, worst);
    int64_t number = reply_int(reply);
    conn_reply_free(reply);
    return number;
}
