#include "config/dialects.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "config/lists.h"
#include "config/value.h"

// What takes the place of a setting in a dialect that cannot honour it. `keys` are separated by spaces.
static const struct {
    dialect_t dialect;
    const char *keys;
    const char *instead;
} instead_of[] = {
    {DIALECT_KMQUEUE, "ready", "`queues` names its lists"},
    {DIALECT_KMQUEUE, "delayed", "KMQueue delays nothing"},
    {DIALECT_KMQUEUE, "errors", "KMQueue's workers report no errors: a task whose handler throws counts as done"},
    {DIALECT_KMQUEUE, "retry_backoff retry_delay retry_delay_max retry_jitter",
     "KMQueue has no delayed zset, so a retry goes back at once"},
    {DIALECT_KMQUEUE, "retry_window", "a task counts its retries itself, in taskStatus.retry"},
    {DIALECT_KMQUEUE, "ready_limit", "KMQueue delays nothing, so nothing is promoted"},
    {DIALECT_KMQUEUE, "score_unit", "KMQueue's times are milliseconds"},
    {DIALECT_KMQUEUE, "id_path created_path type_path", "a task says it itself: id, taskStatus.genTimestamp and type"},

    {DIALECT_DELAYED_QUEUE, "ready", "`prefix` and `types` name its lists"},
    {DIALECT_DELAYED_QUEUE, "delayed", "`prefix` names it"},
    {DIALECT_DELAYED_QUEUE, "backup", "delayedQueue has no list of jobs in progress"},
    {DIALECT_DELAYED_QUEUE, "errors", "delayedQueue's workers report no errors: an event that was not handled stays where it is"},
    {DIALECT_DELAYED_QUEUE, "dlq", "the audit log keeps what is ended"},
    {DIALECT_DELAYED_QUEUE, "alive_timeout alive_kills",
     "an event lives as long as it has attempts: `retry_attempts` and `delays`"},
    {DIALECT_DELAYED_QUEUE, "heartbeat",
     "delayedQueue knows none: an event is sent again after its delay until a handler removes it"},
    {DIALECT_DELAYED_QUEUE, "retry_times", "`retry_attempts` takes its place"},
    {DIALECT_DELAYED_QUEUE, "retry_window", "an event counts its attempts itself"},
    {DIALECT_DELAYED_QUEUE, "retry_backoff retry_delay retry_delay_max retry_jitter", "`delays` takes its place"},
    {DIALECT_DELAYED_QUEUE, "ready_limit", "delayedQueue sends what is due, however long its lists are"},
    {DIALECT_DELAYED_QUEUE, "score_unit", "its scores are milliseconds"},
    {DIALECT_DELAYED_QUEUE, "id_path created_path type_path", "an event's member says its class and id"},
    {DIALECT_DELAYED_QUEUE, "end_duplicates", "an event is known by its id, so there are no duplicates"},

    {DIALECT_BULL, "ready delayed backup", "`prefix` and `bull_queue` name its keys"},
    {DIALECT_BULL, "errors", "Bull keeps errors in the job and in its set failed, which `record_failed` is about"},
    {DIALECT_BULL, "dlq", "Bull keeps failed jobs in its set failed"},
    {DIALECT_BULL, "protected_timeout",
     "`stalled_interval` takes its place, and the worker's lockDuration says how long a job is safe without a sign of life"},
    {DIALECT_BULL, "alive_kills",
     "a job that is ended under a worker that renews its lock would fail that worker's own end of it"},
    {DIALECT_BULL, "heartbeat", "the job's lock is its heartbeat: lockDuration and lockRenewTime of the worker's settings"},
    {DIALECT_BULL, "retry_times",
     "`max_stalled` takes its place for workers that die, and the job option attempts for handlers that fail"},
    {DIALECT_BULL, "retry_window", "a job counts its stalls itself, for ever"},
    {DIALECT_BULL, "retry_backoff retry_delay retry_delay_max retry_jitter", "Bull's job option backoff takes its place"},
    {DIALECT_BULL, "ready_limit", "Bull's option limiter takes its place"},
    {DIALECT_BULL, "score_unit", "Bull's scores are its own"},
    {DIALECT_BULL, "id_path created_path type_path", "the job's hash says it: its id, timestamp and name"},
    {DIALECT_BULL, "end_duplicates", "Bull's jobs have ids, so there are no duplicates"},

    {DIALECT_PRIVATE_QUEUES, "ready", "`main` names it"},
    {DIALECT_PRIVATE_QUEUES, "delayed", "nothing is delayed in private lists"},
    {DIALECT_PRIVATE_QUEUES, "backup", "`private` or `registry` names the lists of jobs in progress"},
    {DIALECT_PRIVATE_QUEUES, "errors", "workers report by the list `dlq`"},
    {DIALECT_PRIVATE_QUEUES, "retry_backoff retry_delay retry_delay_max retry_jitter",
     "there is no delayed zset, so a retry goes back at once"},
    {DIALECT_PRIVATE_QUEUES, "ready_limit", "nothing is delayed, so nothing is promoted"},
};

static bool stands_in(const char *word, const char *words) {
    size_t len = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += len) {
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0')) return true;
    }
    return false;
}

bool config_dialect_takes(const config_key_t *key, dialect_t dialect, const node_t *node) {
    if (config_key_of_dialect(key, dialect)) return true;
    return (key->fixed & DIALECT_BIT(dialect)) && node->kind == NODE_TEXT && strcmp(node->text, key->fallback) == 0;
}

static void add_homes(const config_key_t *key, buffer_t *out) {
    const char *between = "";
    for (size_t i = 0; i < DIALECT_COUNT; i++) {
        if (!config_key_of_dialect(key, (dialect_t)i)) continue;
        buffer_printf(out, "%s%s", between, config_dialect_word((dialect_t)i));
        unsigned left = key->dialects >> (i + 1);
        between = left & (left - 1) ? ", " : " and ";
    }
}

void config_dialect_refuse(const config_key_t *key, dialect_t dialect, buffer_t *out) {
    for (size_t i = 0; i < sizeof instead_of / sizeof *instead_of; i++) {
        if (instead_of[i].dialect != dialect || !stands_in(key->name, instead_of[i].keys)) continue;
        if (key->fixed & DIALECT_BIT(dialect))
            buffer_printf(out, "must be \"%s\" in dialect %s: %s", key->fallback, config_dialect_word(dialect),
                          instead_of[i].instead);
        else
            buffer_printf(out, "is not for dialect %s: %s", config_dialect_word(dialect), instead_of[i].instead);
        return;
    }
    buffer_str(out, "is for ");
    add_homes(key, out);
    buffer_str(out, ": remove it, or set `dialect`");
}

// A queue while its dialect is worked out.
typedef struct derive {
    load_t *load;
    size_t place;
    queue_config_t *queue;
    queue_location_t *location;
    const char *prefix;
} derive_t;

static void fault(const derive_t *m, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void fault(const derive_t *m, const char *key, const char *format, ...) {
    buffer_t text = {0};
    va_list args;
    va_start(args, format);
    buffer_vprintf(&text, format, args);
    va_end(args);
    const location_t *location = config_load_location(m->load, m->place, key);
    diagnostic_add(m->load->faults, location->file, location->line, "%s%s", m->prefix, buffer_text(&text));
    buffer_free(&text);
    m->location->faulty = true;
}

static void warn(const derive_t *m, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void warn(const derive_t *m, const char *key, const char *format, ...) {
    buffer_t text = {0};
    va_list args;
    va_start(args, format);
    buffer_vprintf(&text, format, args);
    va_end(args);
    const location_t *location = config_load_location(m->load, m->place, key);
    diagnostic_add(m->load->warnings, location->file, location->line, "%s%s", m->prefix, buffer_text(&text));
    buffer_free(&text);
}

static bool is_given(const derive_t *m, const char *name) {
    return config_load_location(m->load, m->place, name) != &m->location->self;
}

// As the file has it, so that no byte of it reaches a terminal as it is. Owned.
static char *quoted(const char *text) {
    buffer_t out = {0};
    config_value_quote(text, &out);
    return out.data;
}

static void put(char **field, char *owned) {
    free(*field);
    *field = owned;
}

// A name as Java's trim leaves it, without its bytes up to a space at both ends. Owned.
static char *java_trim(const char *text, size_t len) {
    while (len && (unsigned char)*text <= ' ') text++, len--;
    while (len && (unsigned char)text[len - 1] <= ' ') len--;
    return mem_printf("%.*s", (int)len, text);
}

// One name as KMQueueManager.init reads it (Trekkiii/KMQueue 4241368, KMQueueManager.java 88-97): trimmed, split at colons, where
// Java drops empty parts at the end; with exactly two parts the second is the mode.
typedef struct km_name {
    char *digested; // what KMQUtils.genBackUpQueueName takes of it: not trimmed again
    char *key;
    char *mode; // "" = none
} km_name_t;

static km_name_t km_read(const char *given) {
    char *whole = java_trim(given, strlen(given));
    size_t len = strlen(whole);
    while (len && whole[len - 1] == ':') len--;
    whole[len] = '\0';
    size_t first = strcspn(whole, ":");
    const char *rest = whole[first] ? whole + first + 1 : "";
    km_name_t name = {.digested = mem_printf("%.*s", (int)first, whole),
                      .key = java_trim(whole, first),
                      .mode = strchr(rest, ':') ? mem_str("") : java_trim(rest, strlen(rest))};
    free(whole);
    return name;
}

// Returns whether the name makes a safe queue of a new key.
static bool km_take(const derive_t *m, const char *given, buffer_t *digested) {
    dialect_config_t *own = &m->queue->own;
    km_name_t name = km_read(given);
    char *shown = quoted(given);
    bool safe = false;
    buffer_str(digested, name.digested);
    if (!*name.key) {
        fault(m, "queues",
              "`queues` has %s, which names no queue: KMQueueManager stops there, \"The current queue name is empty!\"", shown);
    } else if (*name.mode && strcmp(name.mode, "default") != 0 && strcmp(name.mode, "safe") != 0) {
        fault(m, "queues",
              "`queues` has %s, but KMQueue knows only the modes default and safe: KMQueueManager stops there, \"The current "
              "queue mode is invalid\"",
              shown);
    } else if (strings_has(&own->lists, name.key)) {
        warn(m, "queues", "`queues` has %s, whose queue stands before it: KMQueueManager keeps the first, and so is it here",
             shown);
    } else {
        char *unique = mem_printf("%s_unique", name.key);
        strings_add(&own->lists, name.key);
        strings_add(&own->uniques, unique);
        safe = strcmp(name.mode, "safe") == 0;
        free(unique);
    }
    free(shown);
    free(name.digested);
    free(name.key);
    free(name.mode);
    return safe;
}

static void make_kmqueue(const derive_t *m) {
    const strings_t *given = &m->queue->own.queues;
    buffer_t digested = {0};
    bool safe = false;
    if (!is_given(m, "queues"))
        fault(m, "queues",
              "it has no `queues`: dialect kmqueue needs the names that KMQueueManager is given, such as [\"mail:safe\"]");
    for (size_t i = 0; i < given->count; i++) safe |= km_take(m, given->items[i], &digested);
    if (given->count && !safe && !m->location->faulty)
        fault(m, "queues", "none of `queues` is :safe: KMQueue keeps a list of tasks in progress for safe queues only");
    if (!is_given(m, "backup") && given->count) {
        char base64[DIGEST_MD5_BASE64_SIZE];
        digest_md5_base64(digested.data, digested.len, base64);
        put(&m->queue->backup, mem_printf("back_up_queue_%s", base64));
    }
    if (m->load->config->redis.db != 0)
        fault(m, "dialect", "KMQueue works in database 0 only, but `redis.db` is %lld", (long long)m->load->config->redis.db);
    buffer_free(&digested);
}

// What Class.getSimpleName makes of a name: what follows the last dot, of a nested class what follows its last dollar, and of a
// local one that without its number. Borrowed; may be empty.
static const char *simple_name(const char *class) {
    const char *dot = strrchr(class, '.');
    const char *name = dot ? dot + 1 : class;
    const char *dollar = strrchr(name, '$');
    if (!dollar) return name;
    return dollar + 1 + strspn(dollar + 1, "0123456789");
}

static bool is_ascii(const char *text) {
    for (; *text; text++) {
        if ((unsigned char)*text >= 0x80) return false;
    }
    return true;
}

// Letters and digits of any language, _, $ and dots between names; nothing that JSON would escape, and no #, which ends the class
// in a member.
static bool is_class(const char *text) {
    if (!*text || *text == '.' || text[strlen(text) - 1] == '.' || strstr(text, "..")) return false;
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$.";
    for (; *text; text++) {
        if ((unsigned char)*text < 0x80 && !strchr(letters, *text)) return false;
    }
    return true;
}

static char *lower_case(const char *text) {
    char *lower = mem_str(text);
    for (char *at = lower; *at; at++) {
        if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
    }
    return lower;
}

static void add_type(const derive_t *m, const char *class, const char *list) {
    dialect_config_t *own = &m->queue->own;
    char *key = mem_printf("%s%s", own->prefix, list);
    if (strings_has(&own->classes, class))
        fault(m, "types", "`types` names the class \"%s\" twice", class);
    else if (strings_has(&own->lists, key))
        warn(m, "types", "`types` gives the list \"%s\" to two classes: their workers take each other's events", key);
    strings_add(&own->classes, class);
    strings_add(&own->lists, key);
    free(key);
}

static void take_type(const derive_t *m, const char *given) {
    size_t len = strcspn(given, "=");
    char *class = mem_printf("%.*s", (int)len, given);
    const char *name = simple_name(class);
    char *shown = quoted(given);
    if (!is_class(class)) {
        fault(m, "types", "`types` has %s, which is not the name of a Java class, or CLASS=LIST", shown);
    } else if (given[len]) {
        if (given[len + 1])
            add_type(m, class, given + len + 1);
        else
            fault(m, "types", "`types` has %s without a list after the =", shown);
    } else if (!*name || !is_ascii(name)) {
        // String.toLowerCase follows the locale of the JVM.
        fault(m, "types", "`types` has %s, whose list cannot be told from its name: write \"%s=LIST\", without the prefix", shown,
              given);
    } else {
        char *list = lower_case(name);
        add_type(m, class, list);
        free(list);
    }
    free(shown);
    free(class);
}

static void make_delayed_queue(const derive_t *m) {
    dialect_config_t *own = &m->queue->own;
    if (!is_given(m, "types"))
        fault(m, "types",
              "it has no `types`: dialect delayed_queue needs the classes of its events, such as [\"com.example.PaymentCheck\"]");
    for (size_t i = 0; i < own->types.count; i++) take_type(m, own->types.items[i]);
    put(&m->queue->delayed, mem_printf("%sdelayed_events", own->prefix));
    put(&own->events, mem_printf("%sevents", own->prefix));
    if (m->queue->policy.roles != (ROLE_DISPATCHER | ROLE_MONITOR))
        fault(m, "roles",
              "dialect delayed_queue needs both roles: the dispatcher sends events, and without the monitor none is ever ended");
}

static void make_bull(const derive_t *m) {
    dialect_config_t *own = &m->queue->own;
    if (!*own->prefix) fault(m, "prefix", "`prefix` is \"\", but Bull's has 1 to 256 bytes");
    put(&own->base, mem_printf("%s:%s", own->prefix, own->bull_queue));
    put(&m->queue->delayed, mem_printf("%s:delayed", own->base));
    put(&m->queue->ready, mem_printf("%s:wait", own->base));
}

static void make_private_queues(const derive_t *m) {
    const dialect_config_t *own = &m->queue->own;
    const char *star = strchr(own->private, '*');
    if (!is_given(m, "main"))
        fault(m, "main", "it has no `main`: dialect private_queues needs the list that workers move jobs from");
    put(&m->queue->ready, mem_str(own->main));
    if (*own->private && (!star || strchr(star + 1, '*')))
        fault(m, "private", "`private` is \"%s\", but must hold one * for the worker's name, such as \"queue-*\"", own->private);
    else if (strcmp(own->private, "*") == 0 && !*own->registry)
        fault(m, "private",
              "`private` is \"*\", which every list of the database fits, and their entries would go to `main`: give what the "
              "names of "
              "the private lists have in common, such as \"queue-*\", or a `registry`");
    else if (!*own->private && !*own->registry && !is_given(m, "private") && !is_given(m, "registry"))
        fault(m, "private",
              "it has neither `private` nor `registry`: dialect private_queues needs one of them to find the private lists");
    else if (!*own->private && !*own->registry)
        fault(m, "private",
              "`private` and `registry` are both empty: dialect private_queues needs one of them to find the private lists");
    if (*own->dedup && !*m->queue->policy.id_path)
        fault(m, "dedup", "`dedup` holds ids of jobs, but `id_path` does not say where a job has its id");
    const config_key_t *heartbeat = config_key_find("queue", "heartbeat");
    if (!is_given(m, "heartbeat") && m->load->keys[config_key_row(heartbeat)].line)
        warn(m, "heartbeat",
             "`heartbeat` of `defaults` is not for dialect private_queues, where * is the worker's name: give it in the queue, "
             "or \"off\"");
}

// Settings that the dialect does not know stay at their defaults, whatever `defaults` says for others.
static void reset_policy(const derive_t *m) {
    buffer_t why = {0};
    for (size_t row = 0; row < config_key_count; row++) {
        const config_key_t *key = &config_keys[row];
        if (!config_key_in_policy(key) || config_key_of_dialect(key, m->queue->dialect)) continue;
        if (!config_value_set_text(key, key->fallback, &m->queue->policy, &why)) abort(); // the table contradicts itself
        m->location->keys[row].origin = ORIGIN_DEFAULT;
    }
    buffer_free(&why);
    bool of_jobs = m->queue->dialect == DIALECT_LIST || m->queue->dialect == DIALECT_KMQUEUE;
    if (of_jobs || is_given(m, "heartbeat")) return;
    put(&m->queue->policy.heartbeat, mem_str("off"));
    m->location->keys[config_key_row(config_key_find("queue", "heartbeat"))].origin = ORIGIN_DEFAULT;
}

// Where nothing is ever delayed there is nothing to dispatch.
static void limit_roles(const derive_t *m) {
    if (m->queue->dialect != DIALECT_KMQUEUE && m->queue->dialect != DIALECT_PRIVATE_QUEUES) return;
    unsigned *roles = &m->queue->policy.roles;
    const char *word = config_dialect_word(m->queue->dialect);
    if (is_given(m, "roles") && (*roles & ROLE_DISPATCHER))
        fault(m, "roles",
              "`roles` must be [\"monitor\"] in dialect %s: nothing is delayed there, so there is nothing to dispatch", word);
    else if (!(*roles & ROLE_MONITOR))
        fault(m, "roles", "`roles` of `defaults` leaves dialect %s nothing to do: give it roles = [\"monitor\"]", word);
    *roles &= ROLE_MONITOR;
}

// Names made of several parts of the config keep clear of our own, as those that stand there do.
static void check_names(const derive_t *m) {
    redis_keys_t keys = config_redis_keys(m->queue);
    for (size_t i = 0; i < keys.count; i++) {
        if (strncmp(keys.items[i].name, "sidecar:", 8) != 0) continue;
        fault(m, keys.items[i].option, "its key `%s` begins with \"sidecar:\", as only ours do: choose another `%s`",
              keys.items[i].name, keys.items[i].option);
        break;
    }
    config_redis_keys_free(&keys);
}

static void fill_texts(queue_config_t *queue) {
    char **derived[] = {&queue->own.events, &queue->own.base};
    for (size_t i = 0; i < sizeof derived / sizeof *derived; i++) *derived[i] = mem_str("");
    for (size_t row = 0; row < config_key_count; row++) {
        const config_key_t *key = &config_keys[row];
        if (strcmp(key->section, "queue-only") != 0 || strcmp(key->name, "name") == 0) continue;
        char **text = (char **)(void *)((char *)queue + key->at);
        if (key->type >= KEY_TEXT && key->type <= KEY_POINTER && !*text) *text = mem_str("");
    }
}

void config_load_dialect(load_t *load, size_t queue, const char *prefix) {
    static void (*const make[])(const derive_t *) = {
        [DIALECT_LIST] = NULL,
        [DIALECT_KMQUEUE] = make_kmqueue,
        [DIALECT_DELAYED_QUEUE] = make_delayed_queue,
        [DIALECT_BULL] = make_bull,
        [DIALECT_PRIVATE_QUEUES] = make_private_queues,
    };
    derive_t m = {
        .load = load, .place = queue, .queue = &load->config->queues[queue], .location = &load->queues[queue], .prefix = prefix};
    fill_texts(m.queue);
    limit_roles(&m);
    reset_policy(&m);
    if (make[m.queue->dialect]) make[m.queue->dialect](&m);
    check_names(&m);
}
