// Heartbeats that several queues have in common.

#include "base/utf8.h"
#include "config/dialect.h"

enum {
    NAMED = 3,     // other queues that a text names
    NAME_MOST = 40 // bytes of such a name
};

const char *config_heartbeat(const queue_config_t *queue) {
    const queue_policy_t *policy = &queue->policy;
    bool has_jobs = !queue->dialect->heartbeat_of_job || *queue->backup; // in progress
    return (policy->roles & ROLE_MONITOR) && has_jobs && strchr(policy->heartbeat, '*') ? policy->heartbeat : NULL;
}

static bool heartbeats_are_digits(const char *text, size_t len) { return strspn(text, "0123456789") >= len; }

bool config_heartbeats_meet(const char *one, const char *other) {
    size_t head = strcspn(one, "*"), other_head = strcspn(other, "*");
    if (!one[head] || !other[other_head]) return false;
    if (head < other_head) return config_heartbeats_meet(other, one);
    if (strncmp(one, other, other_head) != 0 || !heartbeats_are_digits(one + other_head, head - other_head)) return false;
    const char *tail = one + head + 1, *other_tail = other + other_head + 1;
    size_t len = strlen(tail), other_len = strlen(other_tail);
    size_t more = len > other_len ? len - other_len : 0, other_more = len > other_len ? 0 : other_len - len;
    return strcmp(tail + more, other_tail + other_more) == 0 && heartbeats_are_digits(tail, more) &&
           heartbeats_are_digits(other_tail, other_more);
}

// Finds the queues behind `first` whose heartbeats may be those of `first`. Returns their number; found[] has some of them.
static size_t heartbeats_find(const config_t *config, size_t first, size_t found[NAMED]) {
    const char *pattern = config_heartbeat(&config->queues[first]);
    size_t count = 0;
    // In a Cluster a queue reads only heartbeats of its own slot. If the pattern has no tag, the ids have different ones.
    bool apart = config_redis_mode(&config->redis) == REDIS_MODE_CLUSTER && pattern && !strchr(pattern, '{');
    for (size_t i = first + 1; pattern && !apart && i < config->queue_count; i++) {
        const char *other = config_heartbeat(&config->queues[i]);
        if (!other || !config_heartbeats_meet(pattern, other)) continue;
        if (count < NAMED) found[count] = i;
        count++;
    }
    return count;
}

static void heartbeats_add_name(buffer_t *text, const char *name) {
    size_t len = strlen(name), shown = 0;
    while (shown < len && shown < NAME_MOST) {
        size_t step = utf8_sequence(name + shown, len - shown);
        shown += step ? step : 1;
    }
    buffer_printf(text, "%.*s%s", (int)shown, name, shown < len ? "..." : "");
}

bool config_shared_heartbeat(const config_t *config, size_t *second, buffer_t *text) {
    size_t found[NAMED], first = 0, count = 0;
    while (first < config->queue_count && (count = heartbeats_find(config, first, found)) == 0) first++;
    if (count == 0) return false;
    const queue_config_t *queue = &config->queues[first], *other = &config->queues[found[0]];
    buffer_str(text, "queues ");
    heartbeats_add_name(text, queue->name);
    for (size_t i = 0; i < count && i < NAMED; i++) {
        buffer_str(text, i + 1 == count ? " and " : ", ");
        heartbeats_add_name(text, config->queues[found[i]].name);
    }
    if (count > NAMED) buffer_printf(text, " and %zu more", count - NAMED);
    buffer_printf(text, " have heartbeats in common (\"%s\"", queue->policy.heartbeat);
    if (strcmp(queue->policy.heartbeat, other->policy.heartbeat) != 0)
        buffer_printf(text, " and \"%s\"", other->policy.heartbeat);
    buffer_str(text, ")");
    *second = found[0];
    return true;
}
