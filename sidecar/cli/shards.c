#include "cli/shards.h"

#include "base/buffer.h"
#include "cli/terminal.h"
#include "redis/cluster/cluster.h"
#include "redis/sentinel/locator.h"

cli_shards_t *shards_new(const config_t *config, const char *name, const atomic_bool *stop) {
    cli_shards_t *shards = mem_alloc(sizeof *shards);
    keyspace_t *keys = keyspace_new(config);
    *shards = (cli_shards_t){.config = config, .name = name, .stop = stop, .topology = topology_new(&config->redis)};
    locator_attach(shards->topology);
    shards->slots = mem_array(config->queue_count, sizeof *shards->slots);
    for (size_t i = 0; i < keys->queue_count; i++) shards->slots[i] = keyspace_slot(keys->locks[keys->queues[i].lock].key);
    keyspace_free(keys);
    shard_address(topology_shard(shards->topology, 0), &shards->first);
    return shards;
}

static void shards_forget(cli_shards_t *shards) {
    for (size_t i = 0; i < shards->count; i++) {
        conn_free(shards->items[i].conn);
        keyspace_free(shards->items[i].keys);
    }
    shards->count = 0;
}

void shards_free(cli_shards_t *shards) {
    if (!shards) return;
    shards_forget(shards);
    topology_free(shards->topology);
    free(shards->slots);
    free(shards);
}

static void shards_add(cli_shards_t *shards, size_t index) {
    bool *wanted = mem_array(shards->config->queue_count, sizeof *wanted);
    bool any = false;
    for (size_t i = 0; i < shards->config->queue_count; i++) {
        wanted[i] = topology_shard_of(shards->topology, shards->slots[i]) == index;
        any |= wanted[i];
    }
    if (any)
        shards->items[shards->count++] =
            (cli_shard_t){.conn = conn_new(topology_shard(shards->topology, index), shards->name, shards->stop),
                          .keys = keyspace_new_part(shards->config, wanted)};
    free(wanted);
}

outcome_t shards_find(cli_shards_t *shards, bool ask, redis_error_t *error) {
    *error = (redis_error_t){0};
    bool moved = topology_take_refresh(shards->topology);
    if (topology_is_cluster(shards->topology) && (ask || moved)) cluster_refresh(shards->topology, shards->stop, error);
    if (error->outcome != OUTCOME_OK || (shards->version && shards->slots_version == topology_version(shards->topology)))
        return error->outcome;
    shards_forget(shards);
    shards->version++;
    shards->slots_version = topology_version(shards->topology);
    for (size_t i = 0; i < topology_shard_count(shards->topology); i++) shards_add(shards, i);
    return OUTCOME_OK;
}

const char *shards_target(const cli_shards_t *shards) {
    return shards->count ? conn_target(shards->items[0].conn) : shards->first.text;
}

bool shards_in_cluster(const cli_shards_t *shards) { return topology_is_cluster(shards->topology); }

bool shards_is_served(const cli_shards_t *shards, size_t queue) {
    return topology_shard_of(shards->topology, shards->slots[queue]) < TOPOLOGY_SHARDS_MAX;
}

void shards_print_error(const char *address, const redis_error_t *error) {
    buffer_t safe = {0};
    char *text = redis_error_without(error, address);
    terminal_escape(&safe, slice_text(text), false);
    fflush(stdout);
    fprintf(stderr, "queue-sidecar: redis%s%s: %s\n", *address ? " at " : "", address, buffer_text(&safe));
    buffer_free(&safe);
    free(text);
}
