// The auditor's connection to Redis, and helpers for all files of the auditor.
#include <stdio.h>
#include <string.h>

#include "auditor/internal.h"
#include "base/log.h"

static const char ROLE[] = "auditor";

const char *auditor_queue_name(const auditor_t *a, size_t queue) { return a->keys->queues[queue].config->name; }

void stream_id_set(stream_id_t id, const char *text) { snprintf(id, STREAM_ID_SIZE, "%s", text); }

int64_t auditor_redis_ms(const auditor_t *a) { return a->redis.now_ms + mono_diff(mono_now(), a->redis.now_at) / NS_PER_MS; }

bool auditor_back_off(auditor_t *a, const redis_error_t *error) {
    backoff_failed(&a->redis.backoff, mono_now());
    bool refused = strncmp(error->text, "NOPERM", 6) == 0;
    log_warn(ROLE, NULL,
             refused                           ? "redis refuses the auditor; no record is copied"
             : error->outcome == OUTCOME_RETRY ? "redis is not ready"
                                               : "cannot reach redis",
             F_STR("reason", error->text));
    if (error->outcome == OUTCOME_DISCONNECTED) conn_close(a->redis.conn);
    if (!conn_is_open(a->redis.conn)) {
        a->read.in_flight = false;
        metric_add(&a->metrics->reconnects, 1);
    }
    return false;
}

bool auditor_connect(auditor_t *a) {
    redis_error_t error;
    char history[STREAM_HISTORY_SIZE];
    bool fresh = !conn_is_open(a->redis.conn);
    if (a->read.in_flight) return true;
    if (conn_open(a->redis.conn, &error) != OUTCOME_OK) return auditor_back_off(a, &error);
    if (!fresh) return true;
    if (stream_history(a->redis.conn, history, &error) != OUTCOME_OK) {
        error.outcome = OUTCOME_DISCONNECTED; // cursors are valid only for the server's history
        return auditor_back_off(a, &error);
    }
    bool same = strcmp(history, a->redis.history) == 0;
    for (size_t i = 0; !same && i < a->keys->queue_count; i++) stream_id_set(a->cursors[i].read_id, STREAM_ID_NONE);
    snprintf(a->redis.history, sizeof a->redis.history, "%s", history);
    a->timers.reconcile_at = a->timers.renew_acks_at = mono_now();
    a->read.catching_up = true;
    return true;
}
