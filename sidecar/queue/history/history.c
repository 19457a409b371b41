#include "queue/history/history.h"

#include "queue/scripts.h"
#include "redis/reply.h"

enum { MINUTE_BYTES = 4, COUNTED_BYTES = 18, SLOT_BYTES = MINUTE_BYTES + COUNTED_BYTES };

// The numbers of a slot behind its minute, and their bytes. The highest number means "unknown".
static const struct {
    size_t offset;
    size_t bytes;
} FIELDS[] = {
    {offsetof(history_sample_t, ready), 4},       {offsetof(history_sample_t, delayed), 4},
    {offsetof(history_sample_t, in_progress), 4}, {offsetof(history_sample_t, late_ms), 4},
    {offsetof(history_sample_t, failures), 2},
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof *FIELDS };

int history_step(const config_t *config) {
    if (config->history == HISTORY_OFF) return 0;
    return config->queue_count > HISTORY_MANY_QUEUES ? 5 : 1;
}

// A queue takes Redis some 4 us.
size_t history_request_queues(const config_t *config) {
    enum { QUEUE_US = 6, MOST = 256 };
    int64_t queues = config->redis.slice_us / QUEUE_US;
    return queues < MOST ? (size_t)queues : MOST; // the smallest slice has some
}

static uint32_t history_most(size_t bytes) { return UINT32_MAX >> (32 - 8 * bytes); }

static void history_pack(const history_sample_t *sample, unsigned char *out) {
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        int64_t value = *(const int64_t *)((const char *)sample + FIELDS[i].offset);
        uint32_t most = history_most(FIELDS[i].bytes);
        uint32_t number = value < 0 ? most : value >= most ? most - 1 : (uint32_t)value;
        for (size_t byte = 0; byte < FIELDS[i].bytes; byte++) *out++ = (unsigned char)(number >> 8 * byte);
    }
}

static uint32_t history_number(const unsigned char *from, size_t bytes) {
    uint32_t number = 0;
    for (size_t byte = 0; byte < bytes; byte++) number |= (uint32_t)from[byte] << 8 * byte;
    return number;
}

void history_append(const call_t *call, int step, int64_t number, const history_entry_t *entries, size_t count) {
    call_script(call, &script_history, (int)count + 1);
    for (size_t i = 0; i < count; i++) request_text(call->conn, call->keys->queues[entries[i].queue].history);
    request_text(call->conn, call->token);
    request_int(call->conn, step, number);
    for (size_t i = 0; i < count; i++) {
        unsigned char counted[COUNTED_BYTES];
        history_pack(&entries[i].sample, counted);
        request_bytes(call->conn, counted, sizeof counted);
    }
    request_end(call->conn);
}

outcome_t history_read_stored(const call_t *call, const history_entry_t *entries, size_t count) {
    redisReply *reply;
    if (conn_read(call->conn, 0, &reply, call->error) != OUTCOME_OK) return call->error->outcome;
    outcome_t outcome = script_refusal(reply, call->error);
    for (size_t i = 0; i < count && outcome == OUTCOME_OK; i++) {
        const char *error = reply_text(reply_at(reply, i + 1));
        if (*error != '!') continue;
        outcome = redis_error_from_reply(call->error, error + 1, strlen(error + 1));
        redis_error_reword(call->error, "%.120s: %.200s", call->keys->queues[entries[i].queue].history, call->error->text);
    }
    conn_reply_free(reply);
    return outcome;
}

int history_step_of(size_t bytes) {
    for (int step = 1; step <= 5; step += 4)
        if (bytes == (size_t)(HISTORY_DAY / step) * SLOT_BYTES) return step;
    return 0;
}

history_slot_t history_slot(slice_t ring, int step, int64_t number) {
    size_t slots = (size_t)(HISTORY_DAY / step);
    assert(ring.len == slots * SLOT_BYTES && number >= 0);
    const unsigned char *at = (const unsigned char *)ring.data + (size_t)number % slots * SLOT_BYTES;
    history_slot_t slot = {.written = history_number(at, MINUTE_BYTES) == (uint32_t)(number * step)};
    at += MINUTE_BYTES;
    for (size_t i = 0; i < FIELD_COUNT; at += FIELDS[i++].bytes) {
        uint32_t value = history_number(at, FIELDS[i].bytes);
        bool known = slot.written && value != history_most(FIELDS[i].bytes);
        *(int64_t *)((char *)&slot.sample + FIELDS[i].offset) = known ? (int64_t)value : HISTORY_UNKNOWN;
    }
    return slot;
}
