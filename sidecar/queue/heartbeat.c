#include "queue/heartbeat.h"

#include "redis/reply.h"

// Hash: queue -> "<lock> <pattern>", for all groups of the database. A queue that leaves every config stays in it.
#define HEARTBEATS_TOLD "sidecar:heartbeats"
enum {
    TOLD_PAGES = 20,  // most reads of some 5,000 fields: of more than 100,000 queues some are not looked at
    CONFIRM_MAX = 64, // queues whose leader is looked for
};

// As in Java's String.trim(), every byte up to the space counts as white space.
static bool heartbeat_is_blank(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] > ' ') return false;
    return true;
}

static void heartbeat_read_name(conn_t *conn, heartbeat_check_t *check, redis_error_t *worst) {
    redisReply *reply = conn_read_next(conn, NULL, worst);
    if (!reply) return;
    size_t len = reply_len(reply) < WORKER_NAME_MAX ? reply_len(reply) : WORKER_NAME_MAX;
    check->there = len > 0 && !(check->blank_is_dead && heartbeat_is_blank(reply_text(reply), len));
    check->answered = check->blank_is_dead;
    if (!heartbeat_is_blank(reply_text(reply), len)) {
        memcpy(check->worker, reply_text(reply), len);
        check->worker_len = len;
    }
    freeReplyObject(reply);
}

static void heartbeat_read_exists(conn_t *conn, heartbeat_check_t *check, redis_error_t *worst) {
    redisReply *reply = conn_read_next(conn, NULL, worst);
    check->there = !reply || reply_int(reply) == 1;
    freeReplyObject(reply);
}

// True: EXISTS must decide. The key may hold another type, or the user may lack the right to read it.
static bool heartbeat_is_unread(const heartbeat_check_t *check) { return check->key && !check->there && !check->answered; }

// Without the right to PTTL nothing is known.
static void heartbeat_read_ttl(conn_t *conn, heartbeat_check_t *check, redis_error_t *error) {
    redis_error_t refusal;
    redisReply *reply = conn_read_or_refusal(conn, &refusal, error);
    check->endless = reply && reply_int(reply) == -1;
    conn_reply_free(reply);
}

outcome_t heartbeats_read(conn_t *conn, heartbeat_check_t *checks, size_t count, redis_error_t *error) {
    redis_error_t refusal = {0};
    for (size_t i = 0; i < count; i++) {
        checks[i].there = checks[i].answered = checks[i].endless = false;
        checks[i].worker_len = 0;
        if (!checks[i].key) continue;
        request_begin(conn, "GETRANGE", checks[i].key);
        request_int(conn, 0, WORKER_NAME_MAX - 1);
        request_end(conn);
    }
    for (size_t i = 0; i < count; i++)
        if (checks[i].key) heartbeat_read_name(conn, &checks[i], &refusal);
    *error = refusal.outcome == OUTCOME_DISCONNECTED ? refusal : (redis_error_t){0};
    for (size_t i = 0; i < count; i++) {
        if (heartbeat_is_unread(&checks[i])) request_append(conn, "EXISTS", checks[i].key);
        if (checks[i].key && checks[i].asks_ttl) request_append(conn, "PTTL", checks[i].key);
    }
    for (size_t i = 0; i < count; i++) {
        if (heartbeat_is_unread(&checks[i])) heartbeat_read_exists(conn, &checks[i], error);
        if (checks[i].key && checks[i].asks_ttl) heartbeat_read_ttl(conn, &checks[i], error);
    }
    return error->outcome;
}

static bool heartbeats_are_told(const keyspace_t *keys) { return config_redis_mode(&keys->config->redis) != REDIS_MODE_CLUSTER; }

outcome_t heartbeats_tell(const lock_call_t *call) {
    const lock_keys_t *lock = &call->keys->locks[call->lock];
    redis_error_t refusal;
    *call->error = (redis_error_t){0};
    if (!heartbeats_are_told(call->keys)) return OUTCOME_OK;
    request_begin(call->conn, "HSET", HEARTBEATS_TOLD);
    for (size_t i = 0; i < lock->queue_count; i++) {
        const queue_config_t *queue = call->keys->queues[lock->queues[i]].config;
        const char *pattern = config_heartbeat(queue);
        char *text = mem_printf("%s %s", lock->name, pattern ? pattern : "off");
        request_text(call->conn, queue->name, text);
        free(text);
    }
    request_end(call->conn);
    conn_reply_free(conn_read_or_refusal(call->conn, &refusal, call->error));
    if (call->error->outcome == OUTCOME_RETRY) *call->error = (redis_error_t){0}; // the next term tells
    return call->error->outcome;
}

// Our queue with heartbeats in common; SIZE_MAX = none.
static size_t heartbeats_find_own(const keyspace_t *keys, const char *other) {
    for (size_t i = 0; i < keys->queue_count; i++) {
        const char *own = config_heartbeat(keys->queues[i].config);
        if (own && config_heartbeats_meet(own, other)) return i;
    }
    return SIZE_MAX;
}

// Reads one field of the hash. False: the other queue is ours, or has its own heartbeats.
static bool heartbeats_read_told(const keyspace_t *keys, const char *queue, const char *text, heartbeat_overlap_t *out) {
    size_t len = strcspn(text, " ");
    if (!text[len] || config_find_queue(keys->config, queue)) return false;
    snprintf(out->other, sizeof out->other, "%s", queue);
    snprintf(out->group, sizeof out->group, "%.*s", (int)(len < sizeof out->group ? len : sizeof out->group - 1), text);
    snprintf(out->heartbeat, sizeof out->heartbeat, "%s", text + len + 1);
    out->queue = heartbeats_find_own(keys, out->heartbeat);
    return out->queue != SIZE_MAX;
}

// Whether the holder of the lock serves the other queue: otherwise its config is gone, or has lost the queue.
static bool heartbeats_are_in_use(conn_t *conn, const heartbeat_overlap_t *overlap, redis_error_t *error) {
    char *lock = keyspace_lock_of(overlap->group), *served = keyspace_served_of(overlap->group);
    redis_error_t refusal;
    request_append(conn, "GET", lock);
    request_append(conn, "HGET", served, overlap->other);
    redisReply *holder = conn_read_or_refusal(conn, &refusal, error);
    redisReply *leader = conn_read_or_refusal(conn, &refusal, error);
    bool used = reply_len(holder) > 0 && reply_is(leader, reply_text(holder));
    conn_reply_free(holder);
    conn_reply_free(leader);
    free(lock);
    free(served);
    return used;
}

// Looks at the fields of one read. *confirmed: queues whose leader was looked for, in all reads.
static bool heartbeats_find_in(conn_t *conn, const keyspace_t *keys, const redisReply *fields, size_t *confirmed,
                               heartbeat_overlap_t *out, redis_error_t *error) {
    for (size_t i = 0; reply_at(fields, i + 1) && *confirmed < CONFIRM_MAX; i += 2) {
        if (!heartbeats_read_told(keys, reply_text(reply_at(fields, i)), reply_text(reply_at(fields, i + 1)), out)) continue;
        ++*confirmed;
        if (heartbeats_are_in_use(conn, out, error)) return true;
    }
    return false;
}

outcome_t heartbeats_find_overlap(conn_t *conn, const keyspace_t *keys, bool *found, heartbeat_overlap_t *out,
                                  redis_error_t *error) {
    char cursor[24] = "0";
    size_t confirmed = 0;
    *error = (redis_error_t){0};
    *found = false;
    if (!heartbeats_are_told(keys)) return OUTCOME_OK;
    for (int page = 0; page < TOLD_PAGES && !*found && (page == 0 || strcmp(cursor, "0") != 0); page++) {
        redis_error_t refusal;
        request_append(conn, "HSCAN", HEARTBEATS_TOLD, cursor, "COUNT", "5000");
        redisReply *reply = conn_read_or_refusal(conn, &refusal, error);
        snprintf(cursor, sizeof cursor, "%s", reply ? reply_text(reply_at(reply, 0)) : "0");
        *found = heartbeats_find_in(conn, keys, reply_at(reply, 1), &confirmed, out, error);
        conn_reply_free(reply);
    }
    return error->outcome;
}
