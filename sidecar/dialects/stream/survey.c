// Looks whether the entries of a stream have the field that the config names, and for names as every dialect does.
#include "dialects/stream/internal.h"

#include "dialects/names.h"
#include "dialects/stream/scripts.h"
#include "redis/reply.h"

// Reads the newest entry of each stream, if the dispatcher adds entries to it.
static bool survey_wants(const call_t *call, size_t i) {
    const queue_config_t *queue = call->keys->queues[i].config;
    return queue->dialect == &stream_settings && (queue->policy.roles & ROLE_DISPATCHER);
}

// The value of a name in the reply to XINFO STREAM.
static const redisReply *survey_value(const redisReply *info, const char *name) {
    for (size_t i = 0; reply_at(info, i + 1); i += 2)
        if (reply_is(reply_at(info, i), name)) return reply_at(info, i + 1);
    return NULL;
}

static void survey_compare(const call_t *call, size_t i, const redisReply *entry, survey_report_fn *report, void *self) {
    const stream_config_t *own = stream_config(call->keys->queues[i].config);
    const redisReply *fields = reply_at(entry, 1);
    bool found = !fields || fields->elements == 0;
    for (size_t k = 0; fields && k < fields->elements && !found; k += 2)
        found = slice_is(reply_slice(fields->element[k]), own->field);
    if (found) return;
    char *text = mem_printf(
        "the newest entry of \"%s\" has no field \"%s\", which promoted jobs get (its first one is \"%.64s\"): set `field` to "
        "the one that workers read",
        own->stream, own->field, reply_text(reply_at(fields, 0)));
    report(self, true, i, text);
    free(text);
}

outcome_t stream_survey(const call_t *call, survey_report_fn *report, void *self) {
    if (names_survey(call, report, self) != OUTCOME_OK) return call->error->outcome;
    for (size_t i = call->queue; i < call->keys->queue_count && call->error->outcome == OUTCOME_OK; i++) {
        redis_error_t refusal;
        if (!survey_wants(call, i)) continue;
        request_append(call->conn, "XINFO", "STREAM", stream_config(call->keys->queues[i].config)->stream);
        conn_expect_job(call->conn);
        redisReply *reply = conn_read_or_refusal(call->conn, &refusal, call->error);
        if (reply) survey_compare(call, i, survey_value(reply, "last-entry"), report, self);
        conn_reply_free(reply);
    }
    return call->error->outcome;
}
