#include "inspect/survey.h"

#include "base/buffer.h"
#include "dialects/registry.h"
#include "queue/elsewhere.h"
#include "redis/reply.h"

static const dialect_ops_t *survey_ops(const preflight_call_t *call, size_t queue) {
    return dialect_ops(call->keys->queues[queue].config->dialect);
}

static void survey_report(void *self, bool lost, size_t queue, const char *text) {
    const preflight_call_t *call = self;
    const char *name = queue == SIZE_MAX ? NULL : call->keys->queues[queue].config->name;
    preflight_report(call, lost ? PREFLIGHT_WARNING : PREFLIGHT_NOTE, name, "%s", text);
}

// All requests go in one pipeline.
static outcome_t survey_unused(const preflight_call_t *call) {
    const queue_keys_t *queues = call->keys->queues;
    size_t count = call->keys->queue_count;
    *call->error = (redis_error_t){0};
    for (size_t i = 0; i < count; i++)
        if (survey_ops(call, i)->used_append) survey_ops(call, i)->used_append(call->conn, &queues[i]);
    for (size_t i = 0; i < count; i++) {
        if (!survey_ops(call, i)->used_append) continue;
        redis_error_t refusal;
        redisReply *reply = conn_read_or_refusal(call->conn, &refusal, call->error);
        if (reply && reply_int(reply) == 0)
            preflight_report(call, PREFLIGHT_NOTE, queues[i].config->name,
                             "Redis has no key of this queue, such as \"%s\": the queue has no jobs, or its application uses "
                             "another name or prefix",
                             queues[i].config->delayed);
        conn_reply_free(reply);
    }
    return call->error->outcome;
}

static outcome_t survey_dialects(const preflight_call_t *call) {
    preflight_call_t reported = *call;
    const config_dialect_t *dialect;
    for (size_t d = 0; (dialect = dialect_settings(d)); d++) {
        const dialect_ops_t *ops = dialect_ops(dialect);
        size_t first = 0;
        while (first < call->keys->queue_count && survey_ops(call, first) != ops) first++;
        if (first == call->keys->queue_count || !ops->survey) continue;
        const call_t dialect_call = {.conn = call->conn, .keys = call->keys, .queue = first, .error = call->error};
        if (ops->survey(&dialect_call, survey_report, &reported) != OUTCOME_OK) break;
    }
    return call->error->outcome;
}

// Tells of a key of this queue in another database. A server that refuses the look tells nothing.
static outcome_t survey_queue_elsewhere(const preflight_call_t *call, size_t queue, elsewhere_t *found) {
    const queue_config_t *config = call->keys->queues[queue].config;
    redis_keys_t used = config_redis_keys(config);
    const char **names = mem_array(used.count, sizeof *names);
    const char *harm = dialect_ops(config->dialect)->shared_harm;
    size_t count = 0;
    for (size_t i = 0; i < used.count && !used.items[i].pattern; i++)
        if (!config_key_is_shared(&used.items[i])) names[count++] = used.items[i].name;
    outcome_t outcome = elsewhere_find(call->conn, call->keys, names, count, found, call->error);
    if (outcome == OUTCOME_OK && found->key)
        preflight_report(call, PREFLIGHT_NOTE, config->name,
                         "database %" PRId64 " also has \"%s\", and this config serves database %" PRId64
                         " (`redis.db`): messages of Redis reach clients of every database, so %s",
                         found->database, found->key, call->keys->config->redis.db, harm ? harm : "the sidecar may look in vain");
    free(names);
    config_redis_keys_free(&used);
    if (outcome == OUTCOME_REFUSED) *call->error = (redis_error_t){0};
    return outcome;
}

static outcome_t survey_elsewhere(const preflight_call_t *call) {
    elsewhere_t found = {.others = 1};
    outcome_t outcome = OUTCOME_OK;
    for (size_t i = 0; i < call->keys->queue_count && outcome == OUTCOME_OK && found.others; i++)
        outcome = survey_queue_elsewhere(call, i, &found);
    return call->error->outcome;
}

outcome_t survey(const preflight_call_t *call) {
    outcome_t outcome = survey_unused(call);
    if (outcome == OUTCOME_OK) outcome = survey_elsewhere(call);
    return outcome == OUTCOME_OK ? survey_dialects(call) : outcome;
}
