// One consumer group of one Redis stream. The pending entries of the group are the jobs in progress. A scan gives the entries of
// dead consumers back as copies.
#include "dialects/stream/internal.h"

#include "dialects/stream/scripts.h"
#include "redis/reply.h"

enum {
    MAX_BATCH = 5000,              // upper limit of dispatcher.batch
    CONSUMER_IDLE_VERSION = 70200, // from here on a consumer's idle time counts from its last attempt to read
};

static void stream_promote_append(const call_t *call, const promote_request_t *ask) {
    const queue_keys_t *at = call_queue(call);
    const stream_config_t *own = stream_config(at->config);
    call_script(call, &script_stream_promote, 4);
    request_text(call->conn, at->config->delayed, own->stream, at->meta, call->token, call_group(call));
    request_int(call->conn, ask->batch);
    request_text(call->conn, at->config->policy.score_unit == SCORE_S ? "s" : "ms");
    request_int(call->conn, at->config->policy.max_payload, ask->skip, ask->bytes, ask->first);
    request_text(call->conn, own->group, own->field);
    request_end(call->conn);
}

static const promote_ops_t stream_promote = {.append = stream_promote_append, .due_us = promote_due_us, .max_batch = MAX_BATCH};

// Before 7.2 a consumer that waits for entries seems to be idle.
static outcome_t stream_adopt(const call_t *call, buffer_t *refusal) {
    *call->error = (redis_error_t){0};
    if (!stream_beats_by_consumer(call_queue(call)->config) || conn_version(call->conn) >= CONSUMER_IDLE_VERSION)
        return OUTCOME_OK;
    buffer_printf(refusal,
                  "heartbeat = \"" HEARTBEAT_OF_CONSUMER
                  "\" needs Redis 7.2 or Valkey, but this is %s, where the idle time of a consumer that waits "
                  "grows: use a heartbeat key, or \"off\"",
                  conn_server(call->conn));
    return OUTCOME_OK;
}

// The monitor refuses the same at each scan, and serves the queue as soon as its group is the only one.
static outcome_t stream_monitor_fit(const call_t *call, buffer_t *refusal) {
    void *walk = stream_scan.open(call_queue(call));
    backup_status_t status;
    stream_scan.status_append(call, walk);
    outcome_t outcome = stream_scan.status_read(call, walk, &status);
    stream_scan.close(walk);
    if (outcome != OUTCOME_REFUSED) return outcome;
    buffer_str(refusal, call->error->text);
    *call->error = (redis_error_t){0};
    return OUTCOME_OK;
}

static void stream_used_append(conn_t *conn, const queue_keys_t *at) {
    request_append(conn, "EXISTS", stream_config(at->config)->stream, at->config->delayed);
}

static const jobs_ops_t stream_jobs = {.changes = true, .ready = &stream_unread, .in_progress = &stream_pending};

static bool stream_is_monitored(const queue_config_t *queue) { return queue->policy.roles & ROLE_MONITOR; }
static bool stream_is_dispatched(const queue_config_t *queue) { return queue->policy.roles & ROLE_DISPATCHER; }
static bool stream_reads_consumers(const queue_config_t *queue) {
    return stream_is_monitored(queue) && stream_beats_by_consumer(queue);
}

static const right_t stream_rights[] = {
    {RIGHT_SCRIPT(stream_promote), .when = stream_is_dispatched},
    {RIGHT_SCRIPT(stream_group), .when = stream_is_monitored},
    {"reading the groups of a stream", RIGHT_COMMANDS("XINFO|GROUPS"), .when = stream_is_monitored},
    {RIGHT_SCRIPT(stream_page), .when = stream_is_monitored},
    {"reading the consumers of a group", RIGHT_COMMANDS("XINFO|CONSUMERS"), .when = stream_reads_consumers},
    {RIGHT_SCRIPT(stream_settle), .when = stream_is_monitored},
    {RIGHT_SCRIPT(stream_requeue), .when = stream_is_monitored},
    {0},
};

const dialect_ops_t dialect_stream = {
    .settings = &stream_settings,
    .promote = &stream_promote,
    .scan = &stream_scan,
    .requeue = &stream_requeue,
    .jobs = &stream_jobs,
    .adopt = stream_adopt,
    .monitor_fit = stream_monitor_fit,
    .used_append = stream_used_append,
    .survey = stream_survey,
    .rights = stream_rights,
};
