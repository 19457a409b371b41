/* Calls trim.lua with any arguments, on streams and acknowledgements made by hand. */
#pragma once

#include "fixture.h"
#include "queue/scripts.h"
#include "queue/stream.h"
#include "wait.h"

#include <poll.h>

#define STREAM   "sidecar:email:failures"
#define META     "sidecar:email:meta"
#define AUDITORS "sidecar:email:auditors"
#define HUGE     "18446744073709551615"

/* The arguments of one call of trim.lua. With ask_new every entry is old, no minimum of entries stays, and there is room. */
typedef struct {
    const char *token;
    long long retain, records, copies, most, size, heard, room;
} ask_t;

static inline ask_t ask_new(void) {
    return (ask_t){.token = "T", .copies = 1, .most = 1000, .size = 1 << 21, .heard = 86400000, .room = 1LL << 40};
}

static inline redisReply *call(fixture_t *f, ask_t ask) {
    size_t len;
    const char *text = fixture_script(&script_trim, &len);
    return redis_do(f->r, "EVAL %b 4 sidecar:app:lock " STREAM " " AUDITORS " " META " %s %lld %lld %lld %lld %lld %lld %lld",
                    text, len, ask.token, ask.retain, ask.records, ask.copies, ask.most, ask.size, ask.heard, ask.room);
}

/* Returns how many entries were removed; `wait_ms` may be NULL. */
static inline long long trim(fixture_t *f, ask_t ask, long long *wait_ms) {
    redisReply *reply = call(f, ask);
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 9, "%s", reply->str);
    cr_assert_str_eq(reply->element[0]->str, "trimmed");
    long long removed = reply->element[1]->integer;
    cr_assert_eq(reply->element[2]->integer, redis_int(f->r, "XLEN " STREAM));
    if (wait_ms) *wait_ms = reply->element[3]->integer;
    return removed;
}

static inline void expect_kind(fixture_t *f, ask_t ask, const char *kind, const char *key, const char *found) {
    char *before = fixture_digest(f->r);
    redisReply *reply = call(f, ask);
    cr_assert(reply->type == REDIS_REPLY_ARRAY, "%s", reply->str);
    cr_assert_str_eq(reply->element[0]->str, kind);
    if (key) cr_assert_str_eq(reply->element[1]->str, key);
    if (found) cr_assert_str_eq(reply->element[2]->str, found);
    char *after = fixture_digest(f->r);
    cr_assert_str_eq(before, after, "%s, but the data changed", kind);
}

/* Adds an auditor that acknowledged `position` `ago_ms` ago. */
static inline void add_auditor(fixture_t *f, const char *instance, const char *position, long long ago_ms) {
    redis_ok(f->r, "EVAL %s 1 " AUDITORS " %s %s %lld", "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])",
             instance, position, redis_ms(f->r) - ago_ms);
}

/* Acknowledges the whole stream. */
static inline void acknowledge_all(fixture_t *f) {
    char *last = redis_str(f->r, "EVAL %s 1 " STREAM, "return redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1]");
    add_auditor(f, "a", last, 0);
}

/* Entries 1-1 to 1-n of five bytes each, counted in meta. */
static inline void add(fixture_t *f, int n) {
    redis_ok(f->r, "EVAL %s 2 " STREAM " " META " %d",
             "for i = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '1-' .. i, 'event', 'abc', 'kind', 'de') end "
             "redis.call('HINCRBY', KEYS[2], 'bytes', 5 * ARGV[1])",
             n);
}
