// Derives settings of a queue that the file lacks, by the dialect of the queue.

#include "config/dialect.h"
#include "config/literal.h"
#include "config/load.h"
#include "config/value.h"

const location_t *config_load_location(const load_t *load, size_t queue, const char *name) {
    const config_dialect_t *dialect = load->config->queues[queue].dialect;
    const queue_location_t *location = &load->queues[queue];
    const location_t *key = &location->keys[config_queue_row(dialect, config_queue_key_find(dialect, name))];
    return key->line ? key : &location->self;
}

bool derive_has_failed(const derive_t *derive) { return derive->location->has_errors; }

bool derive_is_given(const derive_t *derive, const char *key) {
    return config_load_location(derive->load, derive->index, key) != &derive->location->self;
}

bool derive_is_in_defaults(const derive_t *derive, const char *key) {
    return derive->load->keys[config_key_row(config_key_find("queue", key))].line != 0;
}

void derive_text(char **field, char *owned) {
    free(*field);
    *field = owned;
}

char *derive_quote(const char *text) {
    buffer_t out = {0};
    config_quote(text, &out);
    return out.data;
}

void derive_report(const derive_t *derive, bool is_error, const char *key, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diagnostic_vadd(is_error ? derive->load->errors : derive->load->warnings,
                    config_load_location(derive->load, derive->index, key), derive->prefix, format, args);
    va_end(args);
    if (is_error) derive->location->has_errors = true;
}

// Resets settings that the dialect does not know: the file's `defaults` mean them for queues of other dialects.
static void derive_reset_policy(derive_t *derive) {
    const config_dialect_t *dialect = derive->queue->dialect;
    for (size_t row = 0; row < config_key_count; row++) {
        const config_key_t *key = &config_keys[row];
        if (!config_key_in_policy(key) || config_key_of_dialect(key, dialect)) continue;
        config_value_set_known(key, key->fallback, &derive->queue->policy);
        derive->location->keys[row].origin = ORIGIN_DEFAULT;
    }
    if (dialect->heartbeat_of_job || derive_is_given(derive, "heartbeat")) return;
    derive_text(&derive->queue->policy.heartbeat, mem_str("off"));
    derive->location->keys[config_key_row(config_key_find("queue", "heartbeat"))].origin = ORIGIN_DEFAULT;
}

static void derive_check_heartbeat(const derive_t *derive) {
    const queue_config_t *queue = derive->queue;
    if (queue->dialect->heartbeat_of_consumer || strcmp(queue->policy.heartbeat, HEARTBEAT_OF_CONSUMER) != 0) return;
    derive_error(derive, "heartbeat",
                 "`heartbeat` is \"" HEARTBEAT_OF_CONSUMER
                 "\", but only dialect stream has consumers: use a key with one *, or \"off\"");
}

// A queue without delayed jobs needs no dispatcher.
static void derive_limit_roles(derive_t *derive) {
    const config_dialect_t *dialect = derive->queue->dialect;
    unsigned *roles = &derive->queue->policy.roles;
    if (dialect->delays) return;
    if (derive_is_given(derive, "roles") && (*roles & ROLE_DISPATCHER))
        derive_error(derive, "roles", "`roles` must be [\"monitor\"] in dialect %s, which has no delayed jobs", dialect->name);
    else if (!(*roles & ROLE_MONITOR))
        derive_error(derive, "roles",
                     "`roles` of `defaults` leaves dialect %s nothing to do: give the queue roles = [\"monitor\"]",
                     dialect->name);
    *roles &= ROLE_MONITOR;
}

// Values of the file are checked already; a name that the dialect builds from several values is not.
static void derive_check_names(derive_t *derive) {
    redis_keys_t keys = config_redis_keys(derive->queue);
    for (size_t i = 0; i < keys.count; i++) {
        if (strncmp(keys.items[i].name, "sidecar:", 8) != 0) continue;
        derive_error(derive, keys.items[i].option,
                     "its key `%s` begins with \"sidecar:\", which is reserved for the sidecar: choose another `%s`",
                     keys.items[i].name, keys.items[i].option);
        break;
    }
    config_redis_keys_free(&keys);
}

static void derive_fill_texts(queue_config_t *queue) {
    const config_key_t *key;
    for (size_t row = 0; (key = config_queue_key(queue->dialect, row)) != NULL; row++) {
        if (strcmp(key->section, "queue-only") != 0 || strcmp(key->name, "name") == 0) continue;
        char **text = (char **)(void *)((char *)config_queue_base(key, queue) + key->at);
        if (key->type >= KEY_TEXT && key->type <= KEY_POINTER && !*text) *text = mem_str("");
    }
}

static derive_t derive_begin(load_t *load, size_t queue, const char *prefix) {
    return (derive_t){.queue = &load->config->queues[queue],
                      .config = load->config,
                      .load = load,
                      .index = queue,
                      .location = &load->queues[queue],
                      .prefix = prefix};
}

void config_load_dialect(load_t *load, size_t queue, const char *prefix) {
    derive_t derive = derive_begin(load, queue, prefix);
    derive_fill_texts(derive.queue);
    derive_limit_roles(&derive);
    derive_reset_policy(&derive);
    derive_check_heartbeat(&derive);
    if (derive.queue->dialect->derive) derive.queue->dialect->derive(&derive);
    derive_check_names(&derive);
}

void config_load_compare(load_t *load, size_t queue, size_t earlier) {
    derive_t derive = derive_begin(load, queue, "");
    const queue_config_t *other = &load->config->queues[earlier];
    if (derive.queue->dialect == other->dialect && other->dialect->compare) other->dialect->compare(&derive, other);
}
