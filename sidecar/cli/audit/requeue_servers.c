#include "cli/audit/requeue_servers.h"

#include "dialects/dialect.h"
#include "redis/reply.h"

enum { WAIT_MS = 1000, REPLY_MS = 5000 }; // for a replica

// Finds queues whose keys do not fit their dialect.
static outcome_t servers_check_queues(requeue_servers_t *servers, const requeue_t *requeue, const cli_shard_t *shard,
                                      redis_error_t *error) {
    for (size_t i = 0; i < shard->keys->queue_count; i++) {
        const queue_keys_t *queue = &shard->keys->queues[i];
        const dialect_ops_t *ops = dialect_ops(queue->config->dialect);
        buffer_t refusal = {0};
        const call_t call = {.conn = shard->conn, .keys = shard->keys, .queue = i, .error = error};
        outcome_t outcome = ops->adopt && !requeue->discard ? ops->adopt(&call, &refusal) : OUTCOME_OK;
        servers->queues[queue->number].conn = shard->conn;
        if (outcome == OUTCOME_REFUSED) servers->queues[queue->number].unusable = mem_str(error->text);
        if (outcome == OUTCOME_OK && refusal.len) servers->queues[queue->number].unusable = mem_str(buffer_text(&refusal));
        buffer_free(&refusal);
        if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) return outcome;
    }
    return OUTCOME_OK;
}

// Connects to a primary, reads its clock and checks its queues. In a Cluster the others go on without it.
static outcome_t servers_connect_shard(requeue_servers_t *servers, const requeue_t *requeue, const cli_shard_t *shard,
                                       redis_error_t *error) {
    outcome_t outcome = conn_open(shard->conn, error);
    if (outcome == OUTCOME_OK) outcome = requeue_now(shard->conn, &servers->now_ms, error);
    servers->began = mono_now();
    if (outcome == OUTCOME_OK) outcome = servers_check_queues(servers, requeue, shard, error);
    if (outcome == OUTCOME_OK || !shards_in_cluster(servers->shards)) return outcome;
    for (size_t i = 0; i < shard->keys->queue_count; i++) {
        requeue_queue_t *queue = &servers->queues[shard->keys->queues[i].number];
        free(queue->unusable);
        queue->unusable = mem_str(error->text);
    }
    return outcome;
}

int requeue_servers_connect(requeue_servers_t *servers, const requeue_t *requeue) {
    redis_error_t error;
    size_t good = 0;
    const config_t *config = requeue->keys->config;
    servers->queues = mem_array(requeue->keys->queue_count, sizeof *servers->queues);
    if (requeue->args->requeue.dry_run || requeue->plan.count == 0) return CLI_OK;
    servers->shards = shards_new(config, "queue-sidecar-requeue", NULL);
    outcome_t outcome = shards_find(servers->shards, true, &error);
    for (size_t i = 0; outcome == OUTCOME_OK && i < config->queue_count; i++)
        if (!shards_is_served(servers->shards, i))
            servers->queues[i].unusable = mem_str("no node of the Cluster serves its slot");
    for (size_t i = 0; i < servers->shards->count && (outcome == OUTCOME_OK || shards_in_cluster(servers->shards)); i++) {
        outcome = servers_connect_shard(servers, requeue, &servers->shards->items[i], &error);
        good += outcome == OUTCOME_OK;
    }
    if (outcome == OUTCOME_OK || good) return CLI_OK;
    shards_print_error(shards_target(servers->shards), &error);
    return outcome == OUTCOME_REFUSED ? CLI_FAILED : CLI_REDIS_UNREACHABLE;
}

void requeue_servers_end(requeue_servers_t *servers, const requeue_t *requeue) {
    for (size_t i = 0; i < requeue->keys->queue_count; i++) {
        free(servers->queues[i].refused);
        free(servers->queues[i].unusable);
    }
    free(servers->queues);
    shards_free(servers->shards);
}

static bool servers_have_replica(conn_t *conn) {
    redisReply *role;
    redis_error_t error;
    request_begin(conn, "ROLE");
    outcome_t outcome = request_ask(conn, &role, &error);
    const redisReply *replicas = reply_at(role, 2);
    bool exists = outcome == OUTCOME_OK && reply_is(reply_at(role, 0), "master") && replicas && replicas->elements > 0;
    conn_reply_free(role);
    return exists;
}

void requeue_servers_wait(conn_t *conn) {
    redisReply *reply;
    redis_error_t error;
    if (!conn_is_open(conn) || !servers_have_replica(conn)) return;
    request_begin(conn, "WAIT", "1");
    request_int(conn, WAIT_MS);
    request_end(conn);
    outcome_t outcome = conn_read(conn, WAIT_MS + REPLY_MS, &reply, &error);
    bool answered = outcome == OUTCOME_OK, confirmed = answered && reply_int(reply) > 0;
    conn_reply_free(reply);
    fflush(stdout);
    if (!confirmed)
        fprintf(stderr, "queue-sidecar: redis at %s: no replica has confirmed this%s%s; a failover now may undo it\n",
                conn_target(conn), answered ? " within 1 s" : ": ", answered ? "" : error.text);
}
