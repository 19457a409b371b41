/* Calls delayedQueue's scripts by EVAL, so that a test can choose each argument. Two classes are configured:
 * example.PaymentCheck goes to de_paymentcheck, example.Letters$Welcome to de_welcome. */
#pragma once

#include "dialects/delayed_queue/scripts.h"
#include "monitor/monitor_call.h"

#define PAYMENT      "example.PaymentCheck"
#define WELCOME      "example.Letters$Welcome"
#define TAIL(n)      ",\"type\":\"" PAYMENT "\",\"attempt\":" #n ",\"logContext\":{}}"
#define ENVELOPE(n)  "{\"payload\":{\"id\":\"1\"}" TAIL(n)
#define DELAYED_KEYS "de_delayed_events"

/* The arguments of one call of delayed_promote. de_new returns the defaults. */
typedef struct {
    const char *token, *group;
    long long batch, first, bytes, payload, attempts, later;
} de_ask_t;

static inline de_ask_t de_new(void) {
    return (de_ask_t){.token = "T",
                      .group = "app",
                      .batch = 1000,
                      .first = 1000,
                      .bytes = 1 << 30,
                      .payload = 16 << 20,
                      .attempts = 70,
                      .later = 10000};
}

static inline eval_t de_call(const de_ask_t *ask) {
    static char numbers[6][24];
    static const char *const keys[] = {"sidecar:app:lock",    DELAYED_KEYS,      "de_events", "sidecar:email:meta",
                                       "sidecar:email:aside", "de_paymentcheck", "de_welcome"};
    static const char *const rest[] = {"4",       "10",    "10000", "20", "60000", "40", "300000", "9223372036854775807",
                                       "1440000", PAYMENT, WELCOME};
    const long long values[] = {ask->batch, ask->first, ask->bytes, ask->payload, ask->attempts, ask->later};
    eval_t call = call_begin(&script_delayed_promote, "7");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) call_text(&call, keys[i]);
    call_text(&call, ask->token);
    call_text(&call, ask->group);
    for (size_t i = 0; i < 6; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%lld", values[i]);
        call_text(&call, numbers[i]);
    }
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) call_text(&call, rest[i]);
    return call;
}

static inline redisReply *delayed_promote_call(redis_t *r, de_ask_t ask) {
    eval_t call = de_call(&ask);
    return kept(call_end(&call, r));
}

/* Calls delayed_promote. Returns the number of moved events. */
static inline long long de_moved(redis_t *r, de_ask_t ask) {
    redisReply *reply = delayed_promote_call(r, ask);
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 11, "%s", reply->str ? reply->str : reply->element[1]->str);
    cr_assert_str_eq(reply->element[0]->str, "moved");
    cr_assert_eq(strlen(reply->element[2]->str), 16);
    return reply->element[1]->integer;
}

/* Adds a due event. */
static inline void de_add(redis_t *r, const char *member, slice_t envelope) {
    redis_ok(r, "ZADD " DELAYED_KEYS " 1700000000000 %s", member);
    redis_ok(r, "HSET de_events %s %b", member, envelope.data, envelope.len);
}

/* Makes every member of the zset due. The fractions of the scores stay. */
static inline void de_due(redis_t *r) {
    redis_ok(r, "EVAL %s 1 " DELAYED_KEYS,
             "local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') for i = 1, #all, 2 do "
             "redis.call('ZADD', KEYS[1], '1700000000000' .. (string.match(all[i + 1], '%.%d+$') or ''), all[i]) end return 1");
}

/* Returns the envelope in the hash; *reply owns it. */
static inline slice_t de_stored(redis_t *r, const char *member, redisReply **reply) {
    *reply = redis_do(r, "HGET de_events %s", member);
    return (*reply)->type == REDIS_REPLY_STRING ? (slice_t){(*reply)->str, (*reply)->len} : (slice_t){0};
}

static inline void de_expect_stored(redis_t *r, const char *member, slice_t expected) {
    redisReply *reply;
    slice_t found = de_stored(r, member, &reply);
    cr_assert(slice_equal(found, expected), "%s: %.*s", member, (int)found.len, found.data);
    freeReplyObject(reply);
}

/* Pops the next envelope of this list, as a worker does. */
static inline void de_expect_popped(redis_t *r, const char *list, slice_t expected) {
    redisReply *reply = redis_do(r, "RPOP %s", list);
    cr_assert(reply->type == REDIS_REPLY_STRING && reply->len == expected.len &&
                  memcmp(reply->str, expected.data, expected.len) == 0,
              "%s: %s", list, reply->str);
}

/* Returns the score of a member as text, "" = no such member. Static. */
static inline const char *de_score(redis_t *r, const char *key, const char *member) {
    static char score[64];
    char *found = redis_str(r, "ZSCORE %s %s", key, member);
    snprintf(score, sizeof score, "%s", found ? found : "");
    return score;
}

/* Returns the ms until a member is due. */
static inline long long de_delay(redis_t *r, const char *member) {
    return strtoll(de_score(r, DELAYED_KEYS, member), NULL, 10) - redis_ms(r);
}
