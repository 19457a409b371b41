#include "monitor/internal.h"

const dialect_ops_t *monitor_ops(const keyspace_t *keys, size_t queue) {
    return dialect_ops(keys->queues[queue].config->dialect);
}

void monitor_reset_all(monitor_t *m) {
    pages_drop(m->pages, m->session.data);
    for (size_t i = 0; i < m->keys->queue_count; i++) {
        scan_reset(&m->scans[i]);
        pages_forget(m->pages, i);
    }
    tasks_reset_all(m->tasks);
}

static void monitor_drop_pages(monitor_t *m, size_t queue) {
    if (m->turn.queue == queue) pages_drop(m->pages, m->session.data);
}

void monitor_reset(void *self, size_t queue) {
    monitor_t *m = self;
    scan_reset(&m->scans[queue]);
    tasks_reset(m->tasks, queue);
    monitor_drop_pages(m, queue);
    pages_forget(m->pages, queue);
}

void monitor_back_off(monitor_t *m, const redis_error_t *error) {
    session_back_off(&m->session, error);
    monitor_reset_all(m); // a new scan begins at the current place of the list
}

bool monitor_may_serve(void *self, size_t queue, lease_t *lease) {
    monitor_t *m = self;
    return (m->scans[queue].config->policy.roles & ROLE_MONITOR) && leadership_may_serve(&m->leadership, queue, lease);
}

bool monitor_may_scan(monitor_t *m, size_t queue, lease_t *lease) {
    return monitor_ops(m->keys, queue)->pass && monitor_may_serve(m, queue, lease);
}

call_t monitor_call(monitor_t *m, size_t queue, const char *token, redis_error_t *error) {
    return (call_t){m->session.data, m->keys, queue, token, error};
}

bool monitor_handle_outcome(monitor_t *m, const call_t *call, uint64_t term) {
    switch (call->error->outcome) {
    case OUTCOME_OK: return true;
    case OUTCOME_REFUSED:
        scan_refused(&m->scans[call->queue], call->error->text, mono_now());
        monitor_drop_pages(m, call->queue);
        return true;
    case OUTCOME_FENCED:
        leadership_fence(&m->leadership, call->queue, term);
        monitor_reset(m, call->queue);
        return true;
    case OUTCOME_RETRY:
    case OUTCOME_DISCONNECTED: break;
    }
    monitor_back_off(m, call->error);
    return false;
}

bool monitor_read_replies(monitor_t *m) {
    redis_error_t error;
    const call_t call = monitor_call(m, m->turn.queue, NULL, &error);
    return pages_read_all(m->pages, &call, &m->scans[m->turn.queue]) == OUTCOME_OK || monitor_handle_outcome(m, &call, 0);
}
