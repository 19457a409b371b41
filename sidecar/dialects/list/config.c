// The settings of dialect list. It uses every setting that all queues have in common.
#include "dialects/list/config.h"
#include "config/dialect.h"

static void list_redis_keys(const queue_config_t *queue, redis_keys_t *out) {
    const queue_policy_t *policy = &queue->policy;
    redis_keys_add_option(out, "ready", queue->ready, "list", KEY_WRITES);
    if ((policy->roles & ROLE_DISPATCHER) || policy->retry_backoff != BACKOFF_NONE)
        redis_keys_add_option(out, "delayed", queue->delayed, "zset", KEY_WRITES);
    if (!(policy->roles & ROLE_MONITOR)) return;
    redis_keys_add_option(out, "backup", queue->backup, "list", KEY_WRITES);
    redis_keys_add_option(out, "errors", queue->errors, "hash", KEY_WRITES);
    redis_keys_add_option(out, "dlq", queue->dlq, "list", KEY_WRITES);
}

const config_dialect_t list_settings = {.name = "list", .delays = true, .heartbeat_of_job = true, .redis_keys = list_redis_keys};
