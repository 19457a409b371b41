// Bull 4 (OptimalBits/bull 4.10 to the newest 4.x). An entry of delayed is the id of a job. A hash holds the job itself.
#include <stdlib.h>

#include "dialects/bull/internal.h"
#include "dialects/bull/scripts.h"
#include "redis/reply.h"

// Reads all five replies. The first reply that proves BullMQ sets *refusal.
static void bull_adopt_read(conn_t *conn, const queue_keys_t *at, buffer_t *refusal, redis_error_t *error) {
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

// Bull 4 and BullMQ share most key names. BullMQ writes its version into `meta` and its events into a stream. Workers that wait
// on `marker` (BullMQ 5, and Bull's unreleased layout of pull request 2818) would miss jobs that we promote.
static outcome_t bull_adopt(const call_t *call, buffer_t *refusal) {
    const queue_keys_t *at = call_queue(call);
    conn_t *conn = call->conn;
    for (size_t i = 0; i < BULLMQ_KEYS; i++) {
        request_begin(conn, "TYPE");
        bull_key(conn, at, bullmq_words[i]);
        request_end(conn);
    }
    request_begin(conn, "HMGET");
    bull_key(conn, at, "meta");
    request_text(conn, "version", "opts.maxLenEvents");
    request_end(conn);
    bull_adopt_read(conn, at, refusal, call->error);
    return call->error->outcome;
}

// ---- The side task: the stalled check, quarantined ids, and the failures that workers decide.

typedef struct bull_task {
    const queue_keys_t *at;
    bull_stalled_t *stalled;
    bull_quarantine_t *quarantine;
    bull_failed_t *failed; // NULL: not recorded
    bool paused;           // bull_failed_pause is done in this term
} bull_task_t;

static void *bull_task_open(const queue_keys_t *at) {
    bull_task_t *w = mem_alloc(sizeof *w);
    w->at = at;
    w->stalled = bull_stalled_open(at);
    w->quarantine = bull_quarantine_open(at);
    if (bull_config(at->config)->record_failed) w->failed = bull_failed_open(at);
    return w;
}

static void bull_task_close(void *state) {
    bull_task_t *w = state;
    bull_stalled_close(w->stalled);
    bull_quarantine_close(w->quarantine);
    if (w->failed) bull_failed_close(w->failed);
    free(w);
}

static void bull_task_forget(void *state) {
    bull_task_t *w = state;
    bull_stalled_forget(w->stalled);
    bull_quarantine_forget(w->quarantine);
    if (w->failed) bull_failed_forget(w->failed);
    w->paused = false;
}

// The channel has the name of the key `failed`.
static size_t bull_task_channels(const void *state, const char **out) {
    const bull_task_t *w = state;
    if (!w->failed) return 0;
    out[0] = bull_failed_key(w->failed);
    return 1;
}

static size_t bull_task_watched_keys(const void *state, const char **out) {
    size_t count = bull_task_channels(state, out);
    out[count] = ((const bull_task_t *)state)->at->quarantine;
    return count + 1;
}

static void bull_task_on_message(void *state, const char *channel, slice_t message) {
    bull_task_t *w = state;
    (void)channel;
    if (w->failed) bull_failed_on_message(w->failed, message);
}

static outcome_t bull_task_step(void *state, side_task_call_t *call, redis_error_t *error) {
    bull_task_t *w = state;
    if (bull_stalled_step(w->stalled, call, error) != OUTCOME_OK) return error->outcome;
    if (bull_quarantine_step(w->quarantine, call, error) != OUTCOME_OK) return error->outcome;
    if (!w->failed) {
        if (!w->paused) w->paused = bull_failed_pause(w->at, call, error) == OUTCOME_OK;
        return error->outcome;
    }
    return bull_failed_step(w->failed, call, call->changed, error);
}

static outcome_t bull_task_leave(void *state, side_task_call_t *call, redis_error_t *error) {
    bull_task_t *w = state;
    return bull_stalled_leave(w->stalled, call, error);
}

static const side_task_ops_t bull_task_ops = {.open = bull_task_open,
                                              .close = bull_task_close,
                                              .forget = bull_task_forget,
                                              .watched_keys = bull_task_watched_keys,
                                              .channels = bull_task_channels,
                                              .on_message = bull_task_on_message,
                                              .step = bull_task_step,
                                              .leave = bull_task_leave};

static const requeue_ops_t bull_requeue = {.prepare = bull_requeue_prepare, .append = bull_requeue_append};

static void bull_sizes(const queue_keys_t *at, size_fn *add, void *self) {
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
                                    .promote = &bull_promote,
                                    .side_task = &bull_task_ops,
                                    .requeue = &bull_requeue,
                                    .adopt = bull_adopt,
                                    .dry_run = bull_dry_run,
                                    .sizes = bull_sizes};
