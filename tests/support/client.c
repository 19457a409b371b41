#include "client.h"
#include "kept.h"

#include "wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

redis_t *redis_open_path(const char *socket, int timeout_ms) {
    signal(SIGPIPE, SIG_IGN); /* hiredis writes without MSG_NOSIGNAL; a closed connection must not end the test */
    int scaled = wait_scaled_ms(timeout_ms);
    struct timeval timeout = {.tv_sec = scaled / 1000, .tv_usec = scaled % 1000 * 1000};
    redis_t *r = redisConnectUnixWithTimeout(socket, timeout);
    if (r && !r->err && redisSetTimeout(r, timeout) == REDIS_OK) return r;
    redis_close(r);
    return NULL;
}

void redis_close(redis_t *r) {
    if (r) redisFree(r);
}

static redisReply *ask(redis_t *r, const char *format, va_list arguments) {
    cr_assert_not_null(r, "no connection for: %s", format);
    redisReply *reply = redisvCommand(r, format, arguments);
    cr_assert_not_null(reply, "connection broke at %s: %s", format, r->errstr);
    return reply;
}

/* Fails the test on an error reply. */
static redisReply *ask_well(redis_t *r, const char *format, va_list arguments) {
    redisReply *reply = ask(r, format, arguments);
    cr_assert_neq(reply->type, REDIS_REPLY_ERROR, "%s: %s", format, reply->str);
    return reply;
}

redisReply *redis_do(redis_t *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(r, format, arguments);
    va_end(arguments);
    return kept(reply);
}

long long redis_int(redis_t *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask_well(r, format, arguments);
    va_end(arguments);
    cr_assert_eq(reply->type, REDIS_REPLY_INTEGER, "%s: reply of type %d is no integer", format, reply->type);
    long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

long long redis_us(redis_t *r) {
    redisReply *reply = redis_do(r, "TIME");
    cr_assert_eq(reply->type, REDIS_REPLY_ARRAY);
    long long us = strtoll(reply->element[0]->str, NULL, 10) * 1000000 + strtoll(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return us;
}

long long redis_ms(redis_t *r) { return redis_us(r) / 1000; }

/* A copy of the text of a reply, NULL for nil; frees the reply. */
static char *take_text(redisReply *reply, const char *format) {
    bool text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS || reply->type == REDIS_REPLY_ERROR;
    cr_assert(text || reply->type == REDIS_REPLY_NIL, "%s: reply of type %d is no string", format, reply->type);
    char *copy = text ? calloc(1, (size_t)reply->len + 1) : NULL;
    if (copy) memcpy(copy, reply->str, (size_t)reply->len);
    freeReplyObject(reply);
    return copy;
}

char *redis_str(redis_t *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask_well(r, format, arguments);
    va_end(arguments);
    return kept(take_text(reply, format));
}

void redis_ok(redis_t *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask_well(r, format, arguments);
    va_end(arguments);
    freeReplyObject(reply);
}

void redis_expect(redis_t *r, const char *expected, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask_well(r, format, arguments);
    va_end(arguments);
    char *text = take_text(reply, format);
    if (!expected) {
        cr_assert_null(text, "%s: \"%s\" instead of nil", format, text);
    } else {
        cr_assert_not_null(text, "%s: nil instead of \"%s\"", format, expected);
        cr_assert_str_eq(text, expected, "%s: \"%s\" instead of \"%s\"", format, text, expected);
    }
    free(text);
}

char *redis_error(redis_t *r, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(r, format, arguments);
    va_end(arguments);
    cr_assert_eq(reply->type, REDIS_REPLY_ERROR, "%s: reply of type %d is no error", format, reply->type);
    return kept(take_text(reply, format));
}
