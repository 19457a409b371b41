// The plain queue of zset and lists: a delayed entry is the job itself, its score the due time.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "queue/dialects/dialect.h"
#include "queue/reply.h"

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

static int64_t number(const redisReply *reply) { return strtoll(reply_text(reply), NULL, 10); }

static void read_moved(const redisReply *reply, promote_reply_t *out) {
    const char *oldest = reply_text(reply_at(reply, 3));
    out->kind = PROMOTED_MOVED;
    out->moved = reply_int(reply_at(reply, 1));
    out->now_us = number(reply_at(reply, 2));
    out->has_oldest = *oldest != '\0';
    out->oldest = strtod(oldest, NULL);
    out->bytes = reply_int(reply_at(reply, 4));
    out->large = reply_int(reply_at(reply, 5));
    out->large_score = strtod(reply_text(reply_at(reply, 6)), NULL);
    out->large_bytes = reply_int(reply_at(reply, 7));
    snprintf(out->large_sha1, sizeof out->large_sha1, "%s", reply_text(reply_at(reply, 8)));
}

static outcome_t promote_read(conn_t *conn, promote_reply_t *out, fault_t *fault) {
    redisReply *reply;
    *out = (promote_reply_t){0};
    if (conn_read(conn, 0, &reply, fault) != OUTCOME_OK) return fault->outcome;
    const redisReply *kind = reply_at(reply, 0);
    if (reply_is(kind, "moved")) {
        read_moved(reply, out);
    } else if (reply_is(kind, "full")) {
        out->kind = PROMOTED_FULL;
        out->now_us = number(reply_at(reply, 1));
    } else if (reply_is(kind, "fenced")) {
        out->kind = PROMOTED_FENCED;
    } else if (reply_is(kind, "owner") || reply_is(kind, "type")) {
        out->kind = reply_is(kind, "owner") ? PROMOTED_OWNER : PROMOTED_TYPE;
        snprintf(out->who, sizeof out->who, "%s", reply_text(reply_at(reply, 1)));
        snprintf(out->what, sizeof out->what, "%s", reply_text(reply_at(reply, 2)));
    } else {
        fault_set(fault, OUTCOME_FAULT, "promote: unexpected reply");
    }
    freeReplyObject(reply);
    return fault->outcome;
}

static int64_t due_us(const queue_config_t *queue, double score) {
    double us = ceil(score * (queue->policy.score_unit == SCORE_S ? 1e6 : 1e3));
    if (us >= 9e18) return INT64_MAX;
    if (us <= -9e18) return INT64_MIN;
    return (int64_t)us;
}

const dialect_ops_t dialect_list = {
    .name = "list",
    .promote_append = promote_append,
    .promote_read = promote_read,
    .due_us = due_us,
};
