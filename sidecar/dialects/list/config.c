// Settings of dialect list.
#include "dialects/list/internal.h"

#include "base/buffer.h"
#include "config/dialect.h"
#include "config/literal.h"

static const char *const take_words[] = {"right", "left", NULL};

static const config_key_t list_keys[] = {
    CONFIG_KEY("queue-only", "take", KEY_ENUM, "right", NULL, NULL, offsetof(list_config_t, take), true,
               "End of the ready list from which workers take jobs: left for workers that use BLPOP, LPOP or BLMOVE ... LEFT.",
               .words = take_words, .own = true),
    DIALECT_KEY("watch", KEY_REDIS, "", "0", "1024", offsetof(list_config_t, watch), false,
                "Key of a list to which workers push jobs that failed: each entry gets a record, and a requeue removes it; empty "
                "means none."),
};

static void list_derive(derive_t *derive) {
    const queue_config_t *queue = derive->queue;
    bool monitors = queue->policy.roles & ROLE_MONITOR;
    bool scans = *queue->backup || !derive_is_given(derive, "backup"); // a queue without a name has no names of keys
    if (list_watches(queue) && !monitors) derive_error(derive, "watch", "`watch` needs the role monitor: add it to `roles`");
    if (monitors && !scans && !list_watches(queue))
        derive_error(derive, "backup",
                     "`backup` is \"\" and there is no `watch`, so the monitor has nothing to do: give one of them, or roles = "
                     "[\"dispatcher\"]");
}

// This dialect uses every key that a queue's settings can name, but without a backup list those of jobs in progress.
static void list_redis_keys(const queue_config_t *queue, redis_keys_t *out) {
    const queue_policy_t *policy = &queue->policy;
    char *watch = list_config(queue)->watch;
    bool in_progress = *queue->backup, monitors = policy->roles & ROLE_MONITOR;
    redis_keys_add_option(out, "ready", queue->ready, "list", SIZE_READY);
    if ((policy->roles & ROLE_DISPATCHER) || (in_progress && policy->retry.backoff != BACKOFF_NONE))
        redis_keys_add_option(out, "delayed", queue->delayed, "zset", SIZE_DELAYED);
    if (monitors && in_progress) {
        redis_keys_add_option(out, "backup", queue->backup, "list", SIZE_BACKUP);
        redis_keys_add_option(out, "errors", queue->errors, "hash", SIZE_NONE);
        if (strcmp(queue->dlq, watch) != 0) redis_keys_add_option(out, "dlq", queue->dlq, "list", SIZE_NONE);
    }
    if (monitors) redis_keys_add_option(out, "watch", watch, "list", SIZE_NONE);
}

static const char *list_dead_letters(const queue_config_t *queue) { return list_config(queue)->watch; }

// A scan begins at the right end of backup, and new jobs there would keep it from its end. So workers put jobs at the left end,
// whatever end of ready they come from.
static void list_commands(const queue_config_t *queue, buffer_t *out) {
    if (!(queue->policy.roles & ROLE_MONITOR) || !*queue->backup) return;
    buffer_str(out, "workers take a job: BLMOVE ");
    config_quote(queue->ready, out);
    buffer_str(out, " ");
    config_quote(queue->backup, out);
    buffer_printf(out, " %s LEFT 1; and when it is done: LREM ", list_takes_left(queue) ? "LEFT" : "RIGHT");
    config_quote(queue->backup, out);
    buffer_str(out, " 1 JOB");
}

const config_dialect_t list_settings = {
    .name = "list",
    .keys = list_keys,
    .key_count = sizeof list_keys / sizeof *list_keys,
    .own_size = sizeof(list_config_t),
    .delays = true,
    .heartbeat_of_job = true,
    .derive = list_derive,
    .redis_keys = list_redis_keys,
    .dead_letters = list_dead_letters,
    .commands = list_commands,
};
