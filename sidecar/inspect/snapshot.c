#include "inspect/snapshot.h"

#include "inspect/sizes.h"
#include "queue/lock.h"
#include "redis/keepalive.h"
#include "redis/reply.h"

enum {
    AT_ONCE = 200,      // queues or locks whose requests go out before the first reply is read
    COPIES_PAGE = 256,  // copies of one request
    COPIES_MAX = 256,   // that a snapshot keeps of a queue, those that were heard of last; trim.lua keeps no more (AUDITORS)
    COPIES_READ = 20000 // and about how many it reads
};

typedef struct reader {
    conn_t *conn;
    const keyspace_t *keys;
    snapshot_t *out;
    redis_error_t *error;
} reader_t;

void snapshot_free(snapshot_t *snapshot) {
    for (size_t i = 0; i < snapshot->queue_count; i++) {
        free(snapshot->queues[i].copies);
        for (size_t kind = 0; kind < ANOMALY_KINDS; kind++) free(snapshot->queues[i].anomalies[kind]);
    }
    for (size_t i = 0; i < snapshot->lock_count; i++) free(snapshot->locks[i].standbys);
    free(snapshot->locks);
    free(snapshot->queues);
    *snapshot = (snapshot_t){0};
}

// Reads the next reply; owned. NULL: Redis refused the request (sets `error`), or another error ends the snapshot.
static redisReply *snapshot_next_reply(const reader_t *reader, const char *key, redis_error_t *error) {
    redis_error_t refusal;
    redisReply *reply = conn_read_or_refusal(reader->conn, &refusal, reader->error);
    if (refusal.outcome != OUTCOME_OK && error->outcome == OUTCOME_OK) {
        *error = refusal;
        redis_error_reword(error, "\"%.60s\": %.90s", key, refusal.text);
    }
    return reply;
}

// ---- Locks: holder, time left, since when, for which queues.

static void snapshot_append_lock(const reader_t *reader, size_t index) {
    const lock_keys_t *lock = &reader->keys->locks[index];
    request_append(reader->conn, "GET", lock->key);
    request_append(reader->conn, "PTTL", lock->key);
    request_begin(reader->conn, "HMGET", lock->served, "");
    for (size_t i = 0; i < lock->queue_count; i++) request_text(reader->conn, reader->keys->queues[lock->queues[i]].config->name);
    request_end(reader->conn);
    request_append(reader->conn, "HLEN", lock->served);
    request_append(reader->conn, "HGETALL", lock->standbys);
}

// Parses "<token> <since, ms> <instance>", which acquire.lua writes. Ignores the text of another term.
static void snapshot_read_leader(const char *text, snapshot_lock_t *lock) {
    size_t len = strcspn(text, " ");
    char *end = NULL;
    if (!*lock->holder || len != strlen(lock->holder) || strncmp(text, lock->holder, len) != 0 || !text[len]) return;
    lock->since_ms = strtoll(text + len, &end, 10);
    snprintf(lock->leader, sizeof lock->leader, "%s", *end == ' ' ? end + 1 : "");
}

// Compares two standbys or two copies: both structs begin with the name of the instance.
static int snapshot_by_instance(const void *a, const void *b) { return strcmp(a, b); }

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

static void snapshot_read_lock(const reader_t *reader, size_t index) {
    const lock_keys_t *lock = &reader->keys->locks[index];
    snapshot_lock_t *out = &reader->out->locks[index];
    redisReply *reply = snapshot_next_reply(reader, lock->key, &out->error);
    snprintf(out->holder, sizeof out->holder, "%s", reply_text(reply));
    conn_reply_free(reply);
    reply = snapshot_next_reply(reader, lock->key, &out->error);
    out->pttl_ms = reply ? reply_int(reply) : -2;
    conn_reply_free(reply);
    reply = snapshot_next_reply(reader, lock->served, &out->error);
    snapshot_read_leader(reply_text(reply_at(reply, 0)), out);
    int64_t known = 1; // the leader
    for (size_t i = 0; i < lock->queue_count; i++) {
        const redisReply *token = reply_at(reply, i + 1);
        reader->out->queues[lock->queues[i]].served = *out->holder && reply_is(token, out->holder);
        known += token && token->type == REDIS_REPLY_STRING;
    }
    conn_reply_free(reply);
    reply = snapshot_next_reply(reader, lock->served, &out->error);
    if (*out->leader && reply) out->others = reply_int(reply) - known;
    conn_reply_free(reply);
    reply = snapshot_next_reply(reader, lock->standbys, &out->error);
    snapshot_read_standbys(reply, reader->out->now_ms, out);
    conn_reply_free(reply);
}

// ---- Queues: owner, stream, copies.

static void snapshot_append_queue(const reader_t *reader, size_t index) {
    const queue_keys_t *queue = &reader->keys->queues[index];
    request_begin(reader->conn, "HMGET", queue->meta, "group", READY_GROWS, META_STALE_UNIQUE, META_TRIMMED_EARLY,
                  META_NOTIFICATION_LOST);
#define X(name, ...) request_text(reader->conn, META_ANOMALY #name);
    ANOMALIES(X)
#undef X
    request_end(reader->conn);
}

// Pods that are gone have left fields, so one request reads a page of them.
static void snapshot_append_copies(const reader_t *reader, size_t index) {
    if (!*reader->out->queues[index].cursor) return;
    request_begin(reader->conn, "HSCAN", reader->keys->queues[index].auditors, reader->out->queues[index].cursor, "COUNT");
    request_int(reader->conn, COPIES_PAGE);
    request_end(reader->conn);
}

static void snapshot_read_copies(const reader_t *reader, size_t index) {
    snapshot_queue_t *out = &reader->out->queues[index];
    if (!*out->cursor) return;
    redisReply *reply = snapshot_next_reply(reader, reader->keys->queues[index].auditors, &out->error);
    const redisReply *fields = reply_at(reply, 1);
    snprintf(out->cursor, sizeof out->cursor, "%s", reply_is(reply_at(reply, 0), "0") ? "" : reply_text(reply_at(reply, 0)));
    for (size_t i = 0; fields && i + 1 < fields->elements; i += 2) {
        const char *text = reply_text(fields->element[i + 1]);
        size_t len = strcspn(text, " ");
        if (!text[len] || len >= STREAM_ID_SIZE) continue; // a foreign field: trim.lua ignores it too
        out->copies = mem_grown(out->copies, out->copy_count, sizeof *out->copies);
        snapshot_copy_t *copy = &out->copies[out->copy_count++];
        snprintf(copy->instance, sizeof copy->instance, "%s", reply_text(fields->element[i]));
        snprintf(copy->position, sizeof copy->position, "%.*s", (int)len, text);
        copy->heard_ms = strtoll(text + len, NULL, 10);
    }
    conn_reply_free(reply);
}

static int snapshot_by_silence(const void *a, const void *b) {
    int64_t x = ((const snapshot_copy_t *)a)->heard_ms, y = ((const snapshot_copy_t *)b)->heard_ms;
    return (x < y) - (x > y);
}

// Keeps the copies that were heard of last. A field that was read twice is one copy.
static void snapshot_keep_copies(snapshot_queue_t *queue) {
    size_t kept = 0;
    if (queue->copy_count == 0) return;
    qsort(queue->copies, queue->copy_count, sizeof *queue->copies, snapshot_by_silence);
    if (queue->copy_count > COPIES_MAX) queue->copy_count = COPIES_MAX;
    qsort(queue->copies, queue->copy_count, sizeof *queue->copies, snapshot_by_instance);
    for (size_t i = 0; i < queue->copy_count; i++)
        if (i == 0 || snapshot_by_instance(&queue->copies[i], &queue->copies[kept - 1]) != 0)
            queue->copies[kept++] = queue->copies[i];
    queue->copy_count = kept;
}

// Parses READY_GROWS.
static void snapshot_read_growth(const char *text, int64_t now_ms, snapshot_queue_t *out) {
    char *rest;
    int64_t counted_ms = strtoll(text, &rest, 10);
    if (llabs(now_ms - counted_ms) > READY_GROWS_VALID_MS) return;
    out->grows_ms = strtoll(rest, &rest, 10);
    out->grows_to = strtoll(rest, &rest, 10);
}

static void snapshot_read_queue(const reader_t *reader, size_t index) {
    const queue_keys_t *queue = &reader->keys->queues[index];
    snapshot_queue_t *out = &reader->out->queues[index];
    redisReply *reply = snapshot_next_reply(reader, queue->meta, &out->error);
    snprintf(out->owner, sizeof out->owner, "%s", reply_text(reply_at(reply, 0)));
    snapshot_read_growth(reply_text(reply_at(reply, 1)), reader->out->now_ms, out);
    out->stale_unique = reply_number(reply_at(reply, 2));
    out->trimmed_early = reply_number(reply_at(reply, 3));
    char *why;
    out->lost_ms = strtoll(reply_text(reply_at(reply, 4)), &why, 10);
    snprintf(out->lost_why, sizeof out->lost_why, "%s", *why ? why + 1 : why);
    for (size_t i = 0; i < ANOMALY_KINDS; i++) {
        const redisReply *field = reply_at(reply, 5 + i);
        if (reply_len(field)) out->anomalies[i] = mem_str(reply_text(field));
    }
    conn_reply_free(reply);
    snprintf(out->cursor, sizeof out->cursor, "0");
}

static bool snapshot_has_more_copies(const snapshot_t *out) {
    for (size_t i = 0; i < out->queue_count; i++)
        if (*out->queues[i].cursor && out->queues[i].copy_count < COPIES_READ) return true;
    return false;
}

// ---- The snapshot.

static void snapshot_read_server(const reader_t *reader) {
    redis_error_t ignored = {0};
    request_append(reader->conn, "INFO", "memory");
    request_append(reader->conn, "TIME");
    redisReply *reply = snapshot_next_reply(reader, "INFO", &ignored);
    reader->out->memory_used = reply_info_number(reply, "\nused_memory:");
    reader->out->memory_most = reply_info_number(reply, "\nmaxmemory:");
    conn_reply_free(reply);
    reply = snapshot_next_reply(reader, "TIME", &ignored);
    reader->out->now_ms = strtoll(reply_text(reply_at(reply, 0)), NULL, 10) * 1000;
    conn_reply_free(reply);
}

typedef void snapshot_fn(const reader_t *reader, size_t index);

// Reads locks or queues. Sends the requests of some before it reads the first reply.
static void snapshot_read_each(const reader_t *reader, size_t count, snapshot_fn *append, snapshot_fn *read) {
    for (size_t at = 0; at < count && reader->error->outcome == OUTCOME_OK; at += AT_ONCE) {
        size_t end = at + AT_ONCE < count ? at + AT_ONCE : count;
        for (size_t i = at; i < end; i++) append(reader, i);
        for (size_t i = at; i < end; i++) read(reader, i);
    }
}

static int snapshot_by_position(const void *a, const void *b) {
    return stream_id_compare(((const snapshot_copy_t *)b)->position, ((const snapshot_copy_t *)a)->position);
}

// The highest id that enough audit logs have; "0-0" = none.
static void snapshot_copied_until(const reader_t *reader, const snapshot_queue_t *queue, stream_id_t out) {
    int64_t wanted = reader->keys->config->stream.min_copies;
    size_t heard = 0, nth = wanted > 1 ? (size_t)wanted : 1;
    snapshot_copy_t *copies = mem_array(queue->copy_count + 1, sizeof *copies);
    for (size_t i = 0; i < queue->copy_count; i++)
        if (reader->out->now_ms - queue->copies[i].heard_ms <= STREAM_HEARD_MS) copies[heard++] = queue->copies[i];
    qsort(copies, heard, sizeof *copies, snapshot_by_position);
    snprintf(out, STREAM_ID_SIZE, "%s", nth <= heard ? copies[nth - 1].position : STREAM_ID_NONE);
    free(copies);
}

// Read the first uncopied entry only if there is one, because Redis sends it with its payload.
static void snapshot_read_uncopied(const reader_t *reader, size_t index) {
    snapshot_queue_t *queue = &reader->out->queues[index];
    stream_id_t have;
    char from[STREAM_ID_SIZE + 1];
    snapshot_copied_until(reader, queue, have);
    if (queue->stream.length == 0 || stream_id_compare(have, queue->stream.last) >= 0) return;
    queue->uncopied_ms = stream_id_ms(queue->stream.first);
    if (stream_id_compare(have, queue->stream.first) < 0) return;
    request_begin(reader->conn, "XRANGE", reader->keys->queues[index].failures);
    snprintf(from, sizeof from, "(%s", have);
    request_text(reader->conn, from, "+", "COUNT");
    request_int(reader->conn, 1);
    request_end(reader->conn);
    conn_expect_job(reader->conn);
    redisReply *reply = snapshot_next_reply(reader, reader->keys->queues[index].failures, &queue->error);
    const char *id = reply_text(reply_at(reply_at(reply, 0), 0));
    queue->uncopied_ms = *id ? stream_id_ms(id) : 0; // another client has deleted the entry
    conn_reply_free(reply);
}

// The positions were read before the ends, so one above the last id is of an earlier stream: its log has no record of this one.
static void snapshot_drop_earlier(snapshot_queue_t *queue) {
    if (strcmp(queue->stream.last, STREAM_ID_NONE) == 0) return; // there is no stream
    for (size_t i = 0; i < queue->copy_count; i++)
        if (stream_id_compare(queue->copies[i].position, queue->stream.last) > 0)
            snprintf(queue->copies[i].position, STREAM_ID_SIZE, STREAM_ID_NONE);
}

static void snapshot_read_streams(const reader_t *reader) {
    snapshot_t *out = reader->out;
    stream_ends_t *ends = mem_array(out->queue_count, sizeof *ends);
    stream_wanted_t *wanted = mem_array(out->queue_count, sizeof *wanted); // every first id
    outcome_t outcome = stream_read_ends(reader->conn, reader->keys, wanted, ends, &out->now_ms, reader->error);
    for (size_t i = 0; outcome == OUTCOME_OK && i < out->queue_count; i++) {
        snapshot_queue_t *queue = &out->queues[i];
        queue->stream = ends[i];
        queue->stream.error = NULL;
        if (queue->error.outcome == OUTCOME_OK && ends[i].error)
            redis_error_set_kind(&queue->error, OUTCOME_REFUSED, ends[i].error_kind, "%s", ends[i].error);
        snapshot_drop_earlier(&out->queues[i]);
    }
    stream_ends_free(ends, out->queue_count);
    free(wanted);
    for (size_t i = 0; reader->error->outcome == OUTCOME_OK && i < out->queue_count; i++) snapshot_read_uncopied(reader, i);
}

outcome_t snapshot_read(conn_t *conn, const keyspace_t *keys, snapshot_t *out, redis_error_t *error) {
    const reader_t reader = {.conn = conn, .keys = keys, .out = out, .error = error};
    *out = (snapshot_t){.memory_used = -1, .memory_most = -1, .lock_count = keys->lock_count, .queue_count = keys->queue_count};
    out->locks = mem_array(keys->lock_count, sizeof *out->locks);
    out->queues = mem_array(keys->queue_count, sizeof *out->queues);
    (void)conn_keep_alive(conn, error); // the server may have closed it since the last look
    if (conn_open(conn, error) == OUTCOME_OK) {
        snapshot_read_server(&reader);
        snapshot_read_each(&reader, keys->lock_count, snapshot_append_lock, snapshot_read_lock);
        snapshot_read_each(&reader, keys->queue_count, snapshot_append_queue, snapshot_read_queue);
    }
    while (error->outcome == OUTCOME_OK && snapshot_has_more_copies(out))
        snapshot_read_each(&reader, keys->queue_count, snapshot_append_copies, snapshot_read_copies);
    for (size_t i = 0; i < out->queue_count; i++) snapshot_keep_copies(&out->queues[i]);
    if (error->outcome == OUTCOME_OK) snapshot_read_streams(&reader); // last: a queue keeps its first error
    if (error->outcome != OUTCOME_OK) conn_close(conn);               // replies may be in flight
    return error->outcome;
}
