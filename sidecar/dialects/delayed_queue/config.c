// Settings of dialect delayed_queue, and the key names that DelayedEventService derives from them.
#include "dialects/delayed_queue/internal.h"

#include <ctype.h>

#include "config/dialect.h"
#include "config/literal.h"

static const config_key_t delayed_keys[] = {
    DIALECT_KEY("types", KEY_STRINGS, NULL, "1", "500", offsetof(delayed_config_t, types), true,
                "Java class names of the events, each with =LIST where its list is not the lower-cased simple name."),
    DIALECT_KEY("retry_attempts", KEY_INT, "70", "1", "100", offsetof(delayed_config_t, retry_attempts), true,
                "How many attempts an event gets in all; retryAttempts of the service."),
    DIALECT_KEY("delays", KEY_STEPS, "10: 10s, 20: 60s, 40: 300s, *: 1440s", "1s", "30d", offsetof(delayed_config_t, delays),
                true,
                "How long after an attempt the next one is due, as \"BELOW: DELAY\" for attempts below a number, and * for all "
                "later attempts."),
};

static const config_refusal_t delayed_refusals[] = {
    {"ready", "`prefix` and `types` name its lists", false},
    {"delayed", "`prefix` names it", false},
    {"backup", "delayedQueue has no list of jobs in progress", false},
    {"errors", "delayedQueue's workers report no errors: an event that was not handled stays where it is", false},
    {"dlq", "the audit log keeps ended events", false},
    {"alive_timeout alive_kills", "an event lives as long as it has attempts: `retry_attempts` and `delays`", false},
    {"heartbeat", "delayedQueue has no heartbeats: an event is sent again after its delay until a handler removes it", false},
    {"retry_times", "`retry_attempts` takes its place", false},
    {"retry_window", "an event counts its attempts itself", false},
    {"retry_backoff retry_delay retry_delay_max retry_jitter", "`delays` takes its place", false},
    {"ready_limit", "delayedQueue sends due events, however long its lists are", false},
    {"score_unit", "its scores are milliseconds", false},
    {"id_path created_path type_path", "an event's member says its class and id", false},
    {"end_duplicates", "an event is known by its id, so there are no duplicates", false},
};

// Like Class.getSimpleName: the part after the last dot. Of a nested class: the part after the last dollar. Of a local class:
// that part without its number. Borrowed; may be empty.
static const char *delayed_simple_name(const char *class) {
    const char *dot = strrchr(class, '.');
    const char *name = dot ? dot + 1 : class;
    const char *dollar = strrchr(name, '$');
    if (!dollar) return name;
    return dollar + 1 + strspn(dollar + 1, "0123456789");
}

#define ASCII_NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$."

// Accepts letters and digits of any language, _, $ and dots between names. Refuses bytes that JSON escapes, and #, which ends the
// class in a member.
static bool delayed_is_class_name(const char *text) {
    if (!*text || *text == '.' || text[strlen(text) - 1] == '.' || strstr(text, "..")) return false;
    while (*text && (strchr(ASCII_NAME_CHARS, *text) || (unsigned char)*text >= 0x80)) text++;
    return !*text;
}

static void delayed_add_type(derive_t *derive, const char *class, const char *list) {
    const queue_config_t *queue = derive->queue;
    delayed_config_t *own = delayed_config(queue);
    char *key = mem_printf("%s%s", queue->prefix, list);
    if (strings_has(&own->classes, class))
        derive_error(derive, "types", "`types` names the class \"%s\" twice", class);
    else if (strings_has(&own->lists, key))
        derive_warning(derive, "types", "`types` gives the list \"%s\" to two classes: their workers take each other's events",
                       key);
    strings_add(&own->classes, class);
    strings_add(&own->lists, key);
    free(key);
}

static void delayed_read_type(derive_t *derive, const char *given) {
    size_t len = strcspn(given, "=");
    char *class = mem_printf("%.*s", (int)len, given);
    char *list = mem_str(given[len] ? given + len + 1 : delayed_simple_name(class));
    char *shown = derive_quote(given);
    if (!delayed_is_class_name(class)) {
        derive_error(derive, "types", "`types` has %s, which is not the name of a Java class, or CLASS=LIST", shown);
    } else if (given[len] && !*list) {
        derive_error(derive, "types", "`types` has %s without a list after the =", shown);
    } else if (!given[len] && (!*list || list[strspn(list, ASCII_NAME_CHARS)])) {
        // String.toLowerCase follows the JVM's locale, so the list of a class with other letters is unknown.
        derive_error(derive, "types",
                     "`types` has %s, whose list does not follow from its name: write \"%s=LIST\", without the prefix", shown,
                     given);
    } else {
        for (char *at = list; !given[len] && *at; at++) *at = (char)tolower((unsigned char)*at);
        delayed_add_type(derive, class, list);
    }
    free(shown);
    free(list);
    free(class);
}

static void delayed_derive(derive_t *derive) {
    queue_config_t *queue = derive->queue;
    delayed_config_t *own = delayed_config(queue);
    if (!derive_is_given(derive, "types"))
        derive_error(derive, "types",
                     "it has no `types`: dialect delayed_queue needs the classes of its events, such as "
                     "[\"com.example.PaymentCheck\"]");
    for (size_t i = 0; i < own->types.count; i++) delayed_read_type(derive, own->types.items[i]);
    derive_text(&queue->delayed, mem_printf("%sdelayed_events", queue->prefix));
    derive_text(&own->events, mem_printf("%sevents", queue->prefix));
    if (queue->policy.roles != (ROLE_DISPATCHER | ROLE_MONITOR))
        derive_error(
            derive, "roles",
            "dialect delayed_queue needs both roles: the dispatcher sends events, and without the monitor none is ever ended");
}

static void delayed_release(void *settings) {
    delayed_config_t *own = settings;
    strings_free(&own->lists);
    strings_free(&own->classes);
    free(own->events);
}

static void delayed_redis_keys(const queue_config_t *queue, redis_keys_t *out) {
    const delayed_config_t *own = delayed_config(queue);
    redis_keys_add(out, &(redis_key_t){"delayed", "prefix", queue->delayed, "zset", KEY_WRITES, SIZE_DELAYED, false, false});
    redis_keys_add(out, &(redis_key_t){"events", "prefix", own->events, "hash", KEY_WRITES, SIZE_NONE, false, false});
    for (size_t i = 0; i < own->lists.count; i++)
        redis_keys_add(out, &(redis_key_t){"ready", "types", own->lists.items[i], "list", KEY_WRITES, SIZE_READY, false, false});
}

const config_dialect_t delayed_settings = {
    .name = "delayed_queue",
    .keys = delayed_keys,
    .key_count = sizeof delayed_keys / sizeof *delayed_keys,
    .own_size = sizeof(delayed_config_t),
    .refusals = delayed_refusals,
    .refusal_count = sizeof delayed_refusals / sizeof *delayed_refusals,
    .prefix = "de_",
    .delays = true,
    .derive = delayed_derive,
    .release = delayed_release,
    .redis_keys = delayed_redis_keys,
};
