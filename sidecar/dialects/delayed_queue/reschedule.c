// After Redis's clock was set back, events that were sent while it was ahead would wait until it has come to their times.
#include "base/log.h"
#include "dialects/delayed_queue/internal.h"
#include "dialects/delayed_queue/scripts.h"
#include "redis/reply.h"

enum {
    PAGE_EVENTS = 100,
    PAGE_PAUSE_MS = 5, // between two pages, so that Redis serves its other clients
    LOOK_MS = 10000,   // between two looks at the clock
};

static const char ROLE[] = "monitor";

static void pass_read(delayed_pass_t *pass, const redisReply *reply) {
    pass->moved += reply_int(reply_at(reply, 1));
    snprintf(pass->began, sizeof pass->began, "%s", reply_text(reply_at(reply, 2)));
    snprintf(pass->from, sizeof pass->from, "%s", reply_text(reply_at(reply, 3)));
    pass->skip = reply_int(reply_at(reply, 4));
}

static outcome_t pass_ask(const delayed_pass_t *pass, const call_t *call, redisReply **reply) {
    const queue_keys_t *queue = call_queue(call);
    const delayed_config_t *own = delayed_config(queue->config);
    call_script(call, &script_delayed_reschedule, 5);
    request_text(call->conn, queue->config->delayed, own->events, queue->meta, queue->quarantine, call->token, pass->began,
                 pass->from);
    request_int(call->conn, pass->skip, PAGE_EVENTS, PROMOTE_BYTES, DELAYED_LATER_MS);
    for (size_t i = 0; i < own->delays.count; i++)
        request_int(call->conn, own->delays.items[i].below, own->delays.items[i].delay_ms);
    return call_ask(call, reply);
}

outcome_t delayed_reschedule(delayed_pass_t *pass, const side_task_call_t *call, bool *moved) {
    redisReply *reply;
    int64_t before = pass->moved;
    *moved = false;
    if (!mono_reached(pass->next, call->now)) return OUTCOME_OK;
    if (pass_ask(pass, &call->redis, &reply) != OUTCOME_OK) {
        *pass = (delayed_pass_t){0};
        return call->redis.error->outcome;
    }
    pass_read(pass, reply);
    conn_reply_free(reply);
    *moved = pass->moved > before;
    bool ended = !*pass->began;
    if (ended && pass->moved)
        log_warn(ROLE, call_queue(&call->redis)->config->name,
                 "the clock of Redis was set back; rescheduled events that were sent before", F_INT("events", pass->moved));
    if (ended) *pass = (delayed_pass_t){0};
    pass->next = mono_add(call->now, (ended ? LOOK_MS : PAGE_PAUSE_MS) * NS_PER_MS);
    return OUTCOME_OK;
}
