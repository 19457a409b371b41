/* Calls the monitor's scripts by EVAL, so that a test can choose each argument. */
#pragma once

#include "fixture.h"
#include "queue/settle.h"
#include "wait.h"

enum { CALL_ARGS = 80 };

/* The words of one EVAL. */
typedef struct {
    const char *argv[CALL_ARGS];
    size_t lens[CALL_ARGS];
    int argc;
} eval_t;

static inline void call_add(eval_t *call, const void *bytes, size_t len) {
    cr_assert_lt(call->argc, CALL_ARGS);
    call->argv[call->argc] = bytes;
    call->lens[call->argc++] = len;
}

static inline void call_text(eval_t *call, const char *text) { call_add(call, text, strlen(text)); }

static inline eval_t call_begin(const script_t *script, const char *keys) {
    eval_t call = {0};
    size_t len;
    const char *text = fixture_script(script, &len);
    call_text(&call, "EVAL");
    call_add(&call, text, len);
    call_text(&call, keys);
    return call;
}

static inline redisReply *call_end(eval_t *call, redis_t *r) {
    redisReply *reply = redisCommandArgv(r, call->argc, call->argv, call->lens);
    cr_assert_not_null(reply, "%s", r->errstr);
    return reply;
}

static inline void expect_word(redisReply *reply, const char *word) {
    const char *found = reply->type == REDIS_REPLY_ARRAY && reply->elements ? reply->element[0]->str : reply->str;
    cr_assert_str_eq(found, word);
    freeReplyObject(reply);
}

static inline void expect_type(redisReply *reply, const char *what, const char *type) {
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 3, "%s", reply->str);
    cr_assert_str_eq(reply->element[1]->str, what);
    cr_assert_str_eq(reply->element[2]->str, type);
    expect_word(reply, "type");
}

/* Returns a job's stamp in Redis; .born_us 0 = no stamp. */
static inline stamp_t stamp_of(redis_t *r, slice_t job) {
    digest_t digest = digest_of(job.data, job.len);
    redisReply *reply = redis_do(r, "HGET sidecar:email:stamps %b", digest.bytes, (size_t)STAMP_FIELD_BYTES);
    stamp_t stamp = reply->type == REDIS_REPLY_STRING ? stamp_unpack(reply->str, reply->len) : (stamp_t){0};
    return stamp;
}

static inline void set_stamp(redis_t *r, slice_t job, stamp_t stamp) {
    digest_t digest = digest_of(job.data, job.len);
    stamp_raw_t raw = stamp_pack(&stamp);
    redis_ok(r, "HSET sidecar:email:stamps %b %b", digest.bytes, (size_t)STAMP_FIELD_BYTES, raw.bytes, raw.len);
}

static inline bool same_stamp(stamp_t a, stamp_t b) {
    stamp_raw_t x = stamp_pack(&a), y = stamp_pack(&b);
    return memcmp(x.bytes, y.bytes, STAMP_BYTES) == 0;
}

/* Returns the number of entries of a list with these bytes. */
static inline long long in_list(redis_t *r, const char *key, slice_t job) {
    redisReply *reply = redis_do(r, "LPOS %s %b COUNT 0", key, job.data, job.len);
    return reply->type == REDIS_REPLY_ARRAY ? (long long)reply->elements : 0;
}

static inline bool is_delayed(redis_t *r, slice_t job) {
    char *score = redis_str(r, "ZSCORE email:delayed %b", job.data, job.len);
    return score != NULL;
}

/* Runs a call that must not change the data. */
static inline redisReply *call_in_vain(eval_t *call, redis_t *r) {
    char *before = fixture_digest(r);
    redisReply *reply = call_end(call, r);
    redis_expect(r, before, "DEBUG DIGEST");
    return reply;
}
