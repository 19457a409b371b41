#include "redis/failure.h"

#include "base/log.h"
#include "redis/internal.h"
#include "redis/topology_internal.h"

enum { AGAIN_S = 60 }; // between two lines about one kind of error

// True: log it. Each kind of error is logged once a minute. *lasted_s: seconds since the first failing connection failed.
static bool failure_begin(conn_t *conn, unsigned kind, int64_t *lasted_s) {
    outage_t *outage = &conn->shard->outage;
    mono_t now = mono_now();
    pthread_mutex_lock(&conn->shard->topology->mutex);
    if (!conn->failing && outage->failing++ == 0) outage->since = now;
    mono_t *told_at = &outage->told_at[kind];
    bool tell = !told_at->ns || mono_diff(now, *told_at) >= AGAIN_S * NS_PER_S;
    if (tell) *told_at = now;
    outage->told = outage->told || tell;
    *lasted_s = mono_diff(now, outage->since) / NS_PER_S;
    pthread_mutex_unlock(&conn->shard->topology->mutex);
    conn->failing = true;
    conn->failed_at = now;
    conn->failed_generation = conn->generation;
    return tell;
}

// An idle connection that is replaced at once is no trouble: if it cannot be replaced, that is told.
static void failure_note_idle(const conn_t *conn, const char *role) {
    mono_t now = mono_now();
    int64_t idle_ms = mono_diff(now, conn->heard_at) / NS_PER_MS;
    idle_news_t news = shard_note_idle_close(conn->shard, idle_ms, now);
    LOG_AT(news == IDLE_NO_NEWS ? LOG_DEBUG : LOG_INFO, role, NULL,
           news == IDLE_LIMIT ? "redis closes idle connections; sending PING sooner" : "redis closed an idle connection",
           F_STR("redis", conn->address.text), F_INT("idle_ms", idle_ms), F_INT("ping_ms", shard_keepalive_ms(conn->shard)));
}

void conn_report_failure(conn_t *conn, const char *role, const redis_error_t *error) {
    if (conn->moves != shard_moves(conn->shard)) return;
    if (error->kind == ERROR_IDLE) {
        failure_note_idle(conn, role);
        return;
    }
    // A role that is to stop gives up its request; others may wait for the same answer of the sentinels.
    if (error->kind == ERROR_STOPPED) return;
    int64_t lasted_s;
    unsigned kind = error->kind == ERROR_TLS ? OUTAGE_OF_TLS : error->outcome;
    bool tell = failure_begin(conn, kind, &lasted_s);
    LOG_AT(!tell                               ? LOG_DEBUG
           : error->outcome == OUTCOME_REFUSED ? LOG_ERROR
                                               : LOG_WARN,
           role, NULL,
           error->outcome == OUTCOME_REFUSED ? "redis refuses the connection"
           : error->outcome == OUTCOME_RETRY ? "redis is not ready"
                                             : "cannot reach redis",
           F_STR("reason", error->text), F_INT("seconds", lasted_s));
}

// True: it was the last failing connection of an outage that the log has told.
static bool failure_end(conn_t *conn, int64_t *lasted_s) {
    outage_t *outage = &conn->shard->outage;
    if (!conn->failing) return false;
    conn->failing = false;
    pthread_mutex_lock(&conn->shard->topology->mutex);
    assert(outage->failing > 0);
    bool tell = --outage->failing == 0 && outage->told;
    if (tell) outage->told = false;
    *lasted_s = mono_diff(mono_now(), outage->since) / NS_PER_S;
    pthread_mutex_unlock(&conn->shard->topology->mutex);
    return tell;
}

void conn_forget_failure(conn_t *conn) {
    int64_t lasted_s;
    (void)failure_end(conn, &lasted_s);
}

void conn_report_unused(conn_t *conn) {
    int64_t lasted_s;
    if (failure_end(conn, &lasted_s))
        log_info("redis", NULL, "redis answers again", F_STR("redis", conn->address.text), F_INT("seconds", lasted_s));
}

void conn_report_success(conn_t *conn) {
    bool replaced = conn->generation != conn->failed_generation;
    if (replaced || mono_diff(mono_now(), conn->failed_at) >= BACKOFF_CALM_S * NS_PER_S) conn_report_unused(conn);
}
