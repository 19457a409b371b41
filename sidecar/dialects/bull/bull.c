// Bull 4 (OptimalBits/bull 4.10 to the newest 4.x): a delayed entry is the id of a job, the job itself a hash.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dialects/bull/config.h"
#include "dialects/bull/dry_run.h"
#include "dialects/bull/failed.h"
#include "dialects/bull/keys.h"
#include "dialects/bull/quarantine.h"
#include "dialects/bull/requeue.h"
#include "dialects/bull/scripts.h"
#include "dialects/bull/stalled.h"
#include "redis/reply.h"

enum {
    PROMOTE_MOST = 1000, // as Bull's own script
    LATER_MS = 10000,    // by which an id without a job is put off
    // Entries that inserts by priority may walk over in one batch: some ms of Redis.
    WORK = 200000,
    SCORE_PER_MS = 4096, // Bull keeps 12 bits of a counter in a score
};

static void promote_append(conn_t *conn, const keyspace_t *keys, const promote_ask_t *ask) {
    const queue_keys_t *at = &keys->queues[ask->queue];
    const lock_keys_t *lock = &keys->locks[at->lock];
    char *prefix = mem_printf("%s:", bull_config(at->config)->base);
    request_script(conn, &script_bull_promote, 9 + BULLMQ_KEYS);
    request_text(conn, lock->key);
    request_text(conn, at->config->delayed);
    request_text(conn, at->config->ready);
    bull_key(conn, at, "paused");
    bull_key(conn, at, "meta-paused");
    bull_key(conn, at, "priority");
    bull_key(conn, at, "active");
    request_text(conn, at->meta);
    request_text(conn, at->aside);
    bull_foreign_keys(conn, at);
    request_text(conn, ask->token);
    request_text(conn, lock->name);
    request_int(conn, ask->batch < PROMOTE_MOST ? ask->batch : PROMOTE_MOST);
    request_int(conn, at->config->policy.ready_limit);
    request_text(conn, prefix);
    request_int(conn, LATER_MS);
    request_int(conn, WORK);
    request_end(conn);
    free(prefix);
}

static int64_t due_us(const queue_config_t *queue, double score) {
    (void)queue;
    double ms = floor(score / SCORE_PER_MS);
    if (ms >= 9e15) return INT64_MAX;
    if (ms <= -9e15) return INT64_MIN;
    return (int64_t)ms * 1000;
}

static const promote_ops_t promote = {
    .append = promote_append, .read = promote_read_reply, .due_us = due_us, .most = PROMOTE_MOST};

// The first of the five replies that is no good decides; all are read.
static void read_adopt(conn_t *conn, const queue_keys_t *at, buffer_t *refusal, redis_error_t *error) {
    const char *base = bull_config(at->config)->base;
    redis_error_t worst = {0};
    for (size_t i = 0; i <= BULLMQ_KEYS; i++) {
        redisReply *reply;
        if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) {
            if (worst.outcome == OUTCOME_OK) worst = *error;
            if (error->outcome == OUTCOME_DISCONNECTED) break;
            continue;
        }
        const char *mark = NULL;
        if (i < BULLMQ_KEYS)
            mark = reply_is(reply, "none") || reply_is(reply, "hash") ? NULL : bullmq_words[i];
        else if (reply_len(reply_at(reply, 0)) || reply_len(reply_at(reply, 1)))
            mark = "meta";
        if (mark && refusal->len == 0)
            buffer_printf(refusal, "the queue belongs to BullMQ (%s:%s %s): dialect bull serves Bull 4", base, mark,
                          i < BULLMQ_KEYS ? "exists" : "names its version");
        freeReplyObject(reply);
    }
    *error = worst;
}

// Bull 4 and BullMQ share most names of keys. BullMQ writes its version into `meta`, and its events into a stream; workers that
// wait on `marker` (BullMQ 5, and Bull's unreleased layout of pull request 2818) would sleep through what is promoted here.
static outcome_t adopt(conn_t *conn, const keyspace_t *keys, size_t queue, buffer_t *refusal, redis_error_t *error) {
    const queue_keys_t *at = &keys->queues[queue];
    for (size_t i = 0; i < BULLMQ_KEYS; i++) {
        request_begin(conn, "TYPE");
        bull_key(conn, at, bullmq_words[i]);
        request_end(conn);
    }
    request_begin(conn, "HMGET");
    bull_key(conn, at, "meta");
    request_text(conn, "version");
    request_text(conn, "opts.maxLenEvents");
    request_end(conn);
    read_adopt(conn, at, refusal, error);
    return error->outcome;
}

// ---- The watch: the stalled check, what promotion has put aside, and the failures that workers decide.

typedef struct bull_watch {
    const queue_keys_t *at;
    bull_stalled_t *stalled;
    bull_aside_t *aside;
    bull_failed_t *failed; // NULL: they are not recorded
    bool forsaken;         // and Redis knows that, in this term
} bull_watch_t;

static void *watch_open(const queue_keys_t *at) {
    bull_watch_t *w = mem_alloc(sizeof *w);
    w->at = at;
    w->stalled = bull_stalled_open(at);
    w->aside = bull_aside_open(at);
    if (bull_config(at->config)->record_failed) w->failed = bull_failed_open(at);
    return w;
}

static void watch_close(void *state) {
    bull_watch_t *w = state;
    bull_stalled_close(w->stalled);
    bull_aside_close(w->aside);
    if (w->failed) bull_failed_close(w->failed);
    free(w);
}

static void watch_forget(void *state) {
    bull_watch_t *w = state;
    bull_stalled_forget(w->stalled);
    bull_aside_forget(w->aside);
    if (w->failed) bull_failed_forget(w->failed);
    w->forsaken = false;
}

// The key `failed` and the channel of the same name.
static size_t watch_channels(const void *state, const char **out) {
    const bull_watch_t *w = state;
    if (!w->failed) return 0;
    out[0] = bull_failed_key(w->failed);
    return 1;
}

static size_t watch_watched(const void *state, const char **out) {
    size_t count = watch_channels(state, out);
    out[count] = ((const bull_watch_t *)state)->at->aside;
    return count + 1;
}

static void watch_heard(void *state, const char *channel, slice_t message) {
    bull_watch_t *w = state;
    (void)channel;
    if (w->failed) bull_failed_heard(w->failed, message);
}

static outcome_t watch_step(void *state, watch_call_t *call, redis_error_t *error) {
    bull_watch_t *w = state;
    if (bull_stalled_step(w->stalled, call, error) != OUTCOME_OK) return error->outcome;
    if (bull_aside_step(w->aside, call, error) != OUTCOME_OK) return error->outcome;
    if (!w->failed) {
        if (!w->forsaken) w->forsaken = bull_failed_forsake(w->at, call, error) == OUTCOME_OK;
        return error->outcome;
    }
    return bull_failed_step(w->failed, call, call->changed, error);
}

static outcome_t watch_leave(void *state, watch_call_t *call, redis_error_t *error) {
    bull_watch_t *w = state;
    return bull_stalled_leave(w->stalled, call, error);
}

static const watch_ops_t watch = {.open = watch_open,
                                  .close = watch_close,
                                  .forget = watch_forget,
                                  .watched = watch_watched,
                                  .channels = watch_channels,
                                  .heard = watch_heard,
                                  .step = watch_step,
                                  .leave = watch_leave};

static const requeue_ops_t requeue = {.prepare = bull_requeue_prepare, .append = bull_requeue_append};

static void sizes(const queue_keys_t *at, size_fn *add, void *self) {
    char *paused = mem_printf("%s:paused", bull_config(at->config)->base);
    char *active = mem_printf("%s:active", bull_config(at->config)->base);
    char *prefix = mem_printf("%s:", bull_config(at->config)->base);
    add(self, SIZE_DELAYED, at->config->delayed, NULL);
    add(self, SIZE_READY, at->config->ready, NULL);
    add(self, SIZE_READY, paused, NULL);
    add(self, SIZE_ACTIVE, active, prefix);
    free(paused);
    free(active);
    free(prefix);
}

const dialect_ops_t dialect_bull = {.settings = &bull_settings,
                                    .promote = &promote,
                                    .watch = &watch,
                                    .requeue = &requeue,
                                    .adopt = adopt,
                                    .dry_run = bull_dry_run,
                                    .sizes = sizes};
