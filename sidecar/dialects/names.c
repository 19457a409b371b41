// The survey of the dialects whose keys have names that people choose. These keys come and go with the jobs, so their absence
// alone says nothing: a key with nearly the same name does. Another system's own keys beside a key of the queue tell that the key
// is its.
#include "dialects/names.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/json/json.h"
#include "base/keyset.h"
#include "base/text/suggest.h"
#include "config/dialect.h"
#include "redis/reply.h"

enum { MAX_MS = 200 }; // of each walk through all keys

// How another system names its keys: a key of it has `part`, and what stands before `part` begins the names of `marks`.
typedef struct names_system {
    const char *name, *part;
    bool at_end;          // of the key
    int64_t least;        // this many of `marks` must exist
    const char *marks[7]; // NULL ends them
} names_system_t;

#define BULL_MARKS                                                                                                               \
    { ":id", ":meta", ":events", ":completed", ":failed", ":stalled-check", NULL }
static const names_system_t SYSTEMS[] = {
    {"Bull or BullMQ", ":delayed", true, 2,
     BULL_MARKS}, // OptimalBits/bull lib/queue.js; taskforcesh/bullmq src/classes/queue-keys.ts
    {"Bull or BullMQ", ":wait", true, 2, BULL_MARKS},
    {"Bull or BullMQ", ":active", true, 2, BULL_MARKS},
    {"Bull or BullMQ", ":events", true, 2, BULL_MARKS},
    {"RQ, Resque or Sidekiq", "queue:", false, 1, {"queues", NULL}}, // rq/queue.py, redis_queues_keys; sidekiq
                                                                     // lib/sidekiq/client.rb
    {"asynq", "asynq:{", false, 1, {"asynq:queues", NULL}},          // hibiken/asynq internal/base/base.go, AllQueues
    {"delayedQueue", "delayed_events", true, 1, {"events", NULL}},
};

typedef struct names {
    const call_t *call;
    survey_report_fn *report;
    void *self;
    bool *unused;        // owned; of each queue: none of its keys exists
    keymap_t configured; // owned; digests of the keys of all queues
} names_t;

static const queue_config_t *names_queue(const names_t *names, size_t i) {
    const queue_config_t *queue = names->call->keys->queues[i].config;
    return queue->dialect == names->call->keys->queues[names->call->queue].config->dialect ? queue : NULL;
}

// The place of the system's part in the key; NULL = the key has another form.
static const char *names_part(const names_system_t *system, const char *key) {
    size_t len = strlen(key), part = strlen(system->part);
    if (!system->at_end) return strstr(key, system->part);
    return len >= part && strcmp(key + len - part, system->part) == 0 ? key + len - part : NULL;
}

// Appends EXISTS of the system's own keys, if `append`. False: it does not, because in a Cluster they are in another slot.
static bool names_ask_marks(const names_t *names, const names_system_t *system, const char *key, const char *part, bool append) {
    conn_t *conn = names->call->conn;
    bool asks = true;
    for (size_t i = 0; asks && system->marks[i]; i++) {
        char *mark = mem_printf("%.*s%s", (int)(part - key), key, system->marks[i]);
        asks = i > 0 || !names->call->keys->per_tag || keyspace_slot(mark) == keyspace_slot(key);
        if (asks && append && i == 0) request_begin(conn, "EXISTS", mark);
        if (asks && append && i > 0) request_text(conn, mark);
        free(mark);
    }
    if (asks && append) request_end(conn);
    return asks;
}

static int64_t names_read(const names_t *names) {
    redis_error_t refusal; // the preflight names each missing right
    redisReply *reply = conn_read_or_refusal(names->call->conn, &refusal, names->call->error);
    int64_t number = reply ? reply_int(reply) : -1;
    conn_reply_free(reply);
    return number;
}

static void names_report_system(const names_t *names, size_t queue, const char *key, const names_system_t *system) {
    char *text =
        mem_printf("its key \"%s\" seems to be of %s, whose own keys are beside it: the sidecar would take its entries for "
                   "jobs of another form. Use other names, or the dialect of that system",
                   key, system->name);
    names->report(names->self, true, queue, text);
    free(text);
}

// Both passes go through the same requests: the first one appends them, the second one reads the replies.
static void names_pass(names_t *names, size_t i, bool read) {
    redis_keys_t keys = config_redis_keys(names_queue(names, i));
    bool reported = false;
    if (!read) request_begin(names->call->conn, "EXISTS", names->call->keys->queues[i].stamps);
    for (size_t k = 0; k < keys.count && !read && !names->call->keys->per_tag; k++)
        if (!keys.items[k].pattern && !config_key_is_shared(&keys.items[k])) request_text(names->call->conn, keys.items[k].name);
    if (!read) request_end(names->call->conn);
    if (read) names->unused[i] = names_read(names) == 0;
    for (size_t k = 0; k < keys.count; k++)
        for (const names_system_t *system = SYSTEMS; system < SYSTEMS + sizeof SYSTEMS / sizeof *SYSTEMS; system++) {
            const char *key = keys.items[k].name, *part = keys.items[k].pattern ? NULL : names_part(system, key);
            if (!part || !names_ask_marks(names, system, key, part, !read) || !read) continue;
            if (names_read(names) < system->least || reported) continue;
            names_report_system(names, i, key, system);
            reported = true;
        }
    config_redis_keys_free(&keys);
}

// ---- Keys that an option names, while the key of the default name is there.

static void names_load_configured(names_t *names) {
    const config_t *config = names->call->keys->config;
    for (size_t i = 0; i < config->queue_count; i++) {
        redis_keys_t keys = config_redis_keys(&config->queues[i]);
        for (size_t k = 0; k < keys.count; k++)
            keymap_put(&names->configured, digest_of(keys.items[k].name, strlen(keys.items[k].name)).bytes);
        config_redis_keys_free(&keys);
    }
}

static bool names_is_configured(const names_t *names, const char *key) {
    return strncmp(key, "sidecar:", 8) == 0 || keymap_find(&names->configured, digest_of(key, strlen(key)).bytes);
}

// The name that the key has without its option; owned. NULL: the key has that name, or a queue of this config does, or in a
// Cluster it is in another slot.
static char *names_default(const names_t *names, const queue_config_t *queue, const redis_key_t *key) {
    static const char name[] = "<name>";
    const config_key_t *option = key->pattern ? NULL : config_queue_key_find(queue->dialect, key->option);
    if (!option || !option->fallback || strncmp(option->fallback, name, sizeof name - 1) != 0) return NULL;
    char *text = mem_printf("%s%s", queue->name, option->fallback + sizeof name - 1);
    bool apart = names->call->keys->per_tag && keyspace_slot(text) != keyspace_slot(key->name);
    if (!apart && !names_is_configured(names, text)) return text;
    free(text);
    return NULL;
}

static void names_pass_defaults(const names_t *names, size_t i, bool read) {
    const queue_config_t *queue = names_queue(names, i);
    redis_keys_t keys = config_redis_keys(queue);
    for (size_t k = 0; k < keys.count; k++) {
        const redis_key_t *key = &keys.items[k];
        char *usual = names_default(names, queue, key);
        if (usual && !read) {
            request_append(names->call->conn, "TYPE", usual);
            request_append(names->call->conn, "EXISTS", key->name);
        } else if (usual) {
            redis_error_t refusal;
            redisReply *type = conn_read_or_refusal(names->call->conn, &refusal, names->call->error);
            bool meant = key->type && reply_is(type, key->type), absent = names_read(names) == 0;
            char *text =
                mem_printf("its key \"%s\" does not exist, but \"%s\" does, the default of `%s`: jobs there are not seen",
                           key->name, usual, key->option);
            if (meant && absent) names->report(names->self, false, i, text);
            free(text);
            conn_reply_free(type);
        }
        free(usual);
    }
    config_redis_keys_free(&keys);
}

// ---- Keys with nearly the same name.

// The main key of a queue, which has the jobs that wait, is the first one of each dialect.
static bool names_is_near_main(const queue_config_t *queue, const char *key) {
    redis_keys_t keys = config_redis_keys(queue);
    bool near = suggest_nearest(keys.items[0].name, &key, 1) != NULL;
    config_redis_keys_free(&keys);
    return near;
}

static const char *names_main_type(const queue_config_t *queue) {
    redis_keys_t keys = config_redis_keys(queue);
    const char *type = keys.items[0].type; // no part of the keys
    config_redis_keys_free(&keys);
    return type;
}

// Compares a key with the main key of each unused queue. The first near one of a queue is reported.
static void names_compare(names_t *names, const char *key) {
    if (names_is_configured(names, key)) return;
    for (size_t i = names->call->queue; i < names->call->keys->queue_count; i++) {
        if (!names->unused[i] || !names_is_near_main(names_queue(names, i), key)) continue;
        buffer_t text = {0};
        buffer_str(&text, "none of its keys exists; near: ");
        json_write_string(&text, slice_text(key));
        names->report(names->self, false, i, buffer_text(&text));
        buffer_free(&text);
        names->unused[i] = false;
    }
}

// Ends without a result if Redis refuses SCAN, which is an optional right. In a large database the walk may end early. A main
// key says most; the name of a zset is compared without its end, as of "emails:delayed".
static outcome_t names_find_near(names_t *names, const char *type, const char *end) {
    redis_error_t refusal = {0};
    char cursor[24] = "0";
    mono_t until = mono_add(mono_now(), MAX_MS * NS_PER_MS);
    do {
        request_append(names->call->conn, "SCAN", cursor, "COUNT", "1000", "TYPE", type);
        redisReply *reply = conn_read_or_refusal(names->call->conn, &refusal, names->call->error);
        const redisReply *keys = reply_at(reply, 1);
        for (size_t i = 0; reply_at(keys, i); i++) {
            char *key = mem_str(reply_text(reply_at(keys, i)));
            size_t len = strlen(key), cut = strlen(end);
            if (len > cut && strcmp(key + len - cut, end) == 0) {
                key[len - cut] = '\0';
                names_compare(names, key);
            }
            free(key);
        }
        snprintf(cursor, sizeof cursor, "%s", reply_text(reply_at(reply, 0)));
        conn_reply_free(reply);
    } while (*cursor && strcmp(cursor, "0") != 0 && !mono_reached(until, mono_now()));
    return names->call->error->outcome;
}

outcome_t names_survey(const call_t *call, survey_report_fn *report, void *self) {
    names_t names = {.call = call, .report = report, .self = self};
    bool any = false;
    names.unused = mem_array(call->keys->queue_count, sizeof *names.unused);
    *call->error = (redis_error_t){0};
    names_load_configured(&names);
    for (int read = 0; read < 2; read++)
        for (size_t i = call->queue; i < call->keys->queue_count; i++)
            if (names_queue(&names, i)) names_pass(&names, i, read);
    const bool well = call->error->outcome == OUTCOME_OK; // every reply is read, also behind an error
    for (int read = 0; read < 2 && well; read++)
        for (size_t i = call->queue; i < call->keys->queue_count; i++)
            if (names_queue(&names, i)) names_pass_defaults(&names, i, read);
    for (size_t i = 0; i < call->keys->queue_count; i++) any |= names.unused[i];
    const char *type = names_main_type(call->keys->queues[call->queue].config);
    if (any && call->error->outcome == OUTCOME_OK && names_find_near(&names, type, "") == OUTCOME_OK)
        names_find_near(&names, "zset", ":delayed");
    free(names.unused);
    keymap_free(&names.configured);
    return call->error->outcome;
}
