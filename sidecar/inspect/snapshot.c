#include "inspect/snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#include "queue/lock.h"
#include "redis/reply.h"

// Queues whose requests are sent before the first reply is read.
enum { AT_ONCE = 200 };

typedef struct overlook {
    conn_t *conn;
    const keyspace_t *keys;
    snapshot_t *out;
    redis_error_t *error;
} overlook_t;

void snapshot_free(snapshot_t *snapshot) {
    for (size_t i = 0; i < snapshot->queue_count; i++) free(snapshot->queues[i].copies);
    for (size_t i = 0; i < snapshot->lock_count; i++) free(snapshot->locks[i].standbys);
    free(snapshot->locks);
    free(snapshot->queues);
    *snapshot = (snapshot_t){0};
}

// Reads the next reply. A refusal goes to `error`, and *reply is NULL. False: the connection is useless now.
static bool snapshot_next_reply(const overlook_t *look, const char *key, char error[160], redisReply **reply) {
    outcome_t outcome = conn_read(look->conn, 0, reply, look->error);
    if (outcome == OUTCOME_OK) return true;
    if (outcome == OUTCOME_REFUSED && !*error) snprintf(error, 160, "\"%.60s\": %.90s", key, look->error->text);
    return outcome == OUTCOME_REFUSED;
}

// ---- Locks: holder, time left, since when, for which queues.

static void snapshot_append_lock(const overlook_t *look, const lock_keys_t *lock) {
    request_append(look->conn, "GET", lock->key);
    request_append(look->conn, "PTTL", lock->key);
    request_begin(look->conn, "HMGET", lock->served, "");
    for (size_t i = 0; i < lock->queue_count; i++)
        request_text(look->conn, look->keys->queues[lock->first_queue + i].config->name);
    request_end(look->conn);
    request_append(look->conn, "HGETALL", lock->standbys);
}

// Parses "<token> <since, ms> <instance>", which acquire.lua writes. Ignores the text of another term.
static void snapshot_read_leader(const char *text, snapshot_lock_t *lock) {
    size_t len = strcspn(text, " ");
    char *end = NULL;
    if (!*lock->holder || len != strlen(lock->holder) || strncmp(text, lock->holder, len) != 0 || !text[len]) return;
    lock->since_ms = strtoll(text + len, &end, 10);
    snprintf(lock->leader, sizeof lock->leader, "%s", *end == ' ' ? end + 1 : "");
}

static int snapshot_by_instance(const void *a, const void *b) {
    return strcmp(((const snapshot_standby_t *)a)->instance, ((const snapshot_standby_t *)b)->instance);
}

// Parses "<time of its last request, ms> <TTL, ms>" of each standby, which acquire.lua writes. A standby tries again when the
// lock should have expired.
static void snapshot_read_standbys(const redisReply *reply, int64_t now_ms, snapshot_lock_t *lock) {
    enum { LATE_MS = 2000 };
    if (!reply || reply->type != REDIS_REPLY_ARRAY) return;
    lock->standbys = mem_array(reply->elements / 2 + 1, sizeof *lock->standbys);
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        snapshot_standby_t *standby = &lock->standbys[lock->standby_count];
        char *ttl;
        snprintf(standby->instance, sizeof standby->instance, "%s", reply_text(reply->element[i]));
        standby->heard_ms = strtoll(reply_text(reply->element[i + 1]), &ttl, 10);
        if (standby->heard_ms <= 0 || *ttl != ' ') continue; // a foreign field
        int64_t held_ms = token_ttl_ms(lock->holder), own_ms = strtoll(ttl, NULL, 10);
        standby->lives = now_ms - standby->heard_ms <= (held_ms > own_ms ? held_ms : own_ms) + LATE_MS;
        lock->standby_count++;
    }
    qsort(lock->standbys, lock->standby_count, sizeof *lock->standbys, snapshot_by_instance);
}

static bool snapshot_read_lock(const overlook_t *look, size_t index) {
    const lock_keys_t *lock = &look->keys->locks[index];
    snapshot_lock_t *out = &look->out->locks[index];
    redisReply *reply = NULL;
    if (!snapshot_next_reply(look, lock->key, out->error, &reply)) return false;
    snprintf(out->holder, sizeof out->holder, "%s", reply_text(reply));
    conn_reply_free(reply);
    if (!snapshot_next_reply(look, lock->key, out->error, &reply)) return false;
    out->pttl_ms = reply ? reply_int(reply) : -2;
    conn_reply_free(reply);
    if (!snapshot_next_reply(look, lock->served, out->error, &reply)) return false;
    snapshot_read_leader(reply_text(reply_at(reply, 0)), out);
    for (size_t i = 0; i < lock->queue_count; i++)
        look->out->queues[lock->first_queue + i].served = *out->holder && reply_is(reply_at(reply, i + 1), out->holder);
    conn_reply_free(reply);
    if (!snapshot_next_reply(look, lock->standbys, out->error, &reply)) return false;
    snapshot_read_standbys(reply, look->out->now_ms, out);
    conn_reply_free(reply);
    return true;
}

// ---- Queues: owner, stream, copies.

static void snapshot_append_queue(const overlook_t *look, const queue_keys_t *queue) {
    request_append(look->conn, "HGET", queue->meta, "group");
    request_append(look->conn, "HGETALL", queue->auditors);
}

static int snapshot_by_name(const void *a, const void *b) {
    return strcmp(((const snapshot_copy_t *)a)->instance, ((const snapshot_copy_t *)b)->instance);
}

static void snapshot_read_copies(const redisReply *reply, snapshot_queue_t *out) {
    if (!reply || reply->type != REDIS_REPLY_ARRAY) return;
    out->copies = mem_array(reply->elements / 2 + 1, sizeof *out->copies);
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const char *text = reply_text(reply->element[i + 1]);
        size_t len = strcspn(text, " ");
        if (!text[len] || len >= STREAM_ID_SIZE) continue; // a foreign field: trim.lua ignores it too
        snapshot_copy_t *copy = &out->copies[out->copy_count++];
        snprintf(copy->instance, sizeof copy->instance, "%s", reply_text(reply->element[i]));
        snprintf(copy->position, sizeof copy->position, "%.*s", (int)len, text);
        copy->heard_ms = strtoll(text + len, NULL, 10);
    }
    qsort(out->copies, out->copy_count, sizeof *out->copies, snapshot_by_name);
}

static bool snapshot_read_queue(const overlook_t *look, size_t index) {
    const queue_keys_t *queue = &look->keys->queues[index];
    snapshot_queue_t *out = &look->out->queues[index];
    redisReply *reply = NULL;
    if (!snapshot_next_reply(look, queue->meta, out->error, &reply)) return false;
    snprintf(out->owner, sizeof out->owner, "%s", reply_text(reply));
    conn_reply_free(reply);
    if (!snapshot_next_reply(look, queue->auditors, out->error, &reply)) return false;
    snapshot_read_copies(reply, out);
    conn_reply_free(reply);
    return true;
}

// ---- The snapshot.

static int64_t snapshot_info_number(const char *info, const char *key) {
    const char *at = strstr(info, key);
    return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

static bool snapshot_read_server(const overlook_t *look) {
    char error[160] = "";
    redisReply *reply = NULL;
    request_append(look->conn, "INFO", "memory");
    request_append(look->conn, "TIME");
    if (!snapshot_next_reply(look, "INFO", error, &reply)) return false;
    look->out->memory_used = snapshot_info_number(reply_text(reply), "\r\nused_memory:");
    look->out->memory_most = snapshot_info_number(reply_text(reply), "\r\nmaxmemory:");
    conn_reply_free(reply);
    if (!snapshot_next_reply(look, "TIME", error, &reply)) return false;
    look->out->now_ms = strtoll(reply_text(reply_at(reply, 0)), NULL, 10) * 1000;
    conn_reply_free(reply);
    return true;
}

static bool snapshot_read_locks(const overlook_t *look) {
    for (size_t at = 0; at < look->keys->lock_count; at += AT_ONCE) {
        size_t end = at + AT_ONCE < look->keys->lock_count ? at + AT_ONCE : look->keys->lock_count;
        for (size_t i = at; i < end; i++) snapshot_append_lock(look, &look->keys->locks[i]);
        for (size_t i = at; i < end; i++)
            if (!snapshot_read_lock(look, i)) return false;
    }
    return true;
}

static bool snapshot_read_queues(const overlook_t *look) {
    for (size_t at = 0; at < look->keys->queue_count; at += AT_ONCE) {
        size_t end = at + AT_ONCE < look->keys->queue_count ? at + AT_ONCE : look->keys->queue_count;
        for (size_t i = at; i < end; i++) snapshot_append_queue(look, &look->keys->queues[i]);
        for (size_t i = at; i < end; i++)
            if (!snapshot_read_queue(look, i)) return false;
    }
    return true;
}

static int snapshot_by_position(const void *a, const void *b) {
    return stream_id_compare(((const snapshot_copy_t *)b)->position, ((const snapshot_copy_t *)a)->position);
}

// The highest id that enough audit logs have; "0-0" = none.
static void snapshot_enough_have(const overlook_t *look, const snapshot_queue_t *queue, stream_id_t out) {
    int64_t wanted = look->keys->config->stream.min_copies;
    size_t heard = 0, nth = wanted > 1 ? (size_t)wanted : 1;
    snapshot_copy_t *copies = mem_array(queue->copy_count + 1, sizeof *copies);
    for (size_t i = 0; i < queue->copy_count; i++)
        if (look->out->now_ms - queue->copies[i].heard_ms <= STREAM_HEARD_MS) copies[heard++] = queue->copies[i];
    qsort(copies, heard, sizeof *copies, snapshot_by_position);
    snprintf(out, STREAM_ID_SIZE, "%s", nth <= heard ? copies[nth - 1].position : STREAM_ID_NONE);
    free(copies);
}

// Read the first uncopied entry only if there is one, because Redis sends it with its payload.
static bool snapshot_read_uncopied(const overlook_t *look, size_t index) {
    snapshot_queue_t *queue = &look->out->queues[index];
    stream_id_t have;
    redisReply *reply = NULL;
    char from[STREAM_ID_SIZE + 1];
    snapshot_enough_have(look, queue, have);
    if (queue->stream.length == 0 || stream_id_compare(have, queue->stream.last) >= 0) return true;
    queue->uncopied_ms = stream_id_ms(queue->stream.first);
    if (stream_id_compare(have, queue->stream.first) < 0) return true;
    request_begin(look->conn, "XRANGE", look->keys->queues[index].failures);
    snprintf(from, sizeof from, "(%s", have);
    request_text(look->conn, from, "+", "COUNT");
    request_int(look->conn, 1);
    request_end(look->conn);
    if (!snapshot_next_reply(look, look->keys->queues[index].failures, queue->error, &reply)) return false;
    const char *id = reply_text(reply_at(reply_at(reply, 0), 0));
    queue->uncopied_ms = *id ? stream_id_ms(id) : 0; // another client has deleted the entry
    conn_reply_free(reply);
    return true;
}

static bool snapshot_read_streams(const overlook_t *look) {
    snapshot_t *out = look->out;
    stream_ends_t *looks = mem_array(out->queue_count, sizeof *looks);
    outcome_t outcome = stream_read_ends(look->conn, look->keys, looks, &out->now_ms, look->error);
    for (size_t i = 0; outcome == OUTCOME_OK && i < out->queue_count; i++) {
        out->queues[i].stream = looks[i];
        if (!*out->queues[i].error) memcpy(out->queues[i].error, looks[i].error, sizeof looks[i].error);
        out->queues[i].stream.error[0] = '\0';
    }
    free(looks);
    bool known = outcome == OUTCOME_OK;
    for (size_t i = 0; known && i < out->queue_count; i++) known = snapshot_read_uncopied(look, i);
    return known;
}

outcome_t snapshot_read(conn_t *conn, const keyspace_t *keys, snapshot_t *out, redis_error_t *error) {
    const overlook_t look = {.conn = conn, .keys = keys, .out = out, .error = error};
    *out = (snapshot_t){.memory_used = -1, .memory_most = -1, .lock_count = keys->lock_count, .queue_count = keys->queue_count};
    out->locks = mem_array(keys->lock_count, sizeof *out->locks);
    out->queues = mem_array(keys->queue_count, sizeof *out->queues);
    if (conn_open(conn, error) == OUTCOME_OK && snapshot_read_server(&look) && snapshot_read_locks(&look) &&
        snapshot_read_queues(&look) &&
        snapshot_read_streams(&look)) // last, because its error of a queue counts only if no earlier error is set
        return redis_error_set(error, OUTCOME_OK, "%s", "");
    conn_close(conn); // replies may be in flight
    return error->outcome;
}
