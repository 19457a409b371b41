#include <inttypes.h>
#include <string.h>

#include "config/load.h"
#include "config/number.h"
#include "config/value.h"

enum { NAMED_KEYS = 5 };

// One Redis key that a queue uses.
typedef struct used_key {
    const char *role; // "ready", "delayed", ...
    const char *name; // NULL = not used by this queue
} used_key_t;

static void used_keys(const queue_config_t *queue, used_key_t keys[NAMED_KEYS]) {
    const queue_policy_t *policy = &queue->policy;
    bool monitor = policy->roles & ROLE_MONITOR;
    bool delayed = (policy->roles & ROLE_DISPATCHER) || (monitor && policy->retry_backoff != BACKOFF_NONE);
    keys[0] = (used_key_t){"ready", queue->ready};
    keys[1] = (used_key_t){"delayed", delayed ? queue->delayed : NULL};
    keys[2] = (used_key_t){"backup", monitor ? queue->backup : NULL};
    keys[3] = (used_key_t){"errors", monitor ? queue->errors : NULL};
    keys[4] = (used_key_t){"dlq", monitor && *queue->dlq ? queue->dlq : NULL};
}

// Where a queue's value stands; the queue itself where it is inherited.
static const site_t *site_of(const load_t *load, size_t queue, const char *section, const char *name) {
    const queue_site_t *site = &load->queues[queue];
    const site_t *key = &site->keys[config_key_row(config_key_find(section, name))];
    return key->line ? key : &site->self;
}

static void compare_keys(load_t *load, size_t first, size_t second) {
    const queue_config_t *a = &load->config->queues[first], *b = &load->config->queues[second];
    used_key_t left[NAMED_KEYS], right[NAMED_KEYS];
    used_keys(a, left);
    used_keys(b, right);
    for (size_t i = 0; i < NAMED_KEYS; i++) {
        for (size_t j = first == second ? i + 1 : 0; j < NAMED_KEYS; j++) {
            if (!left[i].name || !right[j].name || strcmp(left[i].name, right[j].name) != 0) continue;
            const site_t *site = site_of(load, second, "queue-only", right[j].role);
            if (first == second)
                config_fault_add(load->faults, site->file, site->line, "queue `%s`: its %s and its %s are the same key `%s`",
                                 a->name, left[i].role, right[j].role, left[i].name);
            else
                config_fault_add(load->faults, site->file, site->line,
                                 "queues `%s` and `%s` share the key `%s`: it is %s of `%s` and %s of `%s`", a->name, b->name,
                                 left[i].name, left[i].role, a->name, right[j].role, b->name);
        }
    }
}

static void check_names(load_t *load, size_t i) {
    const queue_config_t *queue = &load->config->queues[i];
    const site_t *site = site_of(load, i, "queue-only", "name");
    if (strcmp(queue->name, load->config->group) == 0)
        config_fault_add(load->faults, site->file, site->line,
                         "queue `%s` is called like its group: give one of them another name, or their keys would be the same",
                         queue->name);
    for (size_t j = 0; j < i; j++) {
        const queue_config_t *other = &load->config->queues[j];
        if (!other->name || load->queues[j].twin) continue;
        if (strcmp(queue->name, other->name) == 0) {
            config_fault_add(load->faults, site->file, site->line, "queue `%s` stands twice: the other one is on line %d",
                             queue->name, other->line);
            load->queues[i].twin = true;
            return;
        }
        compare_keys(load, j, i);
    }
    compare_keys(load, i, i);
}

// The longest delay that a retry may get, jitter included.
static int64_t longest_backoff(const queue_policy_t *policy) {
    int64_t delay = 0;
    if (policy->retry_backoff == BACKOFF_FIXED) delay = policy->retry_delay_ms;
    if (policy->retry_backoff == BACKOFF_EXPONENTIAL) delay = policy->retry_delay_max_ms;
    return delay + (int64_t)((double)delay * policy->retry_jitter);
}

static void add_duration(const char *before, int64_t ms, buffer_t *out) {
    buffer_str(out, before);
    config_number_write(KEY_DURATION, ms, out);
}

static void check_window(load_t *load, size_t i) {
    const queue_config_t *queue = &load->config->queues[i];
    const queue_policy_t *policy = &queue->policy;
    int64_t backoff = longest_backoff(policy);
    int64_t least = 2 * (policy->protected_timeout_ms + backoff);
    if (!(policy->roles & ROLE_MONITOR) || policy->retry_window_ms > least) return;
    const site_t *site = site_of(load, i, "queue", "retry_window");
    if (site == &load->queues[i].self) site = site_of(load, i, "queue", "protected_timeout");
    buffer_t text = {0};
    add_duration("`retry_window` is ", policy->retry_window_ms, &text);
    add_duration(", but must be more than 2 x (`protected_timeout` ", policy->protected_timeout_ms, &text);
    add_duration(" + longest backoff ", backoff, &text);
    add_duration(") = ", least, &text);
    config_fault_add(load->faults, site->file, site->line,
                     "queue `%s`: %s, or retries would be forgotten before they are counted", queue->name, buffer_text(&text));
    buffer_free(&text);
}

static void check_order(load_t *load, size_t i, const char *longer, int64_t longer_ms, const char *shorter, int64_t shorter_ms) {
    if (longer_ms >= shorter_ms) return;
    const site_t *site = site_of(load, i, "queue", longer);
    if (site == &load->queues[i].self) site = site_of(load, i, "queue", shorter);
    buffer_t text = {0};
    buffer_printf(&text, "`%s` is ", longer);
    config_number_write(KEY_DURATION, longer_ms, &text);
    buffer_printf(&text, ", but must not be less than `%s`, ", shorter);
    config_number_write(KEY_DURATION, shorter_ms, &text);
    config_fault_add(load->faults, site->file, site->line, "queue `%s`: %s", load->config->queues[i].name, buffer_text(&text));
    buffer_free(&text);
}

static void check_policy(load_t *load, size_t i) {
    const queue_config_t *queue = &load->config->queues[i];
    const queue_policy_t *policy = &queue->policy;
    check_window(load, i);
    if (policy->alive_timeout_ms)
        check_order(load, i, "alive_timeout", policy->alive_timeout_ms, "protected_timeout", policy->protected_timeout_ms);
    if (policy->retry_backoff == BACKOFF_EXPONENTIAL)
        check_order(load, i, "retry_delay_max", policy->retry_delay_max_ms, "retry_delay", policy->retry_delay_ms);
    if (policy->retry_backoff != BACKOFF_NONE && policy->roles == ROLE_MONITOR) {
        const site_t *site = site_of(load, i, "queue", "roles");
        config_fault_add(load->warnings, site->file, site->line,
                         "queue `%s`: retries wait in `%s`, but without the role dispatcher nobody here promotes them",
                         queue->name, queue->delayed);
    }
}

static void warn_secrets(load_t *load) {
    const redis_config_t *redis = &load->config->redis;
    const site_t *password = &load->keys[config_key_row(config_key_find("redis", "password"))];
    if (!*redis->password) return;
    if (password->origin == ORIGIN_FILE)
        config_fault_add(load->warnings, password->file, password->line, "`redis`: inline secret: use password_file");
    if (*redis->password_file)
        config_fault_add(load->warnings, password->file, password->line,
                         "`redis`: password is not used, because password_file wins over it");
}

void config_load_check(load_t *load) {
    for (size_t i = 0; i < load->config->queue_count; i++) {
        if (!load->config->queues[i].name) continue;
        check_names(load, i);
        if (!load->queues[i].faulty) check_policy(load, i);
    }
    warn_secrets(load);
}
