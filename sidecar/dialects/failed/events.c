#include "dialects/failed/events.h"

#include "base/log.h"
#include "redis/reply.h"

enum {
    READ_MS = 1000,     // between two reads
    RETRY_MS = 60000,   // after a refused read, so that the zset is read meanwhile
    ENTRIES = 256,      // that one read reads: a ms of Redis. A full read is followed by the next one at once
    BYTES = 1 << 20,    // one read reads no further entry after this many bytes
    EVENTS_HEAD = 4,    // elements of a reply before the failures
    EVENTS_FAILURE = 3, // elements of a failure
};

void failed_events_forget(failed_events_t *events) {
    events->cursor[0] = '\0';
    events->at = (mono_t){0};
}

static void events_append(const failed_events_t *events, const failed_source_t *source, const call_t *call, bool off) {
    const failed_stream_t *stream = source->layout->stream;
    call_script(call, &script_failed_events, 3);
    request_text(call->conn, source->events, call_queue(call)->meta, call->token, off ? "off" : events->cursor);
    request_int(call->conn, ENTRIES, BYTES);
    request_text(call->conn, stream->job, stream->error);
    for (size_t i = 0; i < FAILED_STREAM_TELLS && stream->tells[i][0]; i++)
        request_text(call->conn, stream->tells[i][0], stream->tells[i][1]);
    conn_expect_job(call->conn);
}

static void events_add(failed_messages_t *messages, const redisReply *reply, size_t at) {
    slice_t id = reply_slice(reply->element[at + 1]), error = reply_slice(reply->element[at + 2]);
    buffer_t bytes = {0};
    buffer_add(&bytes, id.data, id.len);
    buffer_add(&bytes, error.data, error.len);
    failed_messages_add(messages, bytes, id.len, reply_number(reply->element[at]));
}

static void events_note_trimmed(failed_events_t *events, const char *queue, bool trimmed) {
    if (condition_update(&events->trimmed, trimmed) == CONDITION_BEGAN)
        log_warn("monitor", queue,
                 "the stream of events was trimmed before it was read; jobs that workers removed at once may have no record");
}

outcome_t failed_events_read(failed_events_t *events, const failed_source_t *source, side_task_call_t *call,
                             failed_messages_t *messages, bool off) {
    redisReply *reply;
    events->at = mono_add(call->now, RETRY_MS * NS_PER_MS);
    events_append(events, source, &call->redis, off);
    if (call_ask(&call->redis, &reply) != OUTCOME_OK) return call->redis.error->outcome;
    if (script_reply_begins(reply, "events", "off", call->redis.error) && !off) {
        snprintf(events->cursor, sizeof events->cursor, "%s", reply_text(reply_at(reply, 1)));
        events_note_trimmed(events, call_queue(&call->redis)->config->name, reply_is(reply_at(reply, 2), "1"));
        events->at = reply_is(reply_at(reply, 3), "1") ? call->now : mono_add(call->now, READ_MS * NS_PER_MS);
        for (size_t at = EVENTS_HEAD; at + EVENTS_FAILURE <= reply->elements; at += EVENTS_FAILURE)
            events_add(messages, reply, at);
    }
    freeReplyObject(reply);
    return call->redis.error->outcome;
}
