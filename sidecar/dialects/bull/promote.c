// Promotion of Bull 4: an entry of delayed is the id of a job.
#include <math.h>
#include <stdlib.h>

#include "dialects/bull/internal.h"
#include "dialects/bull/scripts.h"

enum {
    PROMOTE_MAX = 1000,  // the same limit as in Bull's own script
    LATER_MS = 10000,    // the delay of an id that names no job
    WORK = 200000,       // inserts by priority may walk over this many entries in one batch: some ms of Redis
    SCORE_PER_MS = 4096, // Bull keeps 12 bits of a counter in a score
};

static void bull_promote_append(const call_t *call, const promote_request_t *ask) {
    const queue_keys_t *at = call_queue(call);
    conn_t *conn = call->conn;
    char *prefix = mem_printf("%s:", bull_config(at->config)->base);
    call_script(call, &script_bull_promote, 9 + BULLMQ_KEYS);
    request_text(conn, at->config->delayed, at->config->ready);
    bull_key(conn, at, "paused");
    bull_key(conn, at, "meta-paused");
    bull_key(conn, at, "priority");
    bull_key(conn, at, "active");
    request_text(conn, at->meta, at->quarantine);
    bullmq_append_keys(conn, at);
    request_text(conn, call->token, call_group(call));
    request_int(conn, ask->batch < PROMOTE_MAX ? ask->batch : PROMOTE_MAX, at->config->policy.ready_limit);
    request_text(conn, prefix);
    request_int(conn, LATER_MS, WORK);
    request_end(conn);
    free(prefix);
}

static int64_t bull_due_us(const queue_config_t *queue, double score) {
    (void)queue;
    double ms = floor(score / SCORE_PER_MS);
    if (ms >= 9e15) return INT64_MAX;
    if (ms <= -9e15) return INT64_MIN;
    return (int64_t)ms * 1000;
}

const promote_ops_t bull_promote = {.append = bull_promote_append, .due_us = bull_due_us, .most = PROMOTE_MAX};
