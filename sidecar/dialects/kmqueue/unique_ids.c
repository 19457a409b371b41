#include "dialects/kmqueue/internal.h"

#include "base/buffer.h"
#include "base/condition.h"
#include "base/log.h"
#include "dialects/kmqueue/task.h"
#include "redis/reply.h"

enum {
    COUNT_EVERY_MS = 60000,
    MIN_APART_MS = 100,  // shortest time between two counts
    REPORT_BYTES = 1024, // limit of the sets in one log line
};

static const char ROLE[] = "monitor";

// A worker pops a task and only then pushes the task to the backup list (RedisTaskQueue.java, popTask). If the worker dies in
// between, the task is lost. finishTask removes a task that is done and only then its id. If the worker dies in between, only the
// id is left. Either id stays in <queue>_unique and blocks every later task of that id (pushTask). While no task is waiting or in
// progress, every id in these sets is an orphan. Two counts a protected timeout apart must agree,
// because a task on its way between two lists is in neither. The sidecar reports orphans and never removes them: the id of a
// task that a worker is about to push looks the same. While there is no backup list, nothing is known: the tasks may be in the
// list of a manager with other names.
typedef struct unique_ids {
    const queue_config_t *config; // borrowed
    const strings_t *sets;        // borrowed
    bool idle;                    // the last count found no task
    bool homeless;                // the last count found waiting tasks and no backup list
    condition_t absent;           // homeless twice in a row
    mono_t at;                    // time of `before`
    int64_t ids;                  // ids of all sets in this count
    int64_t reported;             // orphans of all sets in the last log line
    int64_t told;                 // number in META_STALE_UNIQUE; -1 = unknown: another leader may have written it
    struct {
        int64_t before; // orphans in an earlier count, with no task since
        int64_t found;  // ids in this count
    } counts[];         // one for each of `sets`
} unique_ids_t;

static void *unique_ids_open(const queue_keys_t *keys) {
    const strings_t *sets = &kmqueue_config(keys->config)->unique_sets;
    unique_ids_t *unique_ids = mem_alloc(sizeof *unique_ids + sets->count * sizeof *unique_ids->counts);
    unique_ids->config = keys->config;
    unique_ids->sets = sets;
    return unique_ids;
}

static void unique_ids_forget(void *self) {
    unique_ids_t *unique_ids = self;
    unique_ids->idle = false;
    unique_ids->told = -1;
}

static bool unique_ids_backup_is_marker(conn_t *conn, const char *backup, redis_error_t *error) {
    request_append(conn, "LRANGE", backup, "0", "0");
    conn_expect_job(conn);
    redisReply *reply = conn_read_next(conn, NULL, error);
    const redisReply *entry = reply_at(reply, 0);
    bool is = reply_len(entry) && kmqueue_is_marker(reply_slice(entry), backup);
    conn_reply_free(reply);
    return is;
}

// A manager makes the backup list before its first task (KMQueueManager.java, init), and a marker keeps the list.
static void unique_ids_note_backup(unique_ids_t *unique_ids, bool homeless) {
    const queue_config_t *config = unique_ids->config;
    condition_change_t change = condition_update(&unique_ids->absent, homeless && unique_ids->homeless);
    unique_ids->homeless = homeless;
    if (change == CONDITION_BEGAN)
        log_warn(
            ROLE, config->name,
            "tasks wait, but the backup list does not exist: `queues` differs from the names of KMQueueManager or their order",
            F_STR("backup", config->backup));
    else if (change == CONDITION_ENDED)
        log_info(ROLE, config->name, "the backup list exists again, or no task waits any more", F_STR("backup", config->backup));
}

// Counts the ids. Returns whether no task is waiting or in progress, or whether there is no id.
static bool unique_ids_find_idle(conn_t *conn, unique_ids_t *unique_ids, redis_error_t *error) {
    const strings_t *lists = &kmqueue_config(unique_ids->config)->lists;
    const strings_t *sets = unique_ids->sets;
    const char *backup = unique_ids->config->backup;
    int64_t waiting = 0;
    *error = (redis_error_t){0};
    request_append(conn, "LLEN", backup);
    for (size_t i = 0; i < lists->count; i++) request_append(conn, "LLEN", lists->items[i]);
    for (size_t i = 0; i < sets->count; i++) request_append(conn, "SCARD", sets->items[i]);
    int64_t in_progress = conn_read_int(conn, backup, error);
    for (size_t i = 0; i < lists->count; i++) waiting += conn_read_int(conn, lists->items[i], error);
    unique_ids->ids = 0;
    for (size_t i = 0; i < sets->count; i++) {
        unique_ids->counts[i].found = conn_read_int(conn, sets->items[i], error);
        unique_ids->ids += unique_ids->counts[i].found;
    }
    if (error->outcome == OUTCOME_OK) unique_ids_note_backup(unique_ids, waiting && !in_progress);
    if (error->outcome != OUTCOME_OK || waiting || in_progress > 1) return false;
    return in_progress ? unique_ids_backup_is_marker(conn, backup, error) : unique_ids->ids == 0;
}

// Keeps the smaller count of each set: only an id that was there both times can be an orphan. Returns the sum.
static int64_t unique_ids_keep_least(unique_ids_t *unique_ids) {
    int64_t sum = 0;
    for (size_t i = 0; i < unique_ids->sets->count; i++) {
        int64_t *before = &unique_ids->counts[i].before, found = unique_ids->counts[i].found;
        if (found < *before) *before = found;
        sum += *before;
    }
    return sum;
}

// Appends text like "mail_unique: 2, new_unique: 1", cut after REPORT_BYTES.
static void unique_ids_write(const unique_ids_t *unique_ids, buffer_t *out) {
    for (size_t i = 0; i < unique_ids->sets->count && out->len < REPORT_BYTES; i++)
        if (unique_ids->counts[i].before)
            buffer_printf(out, "%s%s: %lld", out->len ? ", " : "", unique_ids->sets->items[i],
                          (long long)unique_ids->counts[i].before);
}

static void unique_ids_report(unique_ids_t *unique_ids, metrics_queue_t *metrics) {
    int64_t orphans = unique_ids_keep_least(unique_ids);
    metric_set(&metrics->stale_unique, orphans);
    if (orphans > unique_ids->reported) {
        buffer_t sets = {0};
        unique_ids_write(unique_ids, &sets);
        log_warn(ROLE, unique_ids->config->name,
                 "orphaned ids in sets of unique tasks: each task is lost or done; SREM its id, and push the task again only if "
                 "it has "
                 "not run",
                 F_STR("sets", sets.data), F_INT("ids", orphans));
        buffer_free(&sets);
    } else if (orphans < unique_ids->reported) {
        log_info(ROLE, unique_ids->config->name, "orphaned ids left in sets of unique tasks", F_INT("ids", orphans));
    }
    unique_ids->reported = orphans;
}

// Tells `status`. Not fenced: the field is for people.
static void unique_ids_tell(unique_ids_t *unique_ids, const call_t *call) {
    char number[24];
    redis_error_t refusal;
    if (unique_ids->told == unique_ids->reported) return;
    snprintf(number, sizeof number, "%" PRId64, unique_ids->reported);
    if (unique_ids->reported)
        request_append(call->conn, "HSET", call_queue(call)->meta, META_STALE_UNIQUE, number);
    else
        request_append(call->conn, "HDEL", call_queue(call)->meta, META_STALE_UNIQUE);
    redisReply *reply = conn_read_or_refusal(call->conn, &refusal, call->error);
    if (reply) unique_ids->told = unique_ids->reported;
    if (call->error->kind == ERROR_FULL) *call->error = (redis_error_t){0}; // later
    conn_reply_free(reply);
}

// Called while there is no task. Returns the delay until the next count, in ms.
static int64_t unique_ids_compare(unique_ids_t *unique_ids, side_task_call_t *call) {
    int64_t apart = unique_ids->config->policy.protected_timeout_ms;
    if (apart < MIN_APART_MS) apart = MIN_APART_MS;
    bool sure = unique_ids->idle && mono_diff(call->now, unique_ids->at) >= apart * NS_PER_MS;
    if (sure || unique_ids->ids == 0) {
        unique_ids_report(unique_ids, call->metrics);
        unique_ids_tell(unique_ids, &call->redis);
    }
    if (sure || !unique_ids->idle) {
        for (size_t i = 0; i < unique_ids->sets->count; i++) unique_ids->counts[i].before = unique_ids->counts[i].found;
        unique_ids->at = call->now;
    }
    return unique_ids->ids > unique_ids->reported && apart < COUNT_EVERY_MS ? apart : COUNT_EVERY_MS;
}

static outcome_t unique_ids_step(void *self, side_task_call_t *call) {
    redis_error_t *error = call->redis.error;
    unique_ids_t *unique_ids = self;
    int64_t wait_ms = COUNT_EVERY_MS;
    bool idle = unique_ids_find_idle(call->redis.conn, unique_ids, error);
    if (error->outcome == OUTCOME_OK && idle) wait_ms = unique_ids_compare(unique_ids, call);
    unique_ids->idle = idle;
    call->next = mono_add(call->now, wait_ms * NS_PER_MS);
    return error->outcome;
}

const side_task_ops_t kmqueue_unique_ids = {
    .open = unique_ids_open,
    .close = free,
    .forget = unique_ids_forget,
    .step = unique_ids_step,
};
