#include "operate/requeue/servers.h"

#include "dialects/dialect.h"

// Finds queues whose keys do not fit their dialect.
static outcome_t servers_check_queues(requeue_servers_t *servers, const requeue_t *requeue, const queue_shard_t *shard,
                                      redis_error_t *error) {
    for (size_t i = 0; i < shard->keys->queue_count; i++) {
        const queue_keys_t *queue = &shard->keys->queues[i];
        const dialect_ops_t *ops = dialect_ops(queue->config->dialect);
        buffer_t refusal = {0};
        const call_t call = {.conn = shard->conn, .keys = shard->keys, .queue = i, .error = error};
        outcome_t outcome = ops->adopt && requeue_pushes(&requeue->options) ? ops->adopt(&call, &refusal) : OUTCOME_OK;
        servers->queues[queue->number].conn = shard->conn;
        if (outcome == OUTCOME_REFUSED) servers->queues[queue->number].unusable = mem_str(error->text);
        if (outcome == OUTCOME_OK && refusal.len) servers->queues[queue->number].unusable = mem_str(buffer_text(&refusal));
        buffer_free(&refusal);
        if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) return outcome;
    }
    return OUTCOME_OK;
}

// Connects to a primary, reads its clock and checks its queues. In a Cluster the others go on without it.
static outcome_t servers_connect_shard(requeue_servers_t *servers, const requeue_t *requeue, const queue_shard_t *shard,
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

outcome_t requeue_connect(requeue_t *requeue, const char **target, redis_error_t *error) {
    requeue_servers_t *servers = requeue->servers = mem_alloc(sizeof *servers);
    size_t good = 0;
    const config_t *config = requeue->keys->config;
    servers->queues = mem_array(requeue->keys->queue_count, sizeof *servers->queues);
    if (requeue->options.dry_run || requeue->plan.count == 0) return OUTCOME_OK;
    servers->shards = shards_new(config, "queue-sidecar-requeue", requeue->caller.quit);
    outcome_t outcome = shards_find(servers->shards, true, error);
    for (size_t i = 0; outcome == OUTCOME_OK && i < config->queue_count; i++)
        if (!shards_is_served(servers->shards, i))
            servers->queues[i].unusable = mem_str("no node of the Cluster serves its slot");
    for (size_t i = 0; i < servers->shards->count && (outcome == OUTCOME_OK || shards_in_cluster(servers->shards)); i++) {
        outcome = servers_connect_shard(servers, requeue, &servers->shards->items[i], error);
        good += outcome == OUTCOME_OK;
    }
    *target = shards_target(servers->shards);
    return good ? OUTCOME_OK : outcome;
}

void requeue_servers_free(requeue_servers_t *servers, const requeue_t *requeue) {
    if (!servers) return;
    for (size_t i = 0; i < requeue->keys->queue_count; i++) {
        free(servers->queues[i].refused);
        stream_texts_free(&servers->queues[i].texts);
        free(servers->queues[i].unusable);
    }
    free(servers->queues);
    shards_free(servers->shards);
    free(servers);
}
