// A failover to a replica that lacks what `audit requeue` did would undo it.
#include "cli/audit/requeue.h"
#include "redis/reply.h"

enum { WAIT_MS = 1000, REPLY_MS = 5000 };

static bool replica_exists(conn_t *conn) {
    redisReply *role;
    redis_error_t error;
    request_begin(conn, "ROLE");
    outcome_t outcome = request_ask(conn, &role, &error);
    const redisReply *replicas = reply_at(role, 2);
    bool exists = outcome == OUTCOME_OK && reply_is(reply_at(role, 0), "master") && replicas && replicas->elements > 0;
    conn_reply_free(role);
    return exists;
}

void requeue_wait_for_replica(conn_t *conn) {
    redisReply *reply;
    redis_error_t error;
    if (!conn_is_open(conn) || !replica_exists(conn)) return;
    request_begin(conn, "WAIT", "1");
    request_int(conn, WAIT_MS);
    request_end(conn);
    outcome_t outcome = conn_read(conn, WAIT_MS + REPLY_MS, &reply, &error);
    bool confirmed = outcome == OUTCOME_OK && reply_int(reply) > 0;
    conn_reply_free(reply);
    if (confirmed) return;
    bool answered = outcome == OUTCOME_OK;
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: redis at %s: no replica has confirmed this%s%s; a failover now may undo it\n",
            conn_target(conn), answered ? " within 1 s" : ": ", answered ? "" : error.text);
}
