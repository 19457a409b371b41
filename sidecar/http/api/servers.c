#include "http/api/servers.h"

#include "base/text/suggest.h"

enum { IDLE_S = 30, NAMES_MAX = 1000 };

void api_redis_close(api_redis_t *redis) {
    shards_free(redis->shards);
    redis->shards = NULL;
}

mono_t api_redis_rest(api_redis_t *redis) {
    if (!redis->shards) return mono_never();
    mono_t close_at = mono_add(redis->used_at, IDLE_S * NS_PER_S);
    if (!mono_reached(close_at, mono_now())) return close_at;
    api_redis_close(redis);
    return mono_never();
}

void api_redis_failed(const redis_error_t *error, answer_t *answer) {
    answer_problem(answer, 503, NULL, "Redis cannot be asked: %s", error->text);
}

static void redis_refuse_queue(const config_t *config, const char *queue, answer_t *answer) {
    const char *names[NAMES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < config->queue_count && count < NAMES_MAX; i++) names[count++] = config->queues[i].name;
    answer_problem(answer, 400, suggest_nearest(queue, names, count), "bad `queue`: the config has no queue of this name");
}

static bool redis_find_queue(const api_redis_t *redis, const char *queue, api_server_t *out) {
    const queue_shards_t *shards = redis->shards;
    const uint64_t version = (uint64_t)redis->opened << 32 | shards->version;
    for (size_t i = 0; i < shards->count; i++)
        for (size_t j = 0; j < shards->items[i].keys->queue_count; j++)
            if (strcmp(shards->items[i].keys->queues[j].config->name, queue) == 0) {
                *out = (api_server_t){shards->items[i].conn, shards->items[i].keys, j, version};
                return true;
            }
    return false;
}

bool api_redis_find(api_redis_t *redis, const config_t *config, const char *queue, api_server_t *out, answer_t *answer) {
    redis_error_t error = {0};
    if (!config_find_queue(config, queue)) {
        redis_refuse_queue(config, queue, answer);
        return false;
    }
    if (shards_find(redis->shards, redis->shards->count == 0, &error) != OUTCOME_OK)
        api_redis_failed(&error, answer);
    else if (!redis_find_queue(redis, queue, out))
        answer_problem(answer, 503, NULL, "no node of the Cluster serves this queue now");
    else if (!conn_is_open(out->conn) && conn_open(out->conn, &error) != OUTCOME_OK)
        api_redis_failed(&error, answer);
    else
        return true;
    return false;
}
