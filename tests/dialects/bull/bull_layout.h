/* Jobs of Bull of which one has stalled. */
#pragma once

#include "bull_call.h"

#define META     "sidecar:video:meta"
#define RECORDED "sidecar:video:recorded"
#define STREAM   "sidecar:video:failures"

/* Job 1 has stalled, job 2 is active with a lock, job 3 waits. */
static inline void lay_out(redis_t *r) {
    redis_ok(r, "FLUSHALL");
    redis_ok(r, "SET " BULL_LOCK " T");
    bull_job(r, "1", "0"), bull_job(r, "2", "0"), bull_job(r, "3", "0");
    redis_ok(r, "LPUSH " BULL "active 1 2");
    redis_ok(r, "SADD " BULL "stalled 1 2");
    redis_ok(r, "SET " BULL "2:lock w");
    redis_ok(r, "LPUSH " BULL "wait 3");
}
