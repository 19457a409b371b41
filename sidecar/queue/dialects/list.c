// The plain queue of zset and lists: a delayed entry is the job itself, its score the due time.
#include <math.h>

#include "queue/dialects/dialect.h"

enum { BATCH_MOST = 5000 }; // what dispatcher.batch allows

static void promote_append(conn_t *conn, const keyspace_t *keys, const promote_ask_t *ask) {
    const queue_keys_t *queue = &keys->queues[ask->queue];
    const seat_t *seat = &keys->seats[queue->seat];
    const queue_policy_t *policy = &queue->config->policy;
    request_script(conn, SCRIPT_promote, 4);
    request_text(conn, seat->lock);
    request_text(conn, queue->config->delayed);
    request_text(conn, queue->config->ready);
    request_text(conn, queue->meta);
    request_text(conn, ask->token);
    request_text(conn, seat->name);
    request_int(conn, ask->batch);
    request_text(conn, policy->score_unit == SCORE_S ? "s" : "ms");
    request_int(conn, policy->ready_limit);
    request_int(conn, policy->max_payload);
    request_int(conn, ask->skip);
    request_int(conn, PROMOTE_BYTES);
    request_int(conn, ask->first);
    request_end(conn);
}

static int64_t due_us(const queue_config_t *queue, double score) {
    double us = ceil(score * (queue->policy.score_unit == SCORE_S ? 1e6 : 1e3));
    if (us >= 9e18) return INT64_MAX;
    if (us <= -9e18) return INT64_MIN;
    return (int64_t)us;
}

static const promote_ops_t promote = {
    .append = promote_append,
    .read = promote_read_reply,
    .due_us = due_us,
    .most = BATCH_MOST,
};

const dialect_ops_t dialect_list = {
    .name = "list",
    .promote = &promote,
};
