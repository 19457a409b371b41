// The request that retries or ends pending entries; see stream_settle.lua.
#include "dialects/stream/internal.h"

#include "dialects/stream/scripts.h"
#include "queue/record.h"

enum { SETTLE_KEYS = 8 };

static bool settle_ends(const settle_ask_t *ask) { return ask->new.len == 0; }

// An entry that was deleted has no bytes to keep.
static event_t settle_record(const settle_ask_t *ask) {
    event_t event = *ask->event;
    if (!ask->where->pending->deleted) return event;
    event.payload = slice_text("");
    event.size = 0;
    return event;
}

static void settle_append_keys(const call_t *call, const settle_ask_t *const *asks, size_t count) {
    const queue_keys_t *at = call_queue(call);
    const char *none = call_lock(call), *delayed = none;
    int beats = 0;
    for (size_t i = 0; i < count; i++) {
        beats += asks[i]->heartbeat != NULL;
        if (asks[i]->delay_ms && !settle_ends(asks[i])) delayed = at->config->delayed;
    }
    call_script(call, &script_stream_settle, SETTLE_KEYS + beats);
    request_text(call->conn, at->stamps, at->config->errors, at->failures, at->meta, stream_config(at->config)->stream, delayed,
                 *at->config->dlq ? at->config->dlq : none);
    for (size_t i = 0; i < count; i++)
        if (asks[i]->heartbeat) request_text(call->conn, asks[i]->heartbeat);
}

static void settle_append_settings(const call_t *call) {
    const queue_config_t *queue = call_queue(call)->config;
    const stream_config_t *own = stream_config(queue);
    request_text(call->conn, call->token, queue->policy.score_unit == SCORE_S ? "s" : "ms");
    request_int(call->conn, call->keys->config->stream.max_bytes);
    request_text(call->conn, queue->policy.on_failure, own->group);
    request_int(call->conn, queue->policy.protected_timeout_ms);
    if (stream_beats_by_consumer(queue))
        request_int(call->conn, own->consumer_timeout_ms);
    else
        request_text(call->conn, "");
    request_text(call->conn, own->field);
}

static void settle_append_entry(const call_t *call, const settle_ask_t *ask, int beat) {
    const pending_entry_t *pending = ask->where->pending;
    conn_t *conn = call->conn;
    request_text(conn, !settle_ends(ask) ? "r" : pending->deleted ? "u" : "e", pending->id);
    request_bytes(conn, pending->consumer.data, pending->consumer.len);
    request_int(conn, pending->deliveries);
    request_bytes(conn, ask->digest->bytes, STAMP_FIELD_BYTES);
    request_bytes(conn, ask->old.bytes, ask->old.len);
    request_bytes(conn, ask->new.bytes, ask->new.len);
    request_text(conn, ask->report);
    request_int(conn, ask->delay_ms, ask->heartbeat ? SETTLE_KEYS + beat : 0);
}

void stream_settle_append(const call_t *call, const settle_ask_t *const *asks, size_t count) {
    record_form_t form = {0};
    event_t first = settle_record(asks[0]);
    int beat = 0;
    for (size_t i = 0; i < count; i++) {
        event_t event = settle_record(asks[i]);
        record_form_add(&form, &first, &event);
    }
    settle_append_keys(call, asks, count);
    settle_append_settings(call);
    record_append_form(call->conn, &form, &first);
    for (size_t i = 0; i < count; i++) {
        event_t event = settle_record(asks[i]);
        beat += asks[i]->heartbeat != NULL;
        settle_append_entry(call, asks[i], beat);
        record_append_values(call->conn, &form, &event);
    }
    request_end(call->conn);
}
