// Parts of several subcommands: the server, and messages about it.
#include "cli/jobs/jobs.h"

int jobs_print_error(const jobs_server_t *server, const redis_error_t *error) {
    cli_print_redis_error(shards_target(server->shards), error);
    return error->outcome == OUTCOME_DISCONNECTED ? CLI_REDIS_UNREACHABLE : CLI_FAILED;
}

int jobs_connect(jobs_server_t *server, const config_t *config, size_t queue) {
    redis_error_t error;
    server->shards = shards_new(config, "queue-sidecar-jobs", NULL);
    if (shards_find(server->shards, true, &error) != OUTCOME_OK) return jobs_print_error(server, &error);
    for (size_t i = 0; i < server->shards->count; i++)
        for (size_t k = 0; k < server->shards->items[i].keys->queue_count; k++)
            if (server->shards->items[i].keys->queues[k].number == queue) {
                server->conn = server->shards->items[i].conn;
                server->keys = server->shards->items[i].keys;
                server->queue = k;
            }
    if (!server->conn) {
        redis_error_set(&error, OUTCOME_REFUSED, "no node of the Cluster serves the slot of queue `%s`",
                        config->queues[queue].name);
        return jobs_print_error(server, &error);
    }
    if (conn_open(server->conn, &error) == OUTCOME_OK) return CLI_OK;
    cli_print_redis_error(conn_target(server->conn), &error);
    return error.outcome == OUTCOME_REFUSED ? CLI_FAILED : CLI_REDIS_UNREACHABLE;
}
