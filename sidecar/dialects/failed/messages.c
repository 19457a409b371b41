#include "dialects/failed/messages.h"

enum {
    MESSAGE_BYTES_MAX = 4 << 20,
    EXPECTED_S = 60, // a later message is about another failure
};

static void messages_remove(failed_messages_t *messages, size_t index) {
    failed_message_t *message = messages->all[index];
    messages->count--;
    memmove(&messages->all[index], &messages->all[index + 1], (messages->count - index) * sizeof *messages->all);
    messages->bytes -= message->id.len + message->error.len;
    buffer_free(&message->bytes);
    free(message);
}

void failed_messages_pop(failed_messages_t *messages) {
    if (messages->count) messages_remove(messages, 0);
}

void failed_messages_rotate(failed_messages_t *messages) {
    failed_message_t *first = messages->all[0];
    memmove(messages->all, &messages->all[1], (messages->count - 1) * sizeof *messages->all);
    messages->all[messages->count - 1] = first;
}

bool failed_messages_drop(failed_messages_t *messages, slice_t id) {
    size_t i = 0;
    while (i < messages->count && !slice_equal(messages->all[i]->id, id)) i++;
    if (i == messages->count) return false;
    messages_remove(messages, i);
    return true;
}

void failed_messages_clear(failed_messages_t *messages) {
    while (messages->count) messages_remove(messages, messages->count - 1);
    memset(messages->expected, 0, sizeof messages->expected);
}

bool failed_messages_make_room(failed_messages_t *messages, size_t bytes) {
    size_t before = messages->count;
    while (messages->count && (messages->count >= FAILED_MESSAGES_MAX || messages->bytes + bytes > MESSAGE_BYTES_MAX))
        failed_messages_pop(messages);
    return messages->count == before;
}

void failed_messages_add(failed_messages_t *messages, buffer_t bytes, size_t id_len, int64_t ms) {
    failed_message_t *message = mem_alloc(sizeof *message);
    message->bytes = bytes;
    message->ms = ms;
    message->id = (slice_t){buffer_text(&message->bytes), id_len};
    message->error = (slice_t){buffer_text(&message->bytes) + id_len, bytes.len - id_len};
    messages->all[messages->count++] = message;
    messages->bytes += bytes.len;
}

void failed_messages_expect(failed_messages_t *messages, slice_t id, mono_t now) {
    messages->expected[messages->expected_next].id = digest_of(id.data, id.len);
    messages->expected[messages->expected_next].at = now;
    messages->expected_next = (messages->expected_next + 1) % FAILED_EXPECTED_MAX;
}

size_t failed_messages_expected(const failed_messages_t *messages, slice_t id, mono_t now) {
    digest_t digest = digest_of(id.data, id.len);
    size_t count = 0;
    for (size_t i = 0; i < FAILED_EXPECTED_MAX; i++) {
        mono_t at = messages->expected[i].at;
        if (!at.ns || mono_diff(now, at) > EXPECTED_S * NS_PER_S) continue;
        if (memcmp(&messages->expected[i].id, &digest, sizeof digest) == 0) count++;
    }
    return count;
}

void failed_messages_take_expected(failed_messages_t *messages, slice_t id) {
    digest_t digest = digest_of(id.data, id.len);
    for (size_t n = 0; n < FAILED_EXPECTED_MAX; n++) { // the oldest first
        size_t i = (messages->expected_next + n) % FAILED_EXPECTED_MAX;
        if (!messages->expected[i].at.ns || memcmp(&messages->expected[i].id, &digest, sizeof digest) != 0) continue;
        messages->expected[i].at = (mono_t){0};
        return;
    }
}
