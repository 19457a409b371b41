/* A flat reply is read item by item, whatever its shape. */
#include "redis/socket/flat_reply.h"
#include "redis/socket/reply_guard.h"
#include "suite.h"

/* Parses the bytes of a reply, `step` bytes at a time. */
static redisReply *parse(reply_guard_t *guard, redisReader *reader, flat_reply_t *flat, const char *bytes, size_t step) {
    void *reply = NULL;
    guard_install(guard, reader);
    guard_begin_reply(guard, reader);
    guard->flat = flat;
    for (size_t at = 0, len = strlen(bytes); at < len; at += step) {
        cr_assert_null(reply, "the reply came before its end");
        redisReaderFeed(reader, bytes + at, len - at < step ? len - at : step);
        cr_assert_eq(redisReaderGetReply(reader, &reply), REDIS_OK, "%s", reader->errstr);
    }
    return reply;
}

Test(unit_flat_reply, parts_come_in_order_and_others_are_skipped) {
    static const char bytes[] = "*5\r\n$1\r\na\r\n*2\r\n*1\r\n$4\r\ndeep\r\n:7\r\n$-1\r\n*0\r\n$3\r\nend\r\n";
    for (size_t step = 1; step <= sizeof bytes; step++) {
        reply_guard_t guard = {0};
        scoped(flat_reply_free) flat_reply_t flat = {0};
        redisReader *reader = redisReaderCreate();
        redisReply *reply = parse(&guard, reader, &flat, bytes, step);
        cr_assert(guard_is_flat(reply));
        flat_cursor_t cursor = {.reply = &flat};
        cr_assert_eq(flat_array(&cursor), 5);
        cr_expect(slice_is(flat_text(&cursor), "a"));
        cr_expect_eq(flat_text(&cursor).len, 0, "an array is no text, and is skipped");
        cr_expect_eq(flat_text(&cursor).len, 0, "nil");
        cr_expect_eq(flat_array(&cursor), 0);
        cr_expect_eq(flat_array(&cursor), 0, "a text is no array, and is skipped");
        cr_expect_eq(flat_text(&cursor).len, 0, "behind the end");
        cursor.next = 1;
        flat_skip(&cursor, 4);
        cr_expect_str_eq(flat_text(&cursor).data, "end");
        redisReaderFree(reader);
    }
}

Test(unit_flat_reply, only_arrays_are_flat) {
    static const char *const replies[] = {"$-1\r\n", "-ERR no\r\n", "+OK\r\n", ":3\r\n", "*-1\r\n"};
    static const int types[] = {REDIS_REPLY_NIL, REDIS_REPLY_ERROR, REDIS_REPLY_STATUS, REDIS_REPLY_INTEGER, REDIS_REPLY_NIL};
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        reply_guard_t guard = {0};
        scoped(flat_reply_free) flat_reply_t flat = {0};
        redisReader *reader = redisReaderCreate();
        redisReply *reply = parse(&guard, reader, &flat, replies[i], 100);
        cr_assert(reply && !guard_is_flat(reply));
        cr_expect_eq(reply->type, types[i], "%s", replies[i]);
        freeReplyObject(reply);
        redisReaderFree(reader);
    }
}

/* A reader that is freed in mid reply must not free the object that stands for all parts. */
Test(unit_flat_reply, a_connection_may_end_in_mid_reply) {
    reply_guard_t guard = {0};
    scoped(flat_reply_free) flat_reply_t flat = {0};
    redisReader *reader = redisReaderCreate();
    cr_assert_null(parse(&guard, reader, &flat, "*2\r\n*1\r\n$3\r\nabc\r\n", 100));
    redisReaderFree(reader);
}
