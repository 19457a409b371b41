// Bull 4 (OptimalBits/bull 4.10 to the newest 4.x). An entry of delayed is the id of a job. A hash holds the job itself.
#include <stdlib.h>

#include "dialects/bull/bull.h"
#include "dialects/bull/job.h"
#include "dialects/bull/scripts.h"
#include "queue/scripts.h"
#include "redis/reply.h"

// Bull 4 and BullMQ share most key names. BullMQ writes its version into `meta` and its events into a stream. Workers that wait
// on `marker` (BullMQ 5, and Bull's unreleased layout of pull request 2818) would miss jobs that we promote.
static outcome_t bull_adopt(const call_t *call, buffer_t *refusal) {
    static const char *const words[BULLMQ_KEYS] = {BULLMQ_WORDS};
    const queue_keys_t *at = call_queue(call);
    conn_t *conn = call->conn;
    for (size_t i = 0; i < BULLMQ_KEYS; i++) {
        request_begin(conn, "TYPE");
        bull_keys(conn, at, words[i]);
        request_end(conn);
    }
    request_begin(conn, "HMGET");
    bull_keys(conn, at, "meta");
    request_text(conn, "version", "opts.maxLenEvents");
    request_end(conn);
    *call->error = (redis_error_t){0};
    for (size_t i = 0; i <= BULLMQ_KEYS; i++) {
        redisReply *reply = conn_read_next(conn, NULL, call->error);
        bool exists = reply_is_text(reply) && !reply_is(reply, "none") && !reply_is(reply, "hash");
        bool names_version = reply_len(reply_at(reply, 0)) || reply_len(reply_at(reply, 1));
        if (refusal->len == 0 && (exists || names_version))
            buffer_printf(refusal, "the queue belongs to BullMQ (%s:%s %s): dialect bull serves Bull 4",
                          bull_config(at->config)->base, exists ? words[i] : "meta", exists ? "exists" : "names its version");
        conn_reply_free(reply);
    }
    return call->error->outcome;
}

// ---- The side task has three parts. Each has the shape of a side task.

enum { STALLED, QUARANTINE, FAILED, PARTS };
static const side_task_ops_t *const parts[PARTS] = {
    [STALLED] = &bull_stalled_task, [QUARANTINE] = &bull_quarantine_task, [FAILED] = &bull_failed_task};

static void *bull_task_open(const queue_keys_t *at) {
    void **states = mem_array(PARTS, sizeof *states);
    for (size_t i = 0; i < PARTS; i++) states[i] = parts[i]->open(at);
    return states;
}

static void bull_task_close(void *state) {
    void **states = state;
    for (size_t i = 0; i < PARTS; i++) parts[i]->close(states[i]);
    free(states);
}

static void bull_task_forget(void *state) {
    void **states = state;
    for (size_t i = 0; i < PARTS; i++) parts[i]->forget(states[i]);
}

static size_t bull_task_channels(const void *state, const char **out) {
    void *const *states = state;
    return parts[FAILED]->channels(states[FAILED], out);
}

static size_t bull_task_watched_keys(const void *state, const char **out) {
    void *const *states = state;
    size_t count = parts[QUARANTINE]->watched_keys(states[QUARANTINE], out);
    return count + parts[FAILED]->watched_keys(states[FAILED], out + count);
}

static void bull_task_on_message(void *state, const char *channel, slice_t message) {
    void **states = state;
    parts[FAILED]->on_message(states[FAILED], channel, message);
}

static outcome_t bull_task_step(void *state, side_task_call_t *call) {
    void **states = state;
    mono_t next = mono_never();
    for (size_t i = 0; i < PARTS; i++) {
        call->next = mono_never();
        if (parts[i]->step(states[i], call) != OUTCOME_OK) return call->redis.error->outcome;
        next = mono_min(next, call->next);
    }
    call->next = next;
    return OUTCOME_OK;
}

static outcome_t bull_task_leave(void *state, side_task_call_t *call) {
    void **states = state;
    return parts[STALLED]->leave(states[STALLED], call);
}

static const side_task_ops_t bull_task = {.open = bull_task_open,
                                          .close = bull_task_close,
                                          .forget = bull_task_forget,
                                          .watched_keys = bull_task_watched_keys,
                                          .channels = bull_task_channels,
                                          .on_message = bull_task_on_message,
                                          .step = bull_task_step,
                                          .leave = bull_task_leave};

static const right_t bull_rights[] = {
    {RIGHT_SCRIPT(bull_promote)},
    {RIGHT_SCRIPT(bull_mark)},
    {RIGHT_SCRIPT(bull_stalled)},
    {RIGHT_SCRIPT(bull_settle)},
    {RIGHT_SCRIPT(bull_seen)},
    {RIGHT_SCRIPT(bull_failed)},
    {RIGHT_SCRIPT(bull_record)},
    {RIGHT_SCRIPT(bull_requeue)},
    {RIGHT_SCRIPT(quarantine_read)},
    {RIGHT_SCRIPT(quarantine_settle)},
    {0},
};

const dialect_ops_t dialect_bull = {.settings = &bull_settings,
                                    .promote = &bull_promote,
                                    .side_task = &bull_task,
                                    .requeue = &bull_requeue,
                                    .adopt = bull_adopt,
                                    .rights = bull_rights};
