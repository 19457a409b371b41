#include "operate/history/history.h"

#include "base/json/json.h"
#include "base/text/time_text.h"
#include "redis/reply.h"

// Fills *out from the ring, which ends before the step under way at now_ms. A slot of that step would come from a clock that was
// ahead.
static void history_fill(slice_t ring, int64_t now_ms, int64_t since_ms, history_t *out) {
    int64_t step_ms = out->step * INT64_C(60000), end = now_ms / step_ms, first = end - HISTORY_DAY / out->step;
    if (!ring.len || !history_slot(ring, out->step, end - 1).written) end--; // may still be stored
    if (since_ms > first * step_ms) first = (since_ms + step_ms - 1) / step_ms;
    if (first < 0) first = 0;
    out->from_ms = first * step_ms;
    out->count = first < end ? (size_t)(end - first) : 0;
    out->slots = mem_array(out->count, sizeof *out->slots);
    for (size_t i = 0; i < out->count && ring.len; i++) out->slots[i] = history_slot(ring, out->step, first + (int64_t)i);
}

outcome_t history_read(const call_t *call, int64_t since_ms, history_t *out) {
    const queue_keys_t *at = call_queue(call);
    *out = (history_t){.queue = at->config->name, .step = history_step(call->keys->config)};
    *call->error = (redis_error_t){0};
    request_append(call->conn, "TIME");
    request_append(call->conn, "GET", at->history);
    redisReply *time = conn_read_next(call->conn, NULL, call->error);
    redisReply *got = conn_read_next(call->conn, at->history, call->error);
    slice_t ring = reply_slice(got);
    int step = history_step_of(ring.len);
    if (ring.len && !step)
        redis_error_set(call->error, OUTCOME_REFUSED, "%s holds %zu bytes that are no history", at->history, ring.len);
    if (step) out->step = step;
    if (call->error->outcome == OUTCOME_OK && out->step) history_fill(ring, reply_time_ms(time), since_ms, out);
    conn_reply_free(time);
    conn_reply_free(got);
    return call->error->outcome;
}

void history_clear(history_t *history) {
    free(history->slots);
    *history = (history_t){0};
}

static int64_t history_member(const history_t *history, size_t slot, size_t offset) {
    const history_slot_t *at = &history->slots[slot];
    return at->written ? *(const int64_t *)((const char *)&at->sample + offset) : HISTORY_UNKNOWN;
}

static void history_json_times(const history_t *history, buffer_t *out) {
    for (size_t i = 0; i < history->count; i++)
        buffer_printf(out, "%s\"%s\"", i ? "," : "",
                      time_rfc3339(history->from_ms + (int64_t)i * history->step * INT64_C(60000)).text);
}

static void history_json_numbers(const history_t *history, size_t offset, bool ms, buffer_t *out) {
    for (size_t i = 0; i < history->count; i++) {
        int64_t number = history_member(history, i, offset);
        if (i) buffer_str(out, ",");
        if (number < 0)
            buffer_str(out, "null");
        else if (ms)
            buffer_printf(out, "%" PRId64 ".%03d", number / 1000, (int)(number % 1000));
        else
            buffer_printf(out, "%" PRId64, number);
    }
}

void history_json(const history_t *history, buffer_t *out) {
    static const struct {
        const char *name;
        size_t offset;
        bool ms;
    } rows[] = {
        {"ready", offsetof(history_sample_t, ready), false},
        {"delayed", offsetof(history_sample_t, delayed), false},
        {"in_progress", offsetof(history_sample_t, in_progress), false},
        {"late_seconds", offsetof(history_sample_t, late_ms), true},
        {"failures", offsetof(history_sample_t, failures), false},
    };
    buffer_str(out, "{\"queue\":");
    json_write_string(out, slice_text(history->queue));
    if (history->step)
        buffer_printf(out, ",\"step_seconds\":%d,\"from\":\"%s\",\"at\":[", history->step * 60,
                      time_rfc3339(history->from_ms).text);
    else
        buffer_str(out, ",\"step_seconds\":null,\"from\":null,\"at\":[");
    history_json_times(history, out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buffer_printf(out, "],\"%s\":[", rows[i].name);
        history_json_numbers(history, rows[i].offset, rows[i].ms, out);
    }
    buffer_str(out, "]}");
}
