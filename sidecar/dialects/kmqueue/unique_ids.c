#include "dialects/kmqueue/unique_ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/log.h"
#include "dialects/kmqueue/config.h"
#include "dialects/kmqueue/task.h"
#include "redis/reply.h"

enum {
    LOOK_EVERY_MS = 60000,
    LOOK_LEAST_MS = 100, // between the two looks that a mark must stand in
    TOLD_BYTES = 1024,
};

static const char ROLE[] = "monitor";

// While no task waits or is in progress every mark is one without a task. Two looks must say so, a protected timeout apart: what
// is on its way between two lists is in none.
typedef struct watch {
    const queue_config_t *config; // borrowed
    bool quiet;                   // the last look found no task
    mono_t at;                    // when `before` was found
    int64_t *before;              // owned; marks of each list in an earlier look, with no task then and since
    int64_t *found;               // owned; in this look
    int64_t told;                 // in all lists
} watch_t;

static void *watch_open(const queue_keys_t *keys) {
    watch_t *watch = mem_alloc(sizeof *watch);
    watch->config = keys->config;
    watch->before = mem_array(kmqueue_config(keys->config)->lists.count, sizeof *watch->before);
    watch->found = mem_array(kmqueue_config(keys->config)->lists.count, sizeof *watch->found);
    return watch;
}

static void watch_close(void *self) {
    watch_t *watch = self;
    free(watch->before);
    free(watch->found);
    free(watch);
}

static void watch_forget(void *self) { ((watch_t *)self)->quiet = false; }

static void ask(conn_t *conn, const char *command, const char *key) {
    request_begin(conn, command);
    request_text(conn, key);
    request_end(conn);
}

static void append_look(conn_t *conn, const queue_config_t *queue) {
    ask(conn, "LLEN", queue->backup);
    for (size_t i = 0; i < kmqueue_config(queue)->lists.count; i++) ask(conn, "LLEN", kmqueue_config(queue)->lists.items[i]);
    for (size_t i = 0; i < kmqueue_config(queue)->lists.count; i++)
        ask(conn, "SCARD", kmqueue_config(queue)->unique_sets.items[i]);
}

static int64_t read_count(conn_t *conn, const char *key, redis_error_t *worst) {
    redisReply *reply;
    redis_error_t error;
    int64_t count = 0;
    if (worst->outcome == OUTCOME_DISCONNECTED) return 0;
    if (conn_read(conn, 0, &reply, &error) == OUTCOME_OK) {
        count = reply_int(reply);
        freeReplyObject(reply);
    } else if (error.outcome > worst->outcome) {
        redis_error_set(worst, error.outcome, "%s: %s", key, error.text);
    }
    return count;
}

// Of tasks how many there are, with the marker; of marks what each set holds.
static void read_look(conn_t *conn, watch_t *watch, int64_t *waiting, int64_t *in_progress, redis_error_t *error) {
    const kmqueue_config_t *own = kmqueue_config(watch->config);
    *error = (redis_error_t){0};
    *waiting = 0;
    *in_progress = read_count(conn, watch->config->backup, error);
    for (size_t i = 0; i < own->lists.count; i++) *waiting += read_count(conn, own->lists.items[i], error);
    for (size_t i = 0; i < own->lists.count; i++) watch->found[i] = read_count(conn, own->unique_sets.items[i], error);
}

// Whether the one entry of backup is its marker.
static bool holds_marker(conn_t *conn, const char *backup, redis_error_t *error) {
    redisReply *reply;
    request_begin(conn, "LRANGE");
    request_text(conn, backup);
    request_int(conn, 0);
    request_int(conn, 0);
    if (request_ask(conn, &reply, error) != OUTCOME_OK) return false;
    const redisReply *entry = reply_at(reply, 0);
    bool is = reply_len(entry) && kmqueue_is_marker((slice_t){reply_text(entry), reply_len(entry)}, backup);
    freeReplyObject(reply);
    return is;
}

// Whether there is no task at all.
static bool look(conn_t *conn, watch_t *watch, redis_error_t *error) {
    int64_t waiting;
    int64_t in_progress;
    append_look(conn, watch->config);
    read_look(conn, watch, &waiting, &in_progress, error);
    if (error->outcome != OUTCOME_OK || waiting || in_progress > 1) return false;
    return in_progress == 0 || holds_marker(conn, watch->config->backup, error);
}

static int64_t sum(const watch_t *watch, const int64_t *marks) {
    int64_t all = 0;
    for (size_t i = 0; i < kmqueue_config(watch->config)->lists.count; i++) all += marks[i];
    return all;
}

static void keep_least(const watch_t *watch) {
    for (size_t i = 0; i < kmqueue_config(watch->config)->lists.count; i++)
        if (watch->found[i] < watch->before[i]) watch->before[i] = watch->found[i];
}

// "mail_unique: 2, other_unique: 1"; the first of them stand for all where they are many.
static void write_marks(const watch_t *watch, buffer_t *out) {
    for (size_t i = 0; i < kmqueue_config(watch->config)->lists.count && out->len < TOLD_BYTES; i++)
        if (watch->before[i])
            buffer_printf(out, "%s%s: %lld", out->len ? ", " : "", kmqueue_config(watch->config)->unique_sets.items[i],
                          (long long)watch->before[i]);
}

// What stands in `before` is sure.
static void tell(watch_t *watch, metrics_queue_t *metrics) {
    int64_t marks = sum(watch, watch->before);
    metric_set(&metrics->stale_unique, marks);
    if (marks > watch->told) {
        buffer_t sets = {0};
        write_marks(watch, &sets);
        log_warn(
            ROLE, watch->config->name,
            "ids without a task in sets of unique tasks: a worker died before it had noted what it took, and no task of such "
            "an id is accepted any more; SREM the id, and push its task again",
            F_STR("sets", sets.data), F_INT("ids", marks));
        buffer_free(&sets);
    } else if (marks < watch->told) {
        log_info(ROLE, watch->config->name, "fewer ids without a task in sets of unique tasks", F_INT("ids", marks));
    }
    watch->told = marks;
}

// There is no task now. Returns when to look again, in ms.
static int64_t compare(watch_t *watch, watch_call_t *call) {
    int64_t apart = watch->config->policy.protected_timeout_ms;
    if (apart < LOOK_LEAST_MS) apart = LOOK_LEAST_MS;
    bool sure = watch->quiet && mono_diff(call->now, watch->at) >= apart * NS_PER_MS;
    if (sure) keep_least(watch);
    bool none = sum(watch, watch->found) == 0;
    if (none) memset(watch->before, 0, kmqueue_config(watch->config)->lists.count * sizeof *watch->before);
    if (sure || none) tell(watch, call->metrics);
    if (sure || !watch->quiet) {
        memcpy(watch->before, watch->found, kmqueue_config(watch->config)->lists.count * sizeof *watch->before);
        watch->at = call->now;
    }
    return sum(watch, watch->found) > watch->told && apart < LOOK_EVERY_MS ? apart : LOOK_EVERY_MS;
}

static outcome_t step(void *self, watch_call_t *call, redis_error_t *error) {
    watch_t *watch = self;
    int64_t wait_ms = LOOK_EVERY_MS;
    bool quiet = look(call->conn, watch, error);
    if (error->outcome == OUTCOME_OK && quiet) wait_ms = compare(watch, call);
    watch->quiet = quiet;
    call->next = mono_add(call->now, wait_ms * NS_PER_MS);
    return error->outcome;
}

const watch_ops_t kmqueue_watch = {
    .open = watch_open,
    .close = watch_close,
    .forget = watch_forget,
    .step = step,
};
