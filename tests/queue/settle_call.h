/* Calls of settle.lua in tests: with one job in the middle of backup, and each argument free to choose. */
#pragma once

#include "monitor/monitor_call.h"
#include "queue/scripts.h"
#include "queue/settle_reply.h"

#define JOB "{\"id\":1}"

/* The arguments of one call. ask_new retries JOB at once, as if a scan had read JOB near the head. */
typedef struct {
    const char *token, *from, *alone, *report, *delay, *unit, *most, *heartbeat, *depth, *dlq, *mark, *done, *recorded, *again,
        *notify, *blank, *near, *skip;
    slice_t job;
    stamp_t old;
    bool ends, forgets, in_place, takes_left;
    size_t payload; /* bytes of a field of the record */
} ask_t;

static const stamp_t OLD = {.born_us = 1700000000000001, .seen = 1700000000000, .retries = 1, .retried_at = 1690000000000};
static const stamp_t NEW = {.born_us = 1700000000000001, .retries = 2, .retried_at = 1700000000500};

static inline ask_t ask_new(void) {
    return (ask_t){.token = "T",
                   .from = "1",
                   .alone = "1",
                   .report = "",
                   .delay = "",
                   .unit = "ms",
                   .most = "1000000",
                   .notify = "",
                   .heartbeat = "sidecar:app:lock",
                   .dlq = "sidecar:app:lock",
                   .mark = "sidecar:app:lock",
                   .done = "sidecar:app:lock",
                   .recorded = "sidecar:app:lock",
                   .again = "",
                   .blank = "0",
                   .near = "5000",
                   .skip = "0",
                   .depth = "4096",
                   .job = slice_text(JOB),
                   .old = OLD,
                   .payload = 10};
}

static inline ask_t ask_end(void) {
    ask_t ask = ask_new();
    ask.ends = true;
    return ask;
}

static inline redisReply *settle_with(redis_t *r, ask_t ask, bool in_vain) {
    digest_t digest = digest_of(ask.job.data, ask.job.len);
    stamp_raw_t old = ask.old.born_us ? stamp_pack(&ask.old) : (stamp_raw_t){.len = 0}, new = stamp_pack(&NEW);
    char *payload = kept(calloc(1, ask.payload + 1));
    eval_t call = call_begin(&script_settle, "13");
    bool tail = *ask.from == '-', delayed = *ask.delay && !ask.ends;
    /* keys 10 to 13: backup, ready, mark, heartbeat */
    char *kind = kept_printf("10,11,%s,%s%s,%s,%s%s%s%s%s%s", strcmp(ask.mark, "sidecar:app:lock") == 0 ? "0" : "12",
                             tail ? "-" : "", ask.depth, strcmp(ask.alone, "1") == 0 ? ask.depth : "0",
                             ask.ends  ? "e"
                             : delayed ? "d"
                                       : "r",
                             ask.forgets ? "f" : "", *ask.report ? "x" : "", strcmp(ask.done, "sidecar:app:lock") ? "o" : "",
                             ask.in_place ? "i" : "", ask.takes_left ? "l" : "");
    const char *const keys[] = {"sidecar:app:lock",
                                "sidecar:email:stamps",
                                "email:errors",
                                "sidecar:email:failures",
                                "sidecar:email:meta",
                                delayed ? "email:delayed" : "sidecar:app:lock",
                                ask.dlq,
                                ask.done,
                                ask.recorded,
                                "email:backup",
                                "email",
                                ask.mark,
                                ask.heartbeat};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) call_text(&call, keys[i]);
    const char *const head[] = {
        ask.token, ask.unit, ask.most, ask.notify, ask.blank, ask.near, ask.skip, "report delay again beat mark done ",
        "0",       "2",      "kind",   "payload",  kind};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) call_text(&call, head[i]);
    call_add(&call, ask.job.data, ask.job.len);
    call_add(&call, digest.bytes, STAMP_FIELD_BYTES);
    call_add(&call, old.bytes, old.len);
    call_add(&call, new.bytes, ask.ends ? 0 : new.len);
    const char *const rest[] = {ask.report,
                                *ask.delay ? ask.delay : "0",
                                ask.again,
                                strcmp(ask.heartbeat, "sidecar:app:lock") == 0 ? "0" : "13",
                                "mark_id",
                                "done_id",
                                ask.ends ? "failed" : "retried"};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) call_text(&call, rest[i]);
    call_add(&call, payload, ask.payload);
    redisReply *reply = in_vain ? call_in_vain(&call, r) : call_end(&call, r);
    return kept(settle_answer(reply));
}

static inline redisReply *settle(redis_t *r, ask_t ask) { return settle_with(r, ask, false); }

/* Checks that the call replies `word` and changes nothing. */
static inline void refused(redis_t *r, ask_t ask, const char *word) { expect_word(settle_with(r, ask, true), word); }

static inline void settled(redis_t *r, ask_t ask, int recorded) {
    expect_word(settle(r, ask), recorded ? "settled" : "unrecorded");
}

/* Three jobs are in backup. JOB, the middle one, has a stamp. */
static inline void lay_out(redis_t *r) {
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET sidecar:app:lock T");
    redis_ok(r, "RPUSH email:backup first %s last", JOB);
    redis_ok(r, "RPUSH email other");
    set_stamp(r, slice_text(JOB), OLD);
}

/* A field of the last record; kept; NULL = the record does not have the field. */
static inline char *field(redis_t *r, const char *name) {
    redisReply *reply = redis_do(r, "XREVRANGE sidecar:email:failures + - COUNT 1");
    char *value = NULL;
    cr_assert_eq(reply->elements, 1);
    const redisReply *fields = reply->element[0]->element[1];
    for (size_t i = 0; i < fields->elements; i += 2)
        if (strcmp(fields->element[i]->str, name) == 0)
            value = kept(strndup(fields->element[i + 1]->str, fields->element[i + 1]->len));
    return value;
}

static inline void expect_field(redis_t *r, const char *name, const char *expected) {
    char *value = field(r, name);
    cr_assert(expected ? value && strcmp(value, expected) == 0 : !value, "%s is %s", name, value);
}
