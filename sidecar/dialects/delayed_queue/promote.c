// Promotion of delayedQueue. The script sends each due event and schedules the event's next attempt.
#include <math.h>

#include "dialects/delayed_queue/config.h"
#include "dialects/delayed_queue/envelope.h"
#include "dialects/delayed_queue/internal.h"
#include "dialects/delayed_queue/scripts.h"

// Upper limit of the library's schedulingBatchSize (DelayedEventService.java, checkInRange).
enum { BATCH_MOST = 1000 };

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
    for (size_t i = 0; i < own->delays.count; i++) {
        request_int(conn, own->delays.items[i].below, own->delays.items[i].delay_ms);
    }
    for (size_t i = 0; i < own->classes.count; i++) request_text(conn, own->classes.items[i]);
    request_end(conn);
}

static int64_t delayed_due_us(const queue_config_t *queue, double score) {
    (void)queue;
    double us = ceil(score * 1e3);
    if (us >= 9e18) return INT64_MAX;
    if (us <= -9e18) return INT64_MIN;
    return (int64_t)us;
}

const promote_ops_t delayed_promote = {
    .append = delayed_promote_append, .read = promote_read_reply, .due_us = delayed_due_us, .most = BATCH_MOST};
