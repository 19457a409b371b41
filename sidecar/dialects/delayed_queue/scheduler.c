// Notices that the library's own scheduler runs beside the sidecar. At each run it sets its lock, reads the events, and deletes
// the lock (DelayedEventService.java, dispatchDelayedMessages). So only a look at that moment finds the key, and client tracking
// tells of the moment. The look proves the run: the scheduler of another database changes a key of the same name.
#include "base/buffer.h"
#include "base/log.h"
#include "dialects/delayed_queue/internal.h"
#include "redis/reply.h"
#include "redis/tracking.h"

enum {
    AGAIN_S = 10, // between a change and the next request for a message about a change
    MISSED_S = 1, // the same after a look that came too late
    RUNS = 2,     // runs before it warns; one may have another cause
};

static const char ROLE[] = "monitor";

typedef struct scheduler {
    const queue_keys_t *keys;
    char *lock;    // owned
    mono_t arm_at; // when to ask for the next message
    bool changed;  // the lock has changed since the last step
    int64_t runs;  // seen
} scheduler_t;

static void *scheduler_open(const queue_keys_t *keys) {
    scheduler_t *scheduler = mem_alloc(sizeof *scheduler);
    *scheduler = (scheduler_t){.keys = keys, .lock = mem_printf("%sdelayed_events_lock", keys->config->prefix)};
    return scheduler;
}

static void scheduler_close(void *state) {
    scheduler_t *scheduler = state;
    free(scheduler->lock);
    free(scheduler);
}

static void scheduler_forget(void *state) { ((scheduler_t *)state)->arm_at = (mono_t){0}; }

static size_t scheduler_watched_keys(const void *state, const char **out) {
    out[0] = ((const scheduler_t *)state)->lock;
    return 1;
}

static void scheduler_on_change(void *state, const char *key) {
    scheduler_t *scheduler = state;
    if (strcmp(key, scheduler->lock) == 0) scheduler->changed = true;
}

// Sends the request that was appended, and ignores a refusal: other work of the queue must not wait for this check.
static void scheduler_ask(const side_task_call_t *call, redisReply **out) {
    redis_error_t refusal;
    redisReply *reply = conn_read_or_refusal(call->redis.conn, &refusal, call->redis.error);
    if (call->redis.error->kind == ERROR_FULL) *call->redis.error = (redis_error_t){0};
    if (out) *out = reply;
    if (!out) conn_reply_free(reply);
}

static bool scheduler_is_locked(const scheduler_t *scheduler, const side_task_call_t *call) {
    redisReply *exists;
    request_append(call->redis.conn, "EXISTS", scheduler->lock);
    scheduler_ask(call, &exists);
    bool locked = reply_int(exists) == 1;
    conn_reply_free(exists);
    return locked;
}

// Writes the time for `status`. Not fenced: the field is for people, and `status` ignores an old one.
static void scheduler_tell(scheduler_t *scheduler, side_task_call_t *call) {
    redisReply *time;
    char text[24];
    request_append(call->redis.conn, "TIME");
    scheduler_ask(call, &time);
    if (!time) return;
    snprintf(text, sizeof text, "%" PRId64, reply_time_ms(time));
    conn_reply_free(time);
    request_append(call->redis.conn, "HSET", scheduler->keys->meta, DELAYED_SCHEDULER, text);
    scheduler_ask(call, NULL);
    if (scheduler->runs == RUNS)
        log_warn(ROLE, scheduler->keys->config->name,
                 "the scheduler of delayedQueue runs too, so events come twice: set schedulingInterval(Duration.ofDays(36500))",
                 F_STR("key", scheduler->lock));
}

static outcome_t scheduler_step(void *state, side_task_call_t *call) {
    scheduler_t *scheduler = state;
    if (scheduler->changed) {
        bool runs = scheduler_is_locked(scheduler, call);
        scheduler->changed = false;
        scheduler->arm_at = mono_add(call->now, (runs ? AGAIN_S : MISSED_S) * NS_PER_S);
        if (runs && ++scheduler->runs >= RUNS) scheduler_tell(scheduler, call);
    }
    if (call->arm && mono_reached(scheduler->arm_at, call->now)) {
        request_caching(call->redis.conn);
        request_append(call->redis.conn, "EXISTS", scheduler->lock);
        scheduler_ask(call, NULL);
        scheduler_ask(call, NULL);
        scheduler->arm_at = mono_never();
    }
    if (call->arm) call->next = scheduler->arm_at; // otherwise tracking is off, and this task has nothing to do
    return call->redis.error->outcome;
}

const side_task_ops_t delayed_scheduler_task = {.open = scheduler_open,
                                                .close = scheduler_close,
                                                .forget = scheduler_forget,
                                                .watched_keys = scheduler_watched_keys,
                                                .on_change = scheduler_on_change,
                                                .step = scheduler_step};
