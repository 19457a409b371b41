// Settings of dialect sidekiq, and the key names that Sidekiq makes of them.
#include "config/dialect.h"
#include "config/literal.h"
#include "dialects/sidekiq/internal.h"

static const char *const set_words[] = {"schedule", "retry", NULL}; // sidekiq_set_t

static const config_key_t setting_keys[] = {
    DIALECT_KEY("queues", KEY_STRINGS, NULL, "1", "64", offsetof(sidekiq_config_t, queues), false, KEY_HELP_QUEUES),
    CONFIG_KEY("queue-only", "set", KEY_ENUM, "schedule", NULL, NULL, offsetof(sidekiq_config_t, set), false,
               "The zset that the dispatcher serves; an entry with \"retry\" has no other role.", .own = true,
               .words = set_words),
    DIALECT_KEY("record_failed", KEY_BOOL, "true", NULL, NULL, offsetof(sidekiq_config_t, record_failed), true,
                KEY_HELP_RECORD_FAILED),
    DIALECT_KEY("dead_after", KEY_DURATION, "50s", "20s", "55s", offsetof(sidekiq_config_t, dead_after_ms), true,
                "A process is gone this long after its last beat; its keys last 60 s."),
    DIALECT_KEY("min_run", KEY_DURATION, "10s", "0s", "1h", offsetof(sidekiq_config_t, min_run_ms), true,
                "A job comes back only if it had run for this long at the last beat of its process."),
    DIALECT_KEY("recoveries", KEY_INT, "3", "0", "1000", offsetof(sidekiq_config_t, recoveries), true,
                "How often a job comes back from processes that are gone."),
    DIALECT_KEY("recovery_window", KEY_DURATION, "72h", "1m", "3650d", offsetof(sidekiq_config_t, recovery_window_ms), true,
                "The count of recoveries starts again this long after the last one."),
};

static const config_refusal_t sidekiq_refusals[] = {
    {"ready delayed backup", "`prefix` and `queues` name Sidekiq's keys", false},
    {"errors", "Sidekiq keeps the error in the job; see `record_failed`", false},
    {"dlq", "Sidekiq keeps jobs that failed for good in its set dead", false},
    {"alive_timeout alive_kills protected_timeout", "a job of Sidekiq runs as long as its process lives", false},
    {"heartbeat", "Sidekiq's processes have heartbeats of their own", false},
    {"retry_times retry_window", "the job option retry takes its place", false},
    {"retry_backoff retry_delay retry_delay_max retry_jitter", "sidekiq_retry_in takes its place", false},
    {"ready_limit", "Sidekiq's lists have no limit", false},
    {"score_unit", "Sidekiq's scores are seconds", false},
    {"id_path created_path type_path", "a job of Sidekiq has them in jid, created_at and class", false},
    {"end_duplicates", "jobs of Sidekiq have ids, so there are no duplicates", false},
};

static void sidekiq_derive_roles(derive_t *derive) {
    unsigned *roles = &derive->queue->policy.roles;
    if (sidekiq_config(derive->queue)->set == SIDEKIQ_SCHEDULE) return;
    if (derive_is_given(derive, "roles") && (*roles & ROLE_MONITOR))
        derive_error(derive, "roles",
                     "`roles` must be [\"dispatcher\"] where `set` is \"retry\": the other entry has the monitor");
    *roles &= ROLE_DISPATCHER;
    if (!*roles && !derive_is_given(derive, "roles"))
        derive_error(derive, "roles",
                     "`roles` of `defaults` leaves set = \"retry\" nothing to do: give the queue roles = [\"dispatcher\"]");
}

static void sidekiq_derive(derive_t *derive) {
    queue_config_t *queue = derive->queue;
    sidekiq_config_t *own = sidekiq_config(queue);
    if (!own->queues.count) strings_add(&own->queues, "default"); // as Sidekiq itself
    for (size_t i = 0; i < own->queues.count; i++) {
        char *list = mem_printf("%squeue:%s", queue->prefix, own->queues.items[i]);
        if (strings_has(&own->lists, list)) derive_error(derive, "queues", "`queues` names \"%s\" twice", own->queues.items[i]);
        strings_add(&own->lists, list);
        free(list);
    }
    derive_text(&queue->delayed, mem_printf("%s%s", queue->prefix, set_words[own->set]));
    derive_text(&own->names, mem_printf("%squeues", queue->prefix));
    derive_text(&own->processes, mem_printf("%sprocesses", queue->prefix));
    derive_text(&own->dead, mem_printf("%sdead", queue->prefix));
    queue->policy.score_unit = SCORE_S;
    size_t len = strlen(queue->prefix);
    if (len && queue->prefix[len - 1] != ':')
        derive_warning(derive, "prefix", "`prefix` has no colon at its end, and redis-namespace puts one there: \"%s:\"",
                       queue->prefix);
    if (config_redis_mode(&derive->config->redis) == REDIS_MODE_CLUSTER)
        derive_error(derive, "dialect",
                     "the keys of Sidekiq lie in many slots, so it cannot work in a Cluster: remove the queue");
    sidekiq_derive_roles(derive);
}

static void sidekiq_release(void *settings) {
    sidekiq_config_t *own = settings;
    strings_free(&own->lists);
    free(own->names);
    free(own->processes);
    free(own->dead);
}

static void sidekiq_redis_keys(const queue_config_t *queue, redis_keys_t *out) {
    const sidekiq_config_t *own = sidekiq_config(queue);
    char *identity = mem_printf("%s*:*:*", queue->prefix);
    bool dispatches = queue->policy.roles & ROLE_DISPATCHER, monitors = queue->policy.roles & ROLE_MONITOR;
    const redis_key_t keys[] = {
        {"delayed", "set", queue->delayed, "zset", dispatches ? KEY_WRITES : KEY_READS, SIZE_DELAYED, false, false},
        {"dead", "prefix", monitors ? own->dead : NULL, "zset", KEY_WRITES, SIZE_NONE, false, false},
        {"processes", "prefix", own->processes, "set", KEY_READS, SIZE_NONE, false, false},
        {"names", "queues", own->names, "set", KEY_WRITES, SIZE_NONE, false, false},
        {"process", "prefix", identity, "hash", monitors ? KEY_WRITES : KEY_READS, SIZE_NONE, true, false},
    };
    // The entry of the other zset shows the same lists: they count once.
    redis_key_size_t size = own->set == SIDEKIQ_SCHEDULE ? SIZE_READY : SIZE_NONE;
    for (size_t i = 0; i < own->lists.count; i++)
        redis_keys_add(out, &(redis_key_t){"ready", "queues", own->lists.items[i], "list", KEY_WRITES, size, false, false});
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) redis_keys_add(out, &keys[i]);
    free(identity);
}

const config_dialect_t sidekiq_settings = {
    .name = "sidekiq",
    .keys = setting_keys,
    .key_count = sizeof setting_keys / sizeof *setting_keys,
    .own_size = sizeof(sidekiq_config_t),
    .refusals = sidekiq_refusals,
    .refusal_count = sizeof sidekiq_refusals / sizeof *sidekiq_refusals,
    .prefix = "",
    .shared_option = "queues",
    .delays = true,
    .many_slots = true,
    .derive = sidekiq_derive,
    .release = sidekiq_release,
    .redis_keys = sidekiq_redis_keys,
};
