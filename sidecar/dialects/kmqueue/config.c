// Settings of dialect kmqueue, and the key names that KMQueue derives from them.
#include "dialects/kmqueue/internal.h"

#include "base/digest.h"
#include "config/dialect.h"
#include "config/literal.h"
#include "dialects/kmqueue/task.h"

static const config_key_t kmqueue_keys[] = {
    DIALECT_KEY("queues", KEY_STRINGS, NULL, "1", "64", offsetof(kmqueue_config_t, queues), false, KEY_HELP_QUEUES),
};

static const config_refusal_t kmqueue_refusals[] = {
    {"ready", "`queues` names its lists", false},
    {"delayed", "KMQueue delays nothing", false},
    {"errors", "KMQueue's workers report no errors: a task whose handler throws counts as done", false},
    {"retry_backoff", "KMQueue has no delayed zset, so a retry goes back at once", true},
    {"retry_delay retry_delay_max retry_jitter", "KMQueue has no delayed zset, so a retry goes back at once", false},
    {"retry_window", "a task counts its retries itself, in taskStatus.retry", false},
    {"ready_limit", "KMQueue delays nothing, so nothing is promoted", false},
    {"score_unit", "KMQueue's times are milliseconds", true},
    {"id_path created_path type_path", "a task has them in id, taskStatus.genTimestamp and type", false},
};

// Removes bytes up to a space at both ends, as Java's trim does. Owned.
static char *kmqueue_trim(const char *text, size_t len) {
    while (len && (unsigned char)*text <= ' ') text++, len--;
    while (len && (unsigned char)text[len - 1] <= ' ') len--;
    return mem_printf("%.*s", (int)len, text);
}

// Adds the queue that `given` names, and the name to `digested`, whose MD5 names the backup list (KMQUtils.genBackUpQueueName).
// Returns whether the queue is new and safe. Splits as KMQueueManager.init does (KMQueueManager.java 88-97): Java trims the name,
// splits it at colons and drops empty parts at the end. If there are exactly two parts, the second part is the mode.
static bool kmqueue_add_name(derive_t *derive, const char *given, buffer_t *digested) {
    kmqueue_config_t *own = kmqueue_config(derive->queue);
    char *whole = kmqueue_trim(given, strlen(given));
    size_t len = strlen(whole);
    while (len && whole[len - 1] == ':') len--;
    whole[len] = '\0';
    size_t first = strcspn(whole, ":");
    const char *second = strchr(whole + first, ':') == strrchr(whole, ':') && first < len ? whole + first + 1 : "";
    char *key = kmqueue_trim(whole, first), *mode = kmqueue_trim(second, strlen(second)), *shown = derive_quote(given);
    bool safe = strcmp(mode, "safe") == 0;
    bool added = false;
    buffer_add(digested, whole, first);
    if (!*key) {
        derive_error(derive, "queues",
                     "`queues` has %s, which names no queue: KMQueueManager refuses it, \"The current queue name is empty!\"",
                     shown);
    } else if (*mode && strcmp(mode, "default") != 0 && !safe) {
        derive_error(
            derive, "queues",
            "`queues` has %s, but KMQueue knows only the modes default and safe: KMQueueManager refuses it, \"The current "
            "queue mode is invalid\"",
            shown);
    } else if (strings_has(&own->lists, key)) {
        derive_warning(derive, "queues",
                       "`queues` has %s, whose queue is listed before it: KMQueueManager and the sidecar keep the first entry",
                       shown);
    } else {
        char *unique = mem_printf("%s_unique", key);
        strings_add(&own->lists, key);
        strings_add(&own->unique_sets, unique);
        added = true;
        free(unique);
    }
    free(shown);
    free(whole);
    free(key);
    free(mode);
    return added && safe;
}

static void kmqueue_derive(derive_t *derive) {
    queue_config_t *queue = derive->queue;
    const strings_t *given = &kmqueue_config(queue)->queues;
    int64_t db = derive->config->redis.db;
    buffer_t digested = {0};
    bool safe = false;
    if (!derive_is_given(derive, "queues"))
        derive_error(derive, "queues",
                     "it has no `queues`: dialect kmqueue needs the names that KMQueueManager is given, such as [\"mail:safe\"]");
    for (size_t i = 0; i < given->count; i++) safe |= kmqueue_add_name(derive, given->items[i], &digested);
    if (given->count && !safe && !derive_has_failed(derive))
        derive_error(derive, "queues",
                     "none of `queues` is :safe: KMQueue keeps a list of tasks in progress for safe queues only");
    if (derive_is_given(derive, "backup") && !*queue->backup)
        derive_error(derive, "backup", "`backup` is \"\", but KMQueue always has a backup list");
    if (!derive_is_given(derive, "backup") && given->count) {
        char base64[DIGEST_MD5_BASE64_SIZE];
        digest_md5_base64(digested.data, digested.len, base64);
        derive_text(&queue->backup, mem_printf(KMQUEUE_BACKUP "%s", base64));
    }
    if (config_redis_mode(&derive->config->redis) == REDIS_MODE_CLUSTER)
        derive_error(derive, "dialect",
                     "the keys of KMQueue lie in many slots, so it cannot work in a Cluster: remove the queue");
    else if (db != 0)
        derive_error(derive, "dialect", "KMQueue works in database 0 only, but `redis.db` is %lld", (long long)db);
    buffer_free(&digested);
}

static void kmqueue_release(void *settings) {
    kmqueue_config_t *own = settings;
    strings_free(&own->lists);
    strings_free(&own->unique_sets);
}

static void kmqueue_redis_keys(const queue_config_t *queue, redis_keys_t *out) {
    const kmqueue_config_t *own = kmqueue_config(queue);
    redis_keys_add_option(out, "backup", queue->backup, "list", SIZE_BACKUP);
    for (size_t i = 0; i < own->lists.count; i++) {
        redis_keys_add(out, &(redis_key_t){"ready", "queues", own->lists.items[i], "list", KEY_WRITES, SIZE_READY, false, false});
        redis_keys_add(out,
                       &(redis_key_t){"unique", "queues", own->unique_sets.items[i], "set", KEY_WRITES, SIZE_NONE, false, false});
    }
    redis_keys_add_option(out, "dlq", queue->dlq, "list", SIZE_NONE);
}

bool kmqueue_find_list(const strings_t *lists, slice_t queue, size_t *at) {
    for (*at = 0; *at < lists->count; ++*at)
        if (kmqueue_text_is(queue, slice_text(lists->items[*at]))) return true;
    *at = 0;
    return false;
}

const config_dialect_t kmqueue_settings = {
    .name = "kmqueue",
    .keys = kmqueue_keys,
    .key_count = sizeof kmqueue_keys / sizeof *kmqueue_keys,
    .own_size = sizeof(kmqueue_config_t),
    .refusals = kmqueue_refusals,
    .refusal_count = sizeof kmqueue_refusals / sizeof *kmqueue_refusals,
    .many_slots = true,
    .heartbeat_of_job = true,
    .derive = kmqueue_derive,
    .release = kmqueue_release,
    .redis_keys = kmqueue_redis_keys,
};
