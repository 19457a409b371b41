#include "redis/socket/reply_guard.h"

enum { MAX_LINE = 64 << 10 }; // of the first line of a reply

// Stands for each object of a flat reply.
static redisReply flat_object = {.type = REDIS_REPLY_ARRAY};

bool guard_is_flat(const redisReply *reply) { return reply == &flat_object; }

// Only parts of an array are flat: a reply that is an error or nil is an object as ever.
static flat_reply_t *guard_flat_part(const redisReadTask *task) {
    const reply_guard_t *guard = task->privdata;
    return task->parent ? guard->flat : NULL;
}

static void *guard_add_text(flat_reply_t *flat, const char *text, size_t len) {
    flat_reply_add_text(flat, text, len);
    return &flat_object;
}

// A header of ten bytes can announce two thousand million elements. NULL: hiredis reports an error.
static void *guard_create_array(const redisReadTask *task, guard_elements_t elements) {
    reply_guard_t *guard = task->privdata;
    guard->elements += (size_t)elements;
    if (guard_is_exceeded(guard)) return NULL;
    if (!guard->flat) return guard->hiredis->createArray(task, elements);
    if (!task->parent) flat_reply_clear(guard->flat);
    flat_reply_add_array(guard->flat, (size_t)elements);
    return &flat_object;
}

static void *guard_create_string(const redisReadTask *task, char *text, size_t len) {
    flat_reply_t *flat = guard_flat_part(task);
    const reply_guard_t *guard = task->privdata;
    return flat ? guard_add_text(flat, text, len) : guard->hiredis->createString(task, text, len);
}

static void *guard_create_integer(const redisReadTask *task, long long number) {
    flat_reply_t *flat = guard_flat_part(task);
    const reply_guard_t *guard = task->privdata;
    return flat ? guard_add_text(flat, "", 0) : guard->hiredis->createInteger(task, number);
}

static void *guard_create_nil(const redisReadTask *task) {
    flat_reply_t *flat = guard_flat_part(task);
    const reply_guard_t *guard = task->privdata;
    return flat ? guard_add_text(flat, "", 0) : guard->hiredis->createNil(task);
}

static void guard_free_object(void *object) {
    if (!guard_is_flat(object)) freeReplyObject(object);
}

#if HIREDIS_MAJOR >= 1
static void *guard_create_double(const redisReadTask *task, double number, char *text, size_t len) {
    flat_reply_t *flat = guard_flat_part(task);
    const reply_guard_t *guard = task->privdata;
    return flat ? guard_add_text(flat, "", 0) : guard->hiredis->createDouble(task, number, text, len);
}

static void *guard_create_bool(const redisReadTask *task, int value) {
    flat_reply_t *flat = guard_flat_part(task);
    const reply_guard_t *guard = task->privdata;
    return flat ? guard_add_text(flat, "", 0) : guard->hiredis->createBool(task, value);
}
#endif

void guard_install(reply_guard_t *guard, redisReader *reader) {
    guard->hiredis = reader->fn;
    guard->functions = (redisReplyObjectFunctions) {
        .createString = guard_create_string, .createArray = guard_create_array, .createInteger = guard_create_integer,
        .createNil = guard_create_nil, .freeObject = guard_free_object,
#if HIREDIS_MAJOR >= 1
        .createDouble = guard_create_double, .createBool = guard_create_bool,
#endif
    };
    reader->fn = &guard->functions;
    reader->privdata = guard;
}

void guard_begin_reply(reply_guard_t *guard, const redisReader *reader) {
    guard->bytes = reader->len - reader->pos;
    guard->elements = 0;
    guard->most_bytes = MAX_REPLY;
    guard->flat = NULL;
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
