#include "base/text/units.h"
#include "config/dialect.h"
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
    int64_t delay = policy->retry.delay_ms;
    if (policy->retry.backoff == BACKOFF_NONE) return 0;
    if (policy->retry.backoff == BACKOFF_EXPONENTIAL) return policy->retry.delay_max_ms;
    return delay + (int64_t)((double)delay * policy->retry.jitter);
}

static void check_window(load_t *load, size_t i) {
    const queue_config_t *queue = &load->config->queues[i];
    const queue_policy_t *policy = &queue->policy;
    int64_t backoff = check_longest_backoff(policy);
    int64_t least = 2 * (policy->protected_timeout_ms + backoff);
    if (!(policy->roles & ROLE_MONITOR) || policy->retry.window_ms > least) return;
    const location_t *location = config_load_location(load, i, "retry_window");
    if (location == &load->queues[i].self) location = config_load_location(load, i, "protected_timeout");
    diagnostic_add(load->errors, location,
                   "queue `%s`: `retry_window` is %s, but must be more than 2 x (`protected_timeout` %s + longest backoff %s) = "
                   "%s, or retries would be forgotten before they are counted",
                   queue->name, duration_exact(policy->retry.window_ms).text, duration_exact(policy->protected_timeout_ms).text,
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

// Without exponential backoff `retry_delay_max` limits nothing. An operator who set it expects otherwise.
static void check_unused_limit(load_t *load, size_t i) {
    const queue_policy_t *policy = &load->config->queues[i].policy;
    const location_t *location = config_load_location(load, i, "retry_delay_max");
    if (location == &load->queues[i].self) location = &load->keys[config_key_row(config_key_find("queue", "retry_delay_max"))];
    if (location->origin == ORIGIN_DEFAULT || policy->retry.delay_max_ms >= policy->retry.delay_ms) return;
    diagnostic_add(load->warnings, location,
                   "queue `%s`: `retry_delay_max` is %s, less than `retry_delay`, %s, and limits it only with `retry_backoff` "
                   "\"exponential\": set it higher, or remove it",
                   load->config->queues[i].name, duration_exact(policy->retry.delay_max_ms).text,
                   duration_exact(policy->retry.delay_ms).text);
}

static void check_policy(load_t *load, size_t i) {
    const queue_config_t *queue = &load->config->queues[i];
    const queue_policy_t *policy = &queue->policy;
    if (config_queue_knows(queue, "retry_window")) check_window(load, i);
    if (policy->alive_timeout_ms && config_queue_knows(queue, "protected_timeout"))
        check_order(load, i, "alive_timeout", policy->alive_timeout_ms, "protected_timeout", policy->protected_timeout_ms);
    if (policy->retry.backoff == BACKOFF_EXPONENTIAL)
        check_order(load, i, "retry_delay_max", policy->retry.delay_max_ms, "retry_delay", policy->retry.delay_ms);
    else if (config_queue_knows(queue, "retry_delay_max"))
        check_unused_limit(load, i);
    if (policy->retry.backoff != BACKOFF_NONE && policy->roles == ROLE_MONITOR && *queue->backup) {
        const location_t *location = config_load_location(load, i, "roles");
        diagnostic_add(load->warnings, location,
                       "queue `%s`: retries wait in `%s`, but this queue lacks the role dispatcher: add it, or let another "
                       "sidecar promote them",
                       queue->name, queue->delayed);
    }
}

// Id, type and traceparent of a job are shown everywhere.
static void check_hide(load_t *load, size_t i) {
    const queue_config_t *queue = &load->config->queues[i];
    const queue_policy_t *policy = &queue->policy;
    const char *const keys[] = {"id_path", "type_path", "trace_path"}, *const words[] = {"id", "type", "traceparent"};
    const char *const paths[] = {policy->id_path, policy->type_path, policy->trace_path};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        for (size_t h = 0; config_queue_knows(queue, keys[k]) && h < queue->policy.hide.count; h++) {
            const char *hidden = queue->policy.hide.items[h];
            size_t len = strlen(hidden);
            if (strncmp(paths[k], hidden, len) != 0 || (paths[k][len] != '\0' && paths[k][len] != '/')) continue;
            diagnostic_add(load->errors, config_load_location(load, i, "hide"),
                           "queue `%s`: `hide` has \"%s\", but `%s` takes the %s of a job from there, which everybody sees",
                           queue->name, hidden, keys[k], words[k]);
        }
    }
}

// One warning for all such queues: `defaults` may have `hide`.
static void check_hidden_ids(load_t *load) {
    size_t count = 0, first = 0;
    for (size_t i = load->config->queue_count; i-- > 0;) {
        const queue_config_t *queue = &load->config->queues[i];
        if (!queue->name || load->queues[i].has_errors || !queue->policy.hide.count || *queue->policy.id_path ||
            !config_queue_knows(queue, "id_path"))
            continue;
        first = i;
        count++;
    }
    char *more = count > 1 ? mem_printf(" and %zu more", count - 1) : mem_str("");
    if (count)
        diagnostic_add(
            load->warnings, config_load_location(load, first, "hide"),
            "queue `%s`%s: `hide` without `id_path`: the id of a job is its SHA-256, by which somebody could find hidden "
            "values, so page and API do not show it, and find no job by it. Set `id_path`",
            load->config->queues[first].name, more);
    free(more);
}

// A warning, because the queues of other slots work.
static void check_slot(load_t *load, size_t i) {
    const queue_config_t *queue = &load->config->queues[i];
    buffer_t advice = {0};
    if (!queue->dialect->many_slots && !config_shares_slot(queue, &advice))
        diagnostic_add(load->warnings, config_load_location(load, i, "name"),
                       "queue `%s`: in Redis Cluster its keys and its lock must share a slot: %s", queue->name,
                       buffer_text(&advice));
    buffer_free(&advice);
}

// ---- Conflicts: one Redis key in two queues, or in two roles of one queue.

typedef struct entry {
    const redis_key_t *key;
    size_t queue;
    size_t order; // in the file
} entry_t;

// The keys of all queues that have a name of their own.
typedef struct keys_in_use {
    redis_keys_t *of; // of[i]: the keys of queue i; empty if its name is missing or a duplicate
    entry_t *entries;
    size_t count;
} keys_in_use_t;

// Returns the pattern with which a queue reserves all keys of a prefix; NULL = none.
static const redis_key_t *conflict_reserves(const keys_in_use_t *used, size_t queue) {
    for (size_t i = 0; i < used->of[queue].count; i++)
        if (used->of[queue].items[i].reserves) return &used->of[queue].items[i];
    return NULL;
}

static int conflict_order_by_name(const void *left, const void *right) {
    const entry_t *a = left, *b = right;
    int order = strcmp(a->key->name, b->key->name);
    return order ? order : (a->order > b->order) - (a->order < b->order);
}

static keys_in_use_t conflicts_gather(const load_t *load) {
    size_t queues = load->config->queue_count, all = 0;
    keys_in_use_t used = {.of = mem_array(queues, sizeof *used.of)};
    for (size_t i = 0; i < queues; i++) {
        if (!load->config->queues[i].name || load->queues[i].duplicate) continue;
        used.of[i] = config_redis_keys(&load->config->queues[i]);
        all += used.of[i].count;
    }
    used.entries = mem_array(all + 1, sizeof *used.entries);
    for (size_t i = 0; i < queues; i++) {
        for (size_t k = 0; k < used.of[i].count; k++) {
            if (used.of[i].items[k].pattern) continue;
            used.entries[used.count] = (entry_t){&used.of[i].items[k], i, used.count};
            used.count++;
        }
    }
    if (used.count) qsort(used.entries, used.count, sizeof *used.entries, conflict_order_by_name);
    return used;
}

// Whether notifications of one queue are jobs of the other one.
static bool conflict_notifies(const load_t *load, const entry_t *from, const entry_t *to) {
    return config_key_is_shared(from->key) && strcmp(load->config->queues[to->queue].ready, to->key->name) == 0;
}

// Whether failures of these jobs would make new jobs, perhaps without end.
static bool conflict_loops(const load_t *load, const entry_t *from, const entry_t *to) {
    return conflict_notifies(load, from, to) && *load->config->queues[to->queue].policy.on_failure;
}

// Queues may share the list of on_failure, also with a queue that takes notifications as jobs.
static bool conflict_is_allowed(const load_t *load, const entry_t *a, const entry_t *b) {
    const config_dialect_t *dialect = load->config->queues[a->queue].dialect;
    const char *option = load->config->queues[b->queue].dialect == dialect ? dialect->shared_option : NULL;
    if (option && a->queue != b->queue && strcmp(a->key->option, option) == 0 && strcmp(b->key->option, option) == 0) return true;
    if (conflict_notifies(load, a, b)) return !conflict_loops(load, a, b);
    if (conflict_notifies(load, b, a)) return !conflict_loops(load, b, a);
    return a->queue != b->queue && config_key_is_shared(a->key) && config_key_is_shared(b->key);
}

// Two queues may share a key that both only read. check_conflicts compares reserved prefixes.
static bool conflict_is(const load_t *load, const keys_in_use_t *used, const entry_t *a, const entry_t *b) {
    if (strcmp(a->key->name, b->key->name) != 0 || (a->key->use == KEY_READS && b->key->use == KEY_READS)) return false;
    if (conflict_is_allowed(load, a, b)) return false;
    return a->queue == b->queue || (!conflict_reserves(used, a->queue) && !conflict_reserves(used, b->queue));
}

// `right` is later in the file.
static void conflict_report(load_t *load, const entry_t *left, const entry_t *right) {
    const char *a = load->config->queues[left->queue].name, *b = load->config->queues[right->queue].name;
    const location_t *location = config_load_location(load, right->queue, right->key->option);
    bool loops = conflict_loops(load, left, right) || conflict_loops(load, right, left);
    const char *loop =
        loops ? "; the queue that takes notifications needs on_failure = \"\", or each of its failures would be a new job" : "";
    if (left->queue == right->queue)
        diagnostic_add(load->errors, location, "queue `%s`: its %s and its %s are the same key `%s`%s", a, left->key->role,
                       right->key->role, left->key->name, loop);
    else
        diagnostic_add(load->errors, location, "queues `%s` and `%s` share the key `%s`: it is %s of `%s` and %s of `%s`%s", a, b,
                       left->key->name, left->key->role, a, right->key->role, b, loop);
}

static void conflicts_report_same_name(load_t *load, const keys_in_use_t *used) {
    for (size_t i = 0; i < used->count; i++)
        for (size_t j = i + 1; j < used->count && strcmp(used->entries[i].key->name, used->entries[j].key->name) == 0; j++)
            if (conflict_is(load, used, &used->entries[i], &used->entries[j]))
                conflict_report(load, &used->entries[i], &used->entries[j]);
}

// Reports two queues whose reserved prefixes overlap.
static void conflicts_report_same_prefix(load_t *load, const keys_in_use_t *used, size_t one, size_t other) {
    const redis_key_t *mine = conflict_reserves(used, one), *others = conflict_reserves(used, other);
    bool same = strcmp(mine->name, others->name) == 0;
    if (same ? other > one : strncmp(others->name, mine->name, strlen(mine->name) - 1) != 0) return;
    const char *of = load->config->queues[one].name, *by = load->config->queues[other].name;
    const location_t *location = config_load_location(load, one > other ? one : other, (one > other ? mine : others)->option);
    int base = (int)strlen(others->name) - 1;
    if (same)
        diagnostic_add(load->errors, location, "queues `%s` and `%s` have the same keys, which begin with `%.*s`", by, of, base,
                       others->name);
    else
        diagnostic_add(load->errors, location,
                       "queue `%s`: its keys begin with `%.*s`; keys of jobs of queue `%s` can begin so too, as a job id may "
                       "hold a colon: set another `prefix` for one of the queues",
                       by, base, others->name, of);
}

// Reports the first key of a queue that begins with the reserved prefix of another queue; for one queue its on_failure.
static void conflicts_report_reserved_key(load_t *load, const keys_in_use_t *used, size_t one, size_t other) {
    const redis_key_t *mine = conflict_reserves(used, one);
    size_t len = strlen(mine->name) - 1, later = one > other ? one : other;
    for (size_t k = 0; k < used->of[other].count; k++) {
        const redis_key_t *key = &used->of[other].items[k];
        if (key->pattern || (one == other && !config_key_is_shared(key)) || strncmp(key->name, mine->name, len) != 0) continue;
        const location_t *location = config_load_location(load, later, later == other ? key->option : mine->option);
        diagnostic_add(
            load->errors, location,
            "queue `%s`: its key `%s` begins with `%.*s`, which is reserved for jobs of queue `%s`: choose another key",
            load->config->queues[other].name, key->name, (int)len, mine->name, load->config->queues[one].name);
        break;
    }
}

static void check_conflicts(load_t *load) {
    keys_in_use_t used = conflicts_gather(load);
    conflicts_report_same_name(load, &used);
    size_t queues = load->config->queue_count;
    for (size_t i = 0; i < queues; i++) {
        for (size_t j = 0; conflict_reserves(&used, i) && j < queues; j++) {
            if (used.of[j].count == 0) continue;
            (j != i && conflict_reserves(&used, j) ? conflicts_report_same_prefix : conflicts_report_reserved_key)(load, &used, i,
                                                                                                                   j);
        }
    }
    for (size_t i = 0; i < queues; i++)
        for (size_t j = i + 1; j < queues; j++)
            if (used.of[i].count && used.of[j].count) config_load_compare(load, j, i);
    for (size_t i = 0; i < queues; i++) config_redis_keys_free(&used.of[i]);
    free(used.entries);
    free(used.of);
}

static void check_listen(load_t *load) {
    const char *listen = load->config->http.listen, *colon = strchr(listen, ':');
    bool has_port = colon && !strchr(colon + 1, ':'); // an IPv6 address has two colons at least
    if (!has_port && *listen != '[') return;
    const config_key_t *key = config_key_find("http", "listen");
    const location_t *location = &load->keys[config_key_row(key)];
    char *shown = config_load_shown(key, location->origin);
    diagnostic_add(load->errors, location,
                   "%s is \"%s\", but must be an address without port and brackets: the port is `http.port`", shown, listen);
    free(shown);
}

static void check_heartbeats(load_t *load) {
    size_t second;
    buffer_t text = {0};
    if (load->errors->count == 0 && config_shared_heartbeat(load->config, &second, &text))
        diagnostic_add(load->warnings, config_load_location(load, second, "heartbeat"),
                       "%s: if two jobs have the same id, the worker of one speaks for both. Give each queue its own, such as "
                       "heartbeat = \"%s:*_alive\", and let its workers write that key, or \"off\" if they write none",
                       buffer_text(&text), load->config->queues[second].name);
    buffer_free(&text);
}

void config_load_check(load_t *load) {
    check_listen(load);
    for (size_t i = 0; i < load->config->queue_count; i++) {
        if (!load->config->queues[i].name) continue;
        check_names(load, i);
        if (load->queues[i].has_errors) continue;
        check_policy(load, i);
        check_hide(load, i);
        if (config_redis_mode(&load->config->redis) == REDIS_MODE_CLUSTER) check_slot(load, i);
    }
    check_conflicts(load);
    check_heartbeats(load);
    check_hidden_ids(load);
}
