#include <string.h>

#include "base/text/units.h"
#include "config/load.h"

static void check_names(load_t *load, size_t i) {
    const queue_config_t *queue = &load->config->queues[i];
    const location_t *location = config_load_location(load, i, "name");
    if (strcmp(queue->name, load->config->group) == 0)
        diagnostic_add(load->errors, location,
                       "queue `%s` has the name of its group: rename one of them, or their Redis keys are the same", queue->name);
    for (size_t j = 0; j < i; j++) {
        const queue_config_t *other = &load->config->queues[j];
        if (other->name && !load->queues[j].duplicate && strcmp(queue->name, other->name) == 0) {
            diagnostic_add(load->errors, location, "duplicate queue `%s`: the first one is on line %d", queue->name, other->line);
            load->queues[i].duplicate = true;
            return;
        }
    }
}

// Returns the longest delay of a retry, jitter included.
static int64_t check_longest_backoff(const queue_policy_t *policy) {
    int64_t delay = policy->retry_delay_ms;
    if (policy->retry_backoff == BACKOFF_NONE) return 0;
    if (policy->retry_backoff == BACKOFF_EXPONENTIAL) return policy->retry_delay_max_ms;
    return delay + (int64_t)((double)delay * policy->retry_jitter);
}

static void check_window(load_t *load, size_t i) {
    const queue_config_t *queue = &load->config->queues[i];
    const queue_policy_t *policy = &queue->policy;
    int64_t backoff = check_longest_backoff(policy);
    int64_t least = 2 * (policy->protected_timeout_ms + backoff);
    if (!(policy->roles & ROLE_MONITOR) || policy->retry_window_ms > least) return;
    const location_t *location = config_load_location(load, i, "retry_window");
    if (location == &load->queues[i].self) location = config_load_location(load, i, "protected_timeout");
    diagnostic_add(load->errors, location,
                   "queue `%s`: `retry_window` is %s, but must be more than 2 x (`protected_timeout` %s + longest backoff %s) = "
                   "%s, or retries would be forgotten before they are counted",
                   queue->name, duration_exact(policy->retry_window_ms).text, duration_exact(policy->protected_timeout_ms).text,
                   duration_exact(backoff).text, duration_exact(least).text);
}

static void check_order(load_t *load, size_t i, const char *longer, int64_t longer_ms, const char *shorter, int64_t shorter_ms) {
    if (longer_ms >= shorter_ms) return;
    const location_t *location = config_load_location(load, i, longer);
    if (location == &load->queues[i].self) location = config_load_location(load, i, shorter);
    diagnostic_add(load->errors, location, "queue `%s`: `%s` is %s, but must not be less than `%s`, %s",
                   load->config->queues[i].name, longer, duration_exact(longer_ms).text, shorter,
                   duration_exact(shorter_ms).text);
}

static void check_policy(load_t *load, size_t i) {
    const queue_config_t *queue = &load->config->queues[i];
    const queue_policy_t *policy = &queue->policy;
    if (config_queue_knows(queue, "retry_window")) check_window(load, i);
    if (policy->alive_timeout_ms && config_queue_knows(queue, "protected_timeout"))
        check_order(load, i, "alive_timeout", policy->alive_timeout_ms, "protected_timeout", policy->protected_timeout_ms);
    if (policy->retry_backoff == BACKOFF_EXPONENTIAL)
        check_order(load, i, "retry_delay_max", policy->retry_delay_max_ms, "retry_delay", policy->retry_delay_ms);
    if (policy->retry_backoff != BACKOFF_NONE && policy->roles == ROLE_MONITOR) {
        const location_t *location = config_load_location(load, i, "roles");
        diagnostic_add(load->warnings, location,
                       "queue `%s`: retries wait in `%s`, but this queue lacks the role dispatcher: add it, or let another "
                       "sidecar promote them",
                       queue->name, queue->delayed);
    }
}

static void check_secrets(load_t *load) {
    const redis_config_t *redis = &load->config->redis;
    const location_t *password = &load->keys[config_key_row(config_key_find("redis", "password"))];
    if (!*redis->password) return;
    if (password->origin == ORIGIN_FILE) diagnostic_add(load->warnings, password, "`redis`: inline secret: use password_file");
    if (*redis->password_file)
        diagnostic_add(load->warnings, password, "`redis`: password is ignored, as password_file is set: remove one of them");
}

void config_load_check(load_t *load) {
    for (size_t i = 0; i < load->config->queue_count; i++) {
        if (!load->config->queues[i].name) continue;
        check_names(load, i);
        if (!load->queues[i].has_errors) check_policy(load, i);
    }
    config_load_conflicts(load);
    check_secrets(load);
}
