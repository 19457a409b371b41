/* Makes failed jobs of Bull, with the keys and fields of tests/data/bull, and reads the records of the sidecar. */
#pragma once

#include "dialects/bull/job.h"
#include "monitor/monitor_call.h"

#define BULL         "bull:video:"
#define BULL_LOCK    "sidecar:app:lock"
#define SIDECAR      "sidecar:video:"
#define BULL_TRACE   "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#define BULL_DATA_OF "{\"text\":\"caf\xc3\xa9\",\"n\":12345678901234567890,\"t\":\"" BULL_TRACE "\"}"

/* Makes a job that a worker let fail for good at `finished` (ms), after two attempts. */
static inline void bull_fail(redis_t *r, const char *id, const char *finished, const char *reason) {
    redis_ok(r,
             "HSET " BULL "%s name __default__ data " BULL_DATA_OF
             " opts %s timestamp 1700000000000 delay 0 priority 0 processedOn "
             "1700000000010 attemptsMade 2 stacktrace %s failedReason %s finishedOn %s",
             id, "{\"attempts\":2,\"delay\":0}", "[\"Error: first\",\"Error: boom\\n    at x\"]", reason, finished);
    redis_ok(r, "ZADD " BULL "failed %s %s", finished, id);
}

/* The values of one field in all records, oldest first, joined by spaces. Kept. */
static inline char *bull_records(redis_t *r, const char *name) {
    redisReply *all = redis_do(r, "XRANGE " SIDECAR "failures - +");
    scoped(buffer_free) buffer_t out = {0};
    for (size_t i = 0; i < all->elements; i++) {
        const redisReply *fields = all->element[i]->element[1];
        for (size_t k = 0; k + 1 < fields->elements; k += 2)
            if (strcmp(fields->element[k]->str, name) == 0)
                buffer_printf(&out, "%s%s", out.len ? " " : "", fields->element[k + 1]->str);
    }
    char *text = mem_str(buffer_text(&out));
    return kept(text);
}

static inline void expect_records(redis_t *r, const char *name, const char *expected) {
    char *found = bull_records(r, name);
    cr_expect_str_eq(found, expected, "%s: %s", name, found);
}
