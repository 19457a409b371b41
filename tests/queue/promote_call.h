/* Calls of promote.lua in tests: by EVAL, with each argument free to choose. */
#pragma once

#include "fixture.h"
#include "queue/scripts.h"
#include "queue/settle_reply.h"
#include "wait.h"

/* The arguments of one call; ask_new has the usual ones. */
typedef struct {
    const char *token, *group, *unit, *take;
    long long slice, batch, limit, payload, skip, bytes, first;
} ask_t;

static inline ask_t ask_new(void) {
    return (ask_t){.token = "T",
                   .group = "app",
                   .unit = "ms",
                   .take = "right",
                   .slice = 1000000000,
                   .batch = 500,
                   .payload = 16 << 20,
                   .bytes = 1 << 30,
                   .first = 2};
}

/* Returns the reply for the queue, or the reply that concerns all. */
static inline redisReply *promote(fixture_t *f, ask_t ask) {
    size_t len;
    const char *text = fixture_script(&script_promote, &len);
    redisReply *all = redis_do(
        f->r, "EVAL %b 4 sidecar:app:lock email:delayed email sidecar:email:meta %s %s %lld %lld %s %lld %lld %lld %lld %lld %s",
        text, len, ask.token, ask.group, ask.slice, ask.batch, ask.unit, ask.limit, ask.payload, ask.skip, ask.bytes, ask.first,
        ask.take);
    return kept(promote_answer(all));
}

static const char *word(const redisReply *reply, size_t index) {
    cr_assert(reply->type == REDIS_REPLY_ARRAY && index < reply->elements, "reply of type %d, %s", reply->type, reply->str);
    cr_assert_eq(reply->element[index]->type, REDIS_REPLY_STRING, "element %zu", index);
    return reply->element[index]->str;
}

static inline long long number(const redisReply *reply, size_t index) {
    cr_assert_eq(reply->element[index]->type, REDIS_REPLY_INTEGER, "element %zu", index);
    return reply->element[index]->integer;
}

static inline void check_now(const char *now_us) {
    cr_assert(strlen(now_us) == 16 && strspn(now_us, "0123456789") == 16, "%s", now_us);
}

/* Checks the shape of the reply and returns how many jobs moved; `large` may be NULL. */
static inline long long take_moved(redisReply *reply, long long *large) {
    cr_assert_str_eq(word(reply, 0), "moved");
    long long moved = number(reply, 1);
    check_now(word(reply, 2));
    word(reply, 3), number(reply, 4), number(reply, 5);
    bool early = reply->elements > 9;
    cr_assert_eq(reply->elements, early ? 13 : number(reply, 5) > 0 ? 9 : 6);
    if (early) cr_assert(number(reply, 11) > 0 && *word(reply, 12));
    if (number(reply, 5) > 0) word(reply, 6), number(reply, 7), word(reply, 8);
    if (large) *large = number(reply, 5);
    freeReplyObject(reply);
    return moved;
}

static inline void expect_reply(redisReply *reply, const char *kind, const char *a, const char *b) {
    cr_assert_str_eq(word(reply, 0), kind);
    if (a) cr_assert_str_eq(word(reply, 1), a);
    if (b) cr_assert_str_eq(word(reply, 2), b);
    freeReplyObject(reply);
}
