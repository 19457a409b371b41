// Settings of dialect private_queues.
#include "dialects/private_queues/internal.h"

#include "config/dialect.h"

static const config_key_t private_keys[] = {
    DIALECT_KEY("main", KEY_REDIS, NULL, "1", "1024", offsetof(private_config_t, main), false,
                "Key of the list from which workers move jobs into their private lists."),
    DIALECT_KEY("private", KEY_REDIS, "", "0", "1024", offsetof(private_config_t, private), false,
                "Keys of the private lists, with one * for the worker's name; needed unless there is a registry."),
    DIALECT_KEY("registry", KEY_REDIS, "", "0", "1024", offsetof(private_config_t, registry), false,
                "Key of a set, list or hash that names the private lists; empty means that SCAN finds the lists."),
    DIALECT_KEY("dedup", KEY_REDIS, "", "0", "1024", offsetof(private_config_t, dedup), false,
                "Key of a set of ids of finished jobs, which are not retried; empty means none."),
};

static const config_refusal_t private_refusals[] = {
    {"ready", "`main` names it", false},
    {"delayed", "nothing is delayed in private lists", false},
    {"backup", "`private` or `registry` names the lists of jobs in progress", false},
    {"errors", "workers report by the list `dlq`", false},
    {"retry_backoff", "there is no delayed zset, so a retry goes back at once", true},
    {"retry_delay retry_delay_max retry_jitter", "there is no delayed zset, so a retry goes back at once", false},
    {"ready_limit", "nothing is delayed, so nothing is promoted", false},
};

static void private_derive(derive_t *derive) {
    queue_config_t *queue = derive->queue;
    const private_config_t *own = private_config(queue);
    const char *star = strchr(own->private, '*');
    if (!derive_is_given(derive, "main"))
        derive_error(derive, "main", "it has no `main`: dialect private_queues needs the list that workers move jobs from");
    derive_text(&queue->ready, mem_str(own->main));
    if (*own->private && (!star || strchr(star + 1, '*')))
        derive_error(derive, "private", "`private` is \"%s\", but must hold one * for the worker's name, such as \"queue-*\"",
                     own->private);
    else if (strcmp(own->private, "*") == 0 && !*own->registry)
        derive_error(derive, "private",
                     "`private` is \"*\", which matches every list of the database; the entries of all lists would go to `main`: "
                     "give a pattern that matches private lists only, such as \"queue-*\", or a `registry`");
    else if (!*own->private && !*own->registry)
        derive_error(
            derive, "private",
            "it has neither `private` nor `registry`: dialect private_queues needs one of them to find the private lists");
    if (*own->dedup && !*queue->policy.id_path)
        derive_error(derive, "dedup", "`dedup` holds ids of jobs, but `id_path` does not say where a job has its id");
    if (!derive_is_given(derive, "heartbeat") && derive_is_in_defaults(derive, "heartbeat"))
        derive_warning(
            derive, "heartbeat",
            "`heartbeat` of `defaults` is not for dialect private_queues, where * is the worker's name: give it in the queue, "
            "or \"off\"");
}

// Whether some name fits both patterns, which have one * each.
static bool patterns_overlap(const char *a, const char *b) {
    const char *star_a = strchr(a, '*'), *star_b = strchr(b, '*');
    if (!star_a || !star_b) return false;
    size_t before = star_a - a < star_b - b ? (size_t)(star_a - a) : (size_t)(star_b - b);
    size_t end_a = strlen(star_a + 1), end_b = strlen(star_b + 1);
    size_t behind = end_a < end_b ? end_a : end_b;
    return strncmp(a, b, before) == 0 && strcmp(star_a + 1 + end_a - behind, star_b + 1 + end_b - behind) == 0;
}

// Each queue would move the jobs of the other queue's workers to its own `main`. Two registries separate the lists.
static void private_compare(derive_t *derive, const queue_config_t *earlier) {
    const queue_config_t *queue = derive->queue;
    const private_config_t *a = private_config(earlier), *b = private_config(queue);
    if ((*a->registry && *b->registry) || !patterns_overlap(a->private, b->private)) return;
    derive_error(derive, "private",
                 "queues `%s` and `%s`: a list can match both `%s` and `%s`: choose patterns that no name matches both",
                 earlier->name, queue->name, a->private, b->private);
}

static void private_redis_keys(const queue_config_t *queue, redis_keys_t *out) {
    const private_config_t *own = private_config(queue);
    redis_keys_add_option(out, "main", own->main, "list", SIZE_READY);
    redis_keys_add(out, &(redis_key_t){"registry", "registry", own->registry, NULL, KEY_READS, SIZE_NONE, false, false});
    redis_keys_add(out, &(redis_key_t){"dedup", "dedup", own->dedup, "set", KEY_READS, SIZE_NONE, false, false});
    redis_keys_add_option(out, "dlq", queue->dlq, "list", SIZE_NONE);
    redis_keys_add(out, &(redis_key_t){"private", "private", own->private, "list", KEY_WRITES, SIZE_NONE, true, false});
}

static const char *private_dead_letters(const queue_config_t *queue) { return queue->dlq; }

const config_dialect_t private_settings = {
    .name = "private_queues",
    .keys = private_keys,
    .key_count = sizeof private_keys / sizeof *private_keys,
    .own_size = sizeof(private_config_t),
    .refusals = private_refusals,
    .refusal_count = sizeof private_refusals / sizeof *private_refusals,
    .derive = private_derive,
    .compare = private_compare,
    .dead_letters = private_dead_letters,
    .redis_keys = private_redis_keys,
};
