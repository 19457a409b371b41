// Events of fred84's delayedQueue (github.com/fred84/delayedQueue, 384b808). A zset holds members `<class>###<id>`; the score is
// the next due time. A hash holds the envelope of each event. Each class has one list. A worker removes a handled event from
// zset and hash. Until then the event is sent again and again, so scans are not needed. The promote script quarantines events
// that are out of attempts and events that it cannot send. quarantine.c handles these events.
#include "dialects/delayed_queue/internal.h"

#include "base/json/json.h"
#include "dialects/delayed_queue/scripts.h"
#include "queue/record.h"
#include "queue/scripts.h"
#include "queue/settle.h"

// Upper limit of the library's schedulingBatchSize (DelayedEventService.java, checkInRange).
enum { MAX_BATCH = 1000 };

static void delayed_promote_append(const call_t *call, const promote_request_t *ask) {
    const queue_keys_t *queue = call_queue(call);
    conn_t *conn = call->conn;
    const delayed_config_t *own = delayed_config(queue->config);
    call_script(call, &script_delayed_promote, 5 + (int)own->lists.count);
    request_text(conn, queue->config->delayed, own->events, queue->meta, queue->quarantine);
    for (size_t i = 0; i < own->lists.count; i++) request_text(conn, own->lists.items[i]);
    request_text(conn, call->token, call_group(call));
    request_int(conn, ask->batch, ask->first, PROMOTE_BYTES, queue->config->policy.max_payload, own->retry_attempts,
                DELAYED_LATER_MS, (int64_t)own->delays.count);
    for (size_t i = 0; i < own->delays.count; i++) request_int(conn, own->delays.items[i].below, own->delays.items[i].delay_ms);
    for (size_t i = 0; i < own->classes.count; i++) request_text(conn, own->classes.items[i]);
    request_end(conn);
}

static void delayed_used_append(conn_t *conn, const queue_keys_t *at) {
    const delayed_config_t *own = delayed_config(at->config);
    request_begin(conn, "EXISTS", at->config->delayed, own->events);
    for (size_t i = 0; i < own->lists.count; i++) request_text(conn, own->lists.items[i]);
    request_end(conn);
}

static const promote_ops_t delayed_promote = {.append = delayed_promote_append, .due_us = promote_due_us, .max_batch = MAX_BATCH};

// ---- An operator requeues an event. The event begins with attempt 1 again.

// out->mark_id passes the member to delayed_requeue_append; out->mark stays NULL, because no set holds the member.
static bool delayed_requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out,
                                    buffer_t *bytes, buffer_t *why) {
    size_t class = 0;
    delayed_envelope_t envelope = {0};
    (void)now_ms;
    if (row->job.len == 0 || row->type.len == 0)
        buffer_printf(why, "its member in `%s` is not known: enqueue it by the application", queue->delayed);
    else if (!delayed_class(delayed_config(queue), row->type, &class))
        buffer_printf(why, "its class is not among `types` of queue `%s`: add it there first", queue->name);
    else if (!delayed_read(row->payload, row->type, &envelope))
        buffer_str(why, "its payload is no envelope of its class: enqueue it by the application");
    if (why->len) return false;
    buffer_add(bytes, row->type.data, row->type.len);
    buffer_str(bytes, DELAYED_DELIMITER);
    buffer_add(bytes, row->job.data, row->job.len);
    size_t member = bytes->len;
    delayed_splice(row->payload, &envelope, 1, bytes);
    out->ready = delayed_config(queue)->lists.items[class];
    out->mark_id = (slice_t){bytes->data, member};
    out->job = (slice_t){bytes->data + member, bytes->len - member};
    return true;
}

static void delayed_requeue_append(conn_t *conn, const keyspace_t *keys, const requeue_request_t *ask) {
    const queue_keys_t *home = &keys->queues[ask->queue];
    const queue_config_t *to = keys->queues[ask->to].config;
    slice_t class = delayed_name(ask->where->mark_id).class;
    digest_t event = {.bytes = {0}};
    digest_parse(ask->record->answers, &event);
    request_script(conn, &script_delayed_requeue, 6);
    request_text(conn, ask->marker, home->failures, home->meta, to->delayed, delayed_config(to)->events,
                 keys->queues[ask->to].meta);
    request_bytes(conn, event.bytes, REQUEUE_MARK_BYTES);
    request_text(conn, ask->by, ask->again ? "1" : "0");
    request_bytes(conn, ask->where->mark_id.data, ask->where->mark_id.len);
    request_bytes(conn, ask->where->job.data, ask->where->job.len);
    request_int(conn, (int64_t)record_bytes(ask->record));
    request_bytes(conn, class.data, class.len);
    record_append(conn, ask->record);
    request_end(conn);
}

static const requeue_ops_t delayed_requeue = {.prepare = delayed_requeue_prepare, .append = delayed_requeue_append};

// ---- Jobs for people. Lists hold envelopes alone, which do not tell the id.

static void delayed_jobs_details(const queue_config_t *queue, jobs_state_t state, jobs_range_t *range) {
    if (state == JOBS_DELAYED) range->hash = delayed_config(queue)->events;
}

static void delayed_jobs_read(const queue_config_t *queue, jobs_state_t state, const jobs_entry_t *entry, job_t *out,
                              slice_t *payload) {
    delayed_envelope_t envelope;
    json_pick_t type = {.pointer = "/type"};
    bool delayed = state == JOBS_DELAYED;
    (void)queue;
    *payload = entry->values[delayed ? 1 : 0];
    delayed_name_t name = {0};
    if (delayed)
        name = delayed_name(entry->values[0]);
    else if (json_pick(*payload, &type, 1) && type.found == JSON_FOUND)
        name.class = type.value.raw;
    *out = (job_t){.digest = digest_of(payload->data, payload->len), .retries_in_job = -1};
    snprintf(out->id, sizeof out->id, "%.*s", (int)name.id.len, name.id.data);
    snprintf(out->type, sizeof out->type, "%.*s", (int)name.class.len, name.class.data);
    if (delayed_read(*payload, name.class, &envelope)) out->retries_in_job = envelope.attempt - 1;
}

static const jobs_ops_t delayed_jobs = {
    .details = delayed_jobs_details,
    .read = delayed_jobs_read,
    .advice = "its events belong to the application: use the methods of DelayedEventService",
};

static const right_t delayed_rights[] = {
    {RIGHT_SCRIPT(delayed_promote)},
    {RIGHT_SCRIPT(delayed_serve)},
    {RIGHT_SCRIPT(delayed_reschedule)},
    {RIGHT_SCRIPT(quarantine_read)},
    {RIGHT_SCRIPT(quarantine_settle)},
    {RIGHT_SCRIPT(delayed_requeue)},
    {0},
};

const dialect_ops_t dialect_delayed_queue = {
    .settings = &delayed_settings,
    .promote = &delayed_promote,
    .side_tasks = {&delayed_task, &delayed_scheduler_task},
    .requeue = &delayed_requeue,
    .jobs = &delayed_jobs,
    .used_append = delayed_used_append,
    .survey = delayed_survey,
    .rights = delayed_rights,
};
