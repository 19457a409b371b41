#include "dialects/requeue.h"

#include "queue/record.h"
#include "queue/scripts.h"
#include "queue/settle.h"
#include "redis/reply.h"

enum { PRUNE_COUNT = 500 };

// A job without a stamp begins a new life when the monitor first reads it. Only a job with a creation date of its own needs a
// stamp, or its age would end it at once. Other jobs get none: a million stamps would take 100 MB.
static bool requeue_needs_stamp(const queue_config_t *queue) {
    const queue_policy_t *policy = &queue->policy;
    return policy->roles & ROLE_MONITOR && dialect_scan(queue) && policy->alive_timeout_ms && *policy->created_path;
}

outcome_t requeue_now(conn_t *conn, int64_t *now_ms, redis_error_t *error) {
    redisReply *reply;
    request_begin(conn, "TIME");
    if (request_ask(conn, &reply, error) != OUTCOME_OK) return error->outcome;
    *now_ms = reply_time_ms(reply);
    freeReplyObject(reply);
    return OUTCOME_OK;
}

bool requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out, buffer_t *bytes,
                     buffer_t *why) {
    const requeue_ops_t *ops = dialect_ops(queue->dialect)->requeue;
    *out = (requeue_push_t){.ready = queue->ready, .job = row->payload};
    return !ops || !ops->prepare || ops->prepare(queue, row, now_ms, out, bytes, why);
}

void requeue_append(conn_t *conn, const keyspace_t *keys, const requeue_request_t *ask) {
    const queue_keys_t *home = &keys->queues[ask->queue];
    const queue_keys_t *to = &keys->queues[ask->to];
    const requeue_ops_t *ops = dialect_ops(to->config->dialect)->requeue;
    const requeue_push_t nothing = {.ready = to->config->ready};
    const requeue_push_t *where = ask->discards ? &nothing : ask->where;
    digest_t event = {.bytes = {0}};
    if (ops && ops->append && !ask->discards) {
        ops->append(conn, keys, ask);
        return;
    }
    digest_parse(ask->record->answers, &event);
    bool is_own = strcmp(ask->marker, home->requeued) == 0; // the failure is of `home`, and not of a queue outside the config
    // Readers of the list of dead letters could requeue the job a second time, and a later dead letter of equal bytes would look
    // like this one. So the job leaves the list.
    const char *letters = is_own ? config_dead_letters(home->config) : "";
    request_script(conn, &script_requeue, 9);
    request_text(conn, ask->marker, home->failures, home->meta, *where->ready ? where->ready : to->absent, to->stamps, to->meta,
                 where->mark ? where->mark : ask->marker, *letters ? letters : ask->marker,
                 *letters ? home->recorded : ask->marker);
    request_bytes(conn, event.bytes, REQUEUE_MARK_BYTES);
    request_text(conn, ask->discards ? "discarded" : "requeued", ask->by, ask->again ? "1" : "0");
    request_bytes(conn, where->job.data, where->job.len);
    request_bytes(conn, ask->digest->bytes, requeue_needs_stamp(to->config) ? STAMP_FIELD_BYTES : 0);
    request_int(conn, (int64_t)record_bytes(ask->record));
    request_bytes(conn, where->mark_id.data, where->mark_id.len);
    request_text(conn, where->takes_left ? "left" : "right");
    record_append(conn, ask->record);
    request_end(conn);
}

// Reads a requeue marker, `<state> <ms> <by>`. False: the text is not a marker of the sidecar.
static bool requeue_read_mark(const char *mark, requeue_reply_t *out) {
    long long at;
    int used = 0;
    if (sscanf(mark, "%15s %lld %n", out->state, &at, &used) < 2 || !used) return false;
    out->at_ms = at;
    snprintf(out->by, sizeof out->by, "%s", mark + used);
    return true;
}

outcome_t requeue_read(conn_t *conn, requeue_reply_t *out, redis_error_t *error) {
    static const char *const words[] = {[REQUEUE_DONE] = "done",
                                        [REQUEUE_KNOWN] = "known",
                                        [REQUEUE_ERASED] = "erased",
                                        [REQUEUE_WAITING] = "waiting",
                                        [REQUEUE_UNFIT] = "unfit"};
    redisReply *reply;
    *out = (requeue_reply_t){.kind = REQUEUE_UNFIT};
    if (conn_read(conn, 0, &reply, error) != OUTCOME_OK) return error->outcome;
    const redisReply *word = reply_at(reply, 0);
    const char *detail = reply_text(reply_at(reply, 1));
    snprintf(out->why, sizeof out->why, "%s", detail);
    while (out->kind > REQUEUE_DONE && !reply_is(word, words[out->kind])) out->kind--;
    if (out->kind == REQUEUE_KNOWN || out->kind == REQUEUE_ERASED) requeue_read_mark(detail, out);
    if (reply_is(word, "type"))
        redis_error_set(error, OUTCOME_REFUSED, "its key `%s` holds a %s", detail, reply_text(reply_at(reply, 2)));
    else if (!reply_is(word, words[out->kind]))
        redis_error_set(error, OUTCOME_REFUSED, "requeue: unexpected reply");
    freeReplyObject(reply);
    return error->outcome;
}

static bool requeue_is_young(void *before_ms, slice_t field, slice_t mark) {
    requeue_reply_t read = {0};
    (void)field;
    if (!requeue_read_mark(mark.data, &read)) return true; // the sidecar did not write this marker: keep it
    return read.at_ms >= *(const int64_t *)before_ms;
}

outcome_t requeue_prune(const call_t *call, int64_t before_ms, uint64_t *cursor) {
    return prune_hash(call, call_queue(call)->requeued, PRUNE_COUNT, cursor, requeue_is_young, &before_ms);
}
