#include "queue/stream.h"

#include "queue/scripts.h"
#include "redis/reply.h"
#include "redis/socket/flat_reply.h"

enum { CHUNK = 500 }; // queues in one request, which takes Redis some 100 us

typedef struct stream_id_parts {
    uint64_t ms;
    uint64_t seq;
} stream_id_parts_t;

static stream_id_parts_t stream_id_parse(const char *text) {
    stream_id_parts_t id = {0};
    char *end;
    id.ms = strtoull(text, &end, 10);
    if (end == text || *end != '-') return (stream_id_parts_t){0};
    const char *seq = end + 1;
    id.seq = strtoull(seq, &end, 10);
    if (end == seq || *end) return (stream_id_parts_t){0};
    return id;
}

int stream_id_compare(const char *a, const char *b) {
    stream_id_parts_t x = stream_id_parse(a);
    stream_id_parts_t y = stream_id_parse(b);
    if (x.ms != y.ms) return x.ms < y.ms ? -1 : 1;
    if (x.seq != y.seq) return x.seq < y.seq ? -1 : 1;
    return 0;
}

int64_t stream_id_ms(const char *id) {
    uint64_t ms = stream_id_parse(id).ms;
    return ms > INT64_MAX ? INT64_MAX : (int64_t)ms;
}

void stream_read_append(conn_t *conn, const keyspace_t *keys, const stream_id_t *positions, int64_t limit, int64_t block_ms) {
    request_begin(conn, "XREAD", "COUNT");
    request_int(conn, limit);
    if (block_ms > 0) {
        request_text(conn, "BLOCK");
        request_int(conn, block_ms);
        conn_expect_wait(conn);
    }
    request_text(conn, "STREAMS");
    for (size_t i = 0; i < keys->queue_count; i++)
        if (*positions[i]) request_text(conn, keys->queues[i].failures);
    for (size_t i = 0; i < keys->queue_count; i++)
        if (*positions[i]) request_text(conn, positions[i]);
    request_end(conn);
}

static void stream_read_entry(flat_cursor_t *cursor, size_t queue, stream_entry_fn *call, void *self) {
    event_t event = {0};
    size_t bytes = 0, parts = flat_array(cursor);
    const char *id = parts > 0 ? flat_text(cursor).data : "";
    size_t fields = parts > 1 ? flat_array(cursor) : 0;
    for (size_t i = 0; i + 1 < fields; i += 2) {
        slice_t name = flat_text(cursor), value = flat_text(cursor);
        bytes += value.len;
        // Skip an unknown field or a malformed number; the rest of the record is good.
        if (!event_set(&event, name, value)) continue;
    }
    flat_skip(cursor, fields % 2 + (parts > 2 ? parts - 2 : 0));
    event_clear_impossible(&event);
    call(self, queue, id, &event, bytes);
}

// Streams come in the order of the request, so search from the last match on.
static size_t stream_queue(const keyspace_t *keys, const char *key, size_t from) {
    for (size_t n = 0; n < keys->queue_count; n++) {
        size_t queue = (from + n) % keys->queue_count;
        if (strcmp(keys->queues[queue].failures, key) == 0) return queue;
    }
    return keys->queue_count;
}

outcome_t stream_read_reply(conn_t *conn, bool *arrived, redis_error_t *error) {
    redisReply *reply;
    conn_expect_flat(conn);
    outcome_t outcome = arrived ? conn_try_read(conn, &reply, error) : conn_read(conn, 0, &reply, error);
    if (arrived) *arrived = reply != NULL || (outcome != OUTCOME_OK && outcome != OUTCOME_DISCONNECTED);
    if (reply && !conn_reply_is_flat(reply)) conn_release_flat(conn); // nil: there is no entry
    conn_reply_free(reply);
    return outcome;
}

// Gets the entries of a reply, or only their ids.
typedef struct stream_reader {
    stream_entry_fn *entry; // NULL = `id` gets the ids
    stream_id_fn *id;
    void *self;
} stream_reader_t;

static void stream_read_id(flat_cursor_t *cursor, size_t queue, const stream_reader_t *reader) {
    flat_cursor_t entry = *cursor;
    assert(reader->id); // no reader lacks both
    reader->id(reader->self, queue, flat_array(&entry) > 0 ? flat_text(&entry).data : "");
    flat_skip(cursor, 1);
}

// False: the reply has a stream that was not requested.
static bool stream_each(conn_t *conn, const keyspace_t *keys, const stream_reader_t *reader) {
    flat_cursor_t cursor = {.reply = conn_flat(conn)};
    size_t queue = 0;
    for (size_t streams = flat_array(&cursor); streams > 0; streams--) {
        size_t parts = flat_array(&cursor);
        queue = stream_queue(keys, parts > 0 ? flat_text(&cursor).data : "", queue);
        if (queue == keys->queue_count) return false;
        for (size_t entries = parts > 1 ? flat_array(&cursor) : 0; entries > 0; entries--) {
            if (reader->entry)
                stream_read_entry(&cursor, queue, reader->entry, reader->self);
            else
                stream_read_id(&cursor, queue, reader);
        }
        flat_skip(&cursor, parts > 2 ? parts - 2 : 0);
    }
    return true;
}

outcome_t stream_read_ids(conn_t *conn, const keyspace_t *keys, stream_id_fn *call, void *self, int64_t *bytes,
                          redis_error_t *error) {
    *bytes = (int64_t)conn_flat(conn)->bytes.len;
    if (stream_each(conn, keys, &(stream_reader_t){.id = call, .self = self})) return OUTCOME_OK;
    return redis_error_set(error, OUTCOME_REFUSED, "XREAD: unexpected reply");
}

void stream_read_each(conn_t *conn, const keyspace_t *keys, stream_entry_fn *entry, void *self) {
    stream_each(conn, keys, &(stream_reader_t){.entry = entry, .self = self});
}

outcome_t stream_read_take(conn_t *conn, const keyspace_t *keys, stream_entry_fn *entry, void *self, bool *arrived,
                           redis_error_t *error) {
    const stream_reader_t reader = {.entry = entry, .self = self};
    outcome_t outcome = stream_read_reply(conn, arrived, error);
    if (outcome != OUTCOME_OK || (arrived && !*arrived) || stream_each(conn, keys, &reader)) return outcome;
    return redis_error_set(error, OUTCOME_REFUSED, "XREAD: unexpected reply");
}

static void stream_copy_id(stream_id_t id, const redisReply *reply) {
    snprintf(id, STREAM_ID_SIZE, "%s", reply_len(reply) ? reply_text(reply) : STREAM_ID_NONE);
}

void stream_ends_free(stream_ends_t *ends, size_t count) {
    for (size_t i = 0; i < count; i++) free(ends[i].error);
    free(ends);
}

enum { ENDS_FIELDS = 6 }; // of each queue in the reply

// call->queue is the first queue. *count: queues to read; then those that were read, at least one.
static outcome_t stream_read_ends_chunk(const call_t *call, size_t *count, const stream_wanted_t *wanted, stream_ends_t *out,
                                        int64_t *now_ms) {
    const queue_keys_t *queues = call_queue(call);
    redisReply *reply;
    request_script(call->conn, &script_stream_ends, (int)(2 * *count));
    for (size_t i = 0; i < *count; i++) request_text(call->conn, queues[i].failures, queues[i].meta);
    for (size_t i = 0; i < *count; i++)
        request_text(call->conn, wanted ? wanted[call->queue + i].event_of : "",
                     wanted ? wanted[call->queue + i].after : STREAM_ID_MAX);
    if (request_ask(call->conn, &reply, call->error) != OUTCOME_OK) return call->error->outcome;
    *now_ms = reply_number(reply_at(reply, 0));
    if (reply->elements > ENDS_FIELDS && reply->elements / ENDS_FIELDS < *count) *count = reply->elements / ENDS_FIELDS;
    for (size_t i = 0; i < *count; i++) {
        stream_ends_t *ends = &out[call->queue + i];
        const size_t at = ENDS_FIELDS * i;
        const char *length = reply_text(reply_at(reply, at + 1));
        free(ends->error);
        *ends = (stream_ends_t){.length = strtoll(length, NULL, 10)};
        if (*length == '!') ends->error = mem_printf("\"%s\": %.100s", queues[i].failures, length + 1);
        stream_copy_id(ends->first, reply_at(reply, at + 2));
        stream_copy_id(ends->last, reply_at(reply, at + 3));
        stream_copy_id(ends->trimmed, reply_at(reply, at + 4));
        ends->bytes = reply_number(reply_at(reply, at + 5));
        snprintf(ends->event, sizeof ends->event, "%s", reply_text(reply_at(reply, at + 6)));
    }
    freeReplyObject(reply);
    if (*now_ms <= 0) return redis_error_set(call->error, OUTCOME_REFUSED, "stream_ends: unexpected reply");
    return OUTCOME_OK;
}

// Redis refuses a whole request if keys are in several Cluster slots, or if a right to one key is missing. Then
// stream_read_some_ends and stream_acknowledge send one request for each queue.
outcome_t stream_read_some_ends(const call_t *call, size_t count, const stream_wanted_t *wanted, stream_ends_t *out,
                                int64_t *now_ms) {
    const size_t end = call->queue + count;
    size_t alone = 0; // queues below this index are asked for alone
    *now_ms = 0;
    for (size_t first = call->queue, some; first < end; first += some) {
        size_t most = first < alone ? 1 : CHUNK;
        some = end - first < most ? end - first : most;
        const call_t chunk = {call->conn, call->keys, first, NULL, call->error};
        outcome_t outcome = stream_read_ends_chunk(&chunk, &some, wanted, out, now_ms);
        if (outcome == OUTCOME_OK) continue;
        if (outcome != OUTCOME_REFUSED) return outcome;
        if (some > 1) {
            alone = first + some;
            some = 0;
            continue;
        }
        free(out[first].error);
        out[first] = (stream_ends_t){.first = STREAM_ID_NONE, .last = STREAM_ID_NONE, .trimmed = STREAM_ID_NONE};
        out[first].error = mem_printf("%.150s", call->error->text);
        out[first].error_kind = call->error->kind;
    }
    *call->error = (redis_error_t){0};
    return OUTCOME_OK;
}

outcome_t stream_read_ends(conn_t *conn, const keyspace_t *keys, const stream_wanted_t *wanted, stream_ends_t *out,
                           int64_t *now_ms, redis_error_t *error) {
    const call_t call = {conn, keys, 0, NULL, error};
    return stream_read_some_ends(&call, keys->queue_count, wanted, out, now_ms);
}

outcome_t stream_read_counts(conn_t *conn, const keyspace_t *keys, const stream_id_t *wanted, stream_ends_t *out,
                             redis_error_t *error) {
    *error = (redis_error_t){0};
    for (size_t i = 0; i < keys->queue_count; i++)
        if (*wanted[i]) request_append(conn, "HMGET", keys->queues[i].meta, "trimmed", "bytes");
    for (size_t i = 0; i < keys->queue_count; i++) {
        redis_error_t refusal;
        if (!*wanted[i]) continue;
        redisReply *reply = conn_read_or_refusal(conn, &refusal, error);
        if (reply) stream_copy_id(out[i].trimmed, reply_at(reply, 0));
        if (reply) out[i].bytes = reply_number(reply_at(reply, 1));
        conn_reply_free(reply);
    }
    return error->outcome;
}

static outcome_t stream_acknowledge_chunk(const call_t *call, const char *instance, const stream_id_t *positions,
                                          const size_t *chosen, size_t count) {
    const queue_keys_t *queues = call->keys->queues;
    redisReply *reply;
    request_script(call->conn, &script_acknowledge, (int)(3 * count));
    for (size_t i = 0; i < count; i++)
        request_text(call->conn, queues[chosen[i]].auditors, queues[chosen[i]].failures, queues[chosen[i]].meta);
    request_text(call->conn, instance);
    for (size_t i = 0; i < count; i++) request_text(call->conn, positions[chosen[i]]);
    if (request_ask(call->conn, &reply, call->error) != OUTCOME_OK) return call->error->outcome;
    for (size_t i = 0; i < count; i++) {
        const char *said = reply_text(reply_at(reply, i + 1));
        if (*said == '!')
            redis_error_set(call->error, OUTCOME_REFUSED, "\"%.100s\": %.100s", queues[chosen[i]].auditors, said + 1);
    }
    freeReplyObject(reply);
    return call->error->outcome;
}

outcome_t stream_acknowledge(conn_t *conn, const keyspace_t *keys, const char *instance, const stream_id_t *positions,
                             redis_error_t *error) {
    const call_t call = {conn, keys, 0, NULL, error};
    size_t chosen[CHUNK];
    size_t alone = 0; // as in stream_read_some_ends
    redis_error_t refusal = {0};
    for (size_t first = 0, next; first < keys->queue_count; first = next) {
        size_t count = 0;
        for (next = first; next < keys->queue_count && count < (first < alone ? 1 : CHUNK); next++)
            if (*positions[next]) chosen[count++] = next;
        if (count == 0) break;
        outcome_t outcome = stream_acknowledge_chunk(&call, instance, positions, chosen, count);
        if (outcome == OUTCOME_DISCONNECTED || outcome == OUTCOME_RETRY) return outcome;
        if (outcome == OUTCOME_REFUSED && count == 1) refusal = *error;
        if (outcome == OUTCOME_OK || count == 1) continue;
        alone = next;
        next = first;
    }
    *error = refusal;
    return refusal.outcome;
}

outcome_t stream_revoke_acks(conn_t *conn, const keyspace_t *keys, const char *instance, const stream_id_t *above,
                             int64_t *removed, redis_error_t *error) {
    *removed = 0;
    for (size_t i = 0; i < keys->queue_count; i++) {
        bool more = true;
        *error = (redis_error_t){0};
        if (above) {
            stream_id_t id;
            request_append(conn, "HGET", keys->queues[i].auditors, instance);
            redisReply *reply = conn_read_next(conn, NULL, error);
            snprintf(id, sizeof id, "%.*s", (int)strcspn(reply_text(reply), " "), reply_text(reply));
            more = reply && stream_id_compare(id, above[i]) > 0;
            freeReplyObject(reply);
        }
        if (more) {
            request_append(conn, "HDEL", keys->queues[i].auditors, instance);
            *removed += conn_read_int(conn, NULL, error);
        }
        if (error->outcome == OUTCOME_DISCONNECTED || error->outcome == OUTCOME_RETRY) return error->outcome;
    }
    *error = (redis_error_t){0};
    return OUTCOME_OK;
}

int64_t stream_room(const keyspace_t *keys) { return keys->config->stream.max_bytes / 2; }

int64_t stream_room_low(const keyspace_t *keys) { return stream_room(keys) - stream_room(keys) / 8; }

outcome_t stream_trim(const call_t *call, int64_t room, int64_t most, stream_trimmed_t *out) {
    const queue_keys_t *of = call_queue(call);
    const config_t *config = call->keys->config;
    conn_t *conn = call->conn;
    redisReply *reply;
    *out = (stream_trimmed_t){0};
    call_script(call, &script_trim, 4);
    request_text(conn, of->failures, of->auditors, of->meta, call->token);
    request_int(conn, config->stream.retain_ms, config->stream.min_records, config->stream.min_copies, most, STREAM_TRIM_BYTES,
                STREAM_HEARD_MS, room);
    if (call_ask(call, &reply) != OUTCOME_OK) return call->error->outcome;
    if (reply_is(reply_at(reply, 0), "trimmed")) {
        out->removed = reply_int(reply_at(reply, 1));
        out->left = reply_int(reply_at(reply, 2));
        out->wait_ms = reply_int(reply_at(reply, 3));
        out->early = reply_int(reply_at(reply, 4));
        out->bytes = reply_int(reply_at(reply, 5));
        out->took_us = reply_int(reply_at(reply, 6));
        out->fixed_us = reply_int(reply_at(reply, 7));
        out->crowded = reply_int(reply_at(reply, 8));
    } else {
        redis_error_set(call->error, OUTCOME_REFUSED, "trim: unexpected reply");
    }
    freeReplyObject(reply);
    return call->error->outcome;
}
