#include "redis/socket/reply_guard.h"

enum { MAX_LINE = 64 << 10 }; // of the first line of a reply

// A header of ten bytes can announce two thousand million elements. NULL: hiredis reports an error.
static void *guard_create_array(const redisReadTask *task, guard_elements_t elements) {
    reply_guard_t *guard = task->privdata;
    guard->elements += (size_t)elements;
    return guard_is_exceeded(guard) ? NULL : guard->create_array(task, elements);
}

void guard_install(reply_guard_t *guard, redisReader *reader) {
    guard->functions = *reader->fn;
    guard->create_array = guard->functions.createArray;
    guard->functions.createArray = guard_create_array;
    reader->fn = &guard->functions;
    reader->privdata = guard;
}

void guard_begin_reply(reply_guard_t *guard, const redisReader *reader) {
    guard->bytes = reader->len - reader->pos;
    guard->elements = 0;
    guard->most_bytes = MAX_REPLY;
}

bool guard_receive(reply_guard_t *guard, const redisReader *reader, size_t bytes) {
    guard->bytes += bytes;
    // hiredis looks for the end of a line from its beginning each time, which takes for ever with a line of megabytes.
    bool line_ends = reader->len - reader->pos <= MAX_LINE || memchr(reader->buf + reader->pos, '\n', MAX_LINE);
    return line_ends && !guard_is_exceeded(guard);
}

bool guard_is_exceeded(const reply_guard_t *guard) {
    return guard->bytes > guard->most_bytes || guard->elements > MAX_REPLY_ELEMENTS;
}
