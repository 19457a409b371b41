#include "redis/failure.h"

#include "base/log.h"
#include "redis/internal.h"
#include "redis/service/outage.h"

void conn_report_failure(conn_t *conn, const char *role, const redis_error_t *error) {
    if (conn->moves != shard_moves(conn->shard)) return;
    // A role that is to stop gives up its request; others may wait for the same answer of the sentinels.
    if (error->kind == ERROR_STOPPED) return;
    int64_t lasted_s;
    unsigned kind = error->kind == ERROR_TLS ? OUTAGE_OF_TLS : error->outcome;
    bool tell = shard_failed(conn->shard, !conn->failing, kind, &lasted_s);
    conn->failing = true;
    conn->failed_at = mono_now();
    conn->failed_generation = conn->generation;
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
    bool failing = conn->failing;
    conn->failing = false;
    return failing && shard_recovered(conn->shard, lasted_s);
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
