#include "monitor/monitor.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/log.h"
#include "monitor/internal.h"

enum { TICK_MS = 100 }; // then a tick returns, so that the role handles its signals

static const char ROLE[] = "monitor";

static int monitor_compare_keys(const void *a, const void *b) {
    return strcmp(((const monitor_key_t *)a)->key, ((const monitor_key_t *)b)->key);
}

static void monitor_add_queue(monitor_t *m, size_t queue) {
    const queue_config_t *config = m->keys->queues[queue].config;
    const dialect_ops_t *ops = monitor_ops(m->keys, queue);
    if (ops->side_task) monitor_add_task(m, queue, ops->side_task);
    if (!ops->pass) return;
    m->scans_any = true;
    if (!ops->pass->rotation) return;
    m->tracked_keys[m->tracked_count++] = (monitor_key_t){config->backup, queue, false};
    if (ops->pass->rotation->reports) m->tracked_keys[m->tracked_count++] = (monitor_key_t){config->errors, queue, true};
}

monitor_t *monitor_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    static const char *const NAMES[] = {"queue-sidecar-monitor", "queue-sidecar-monitor-ear"};
    monitor_t *m = mem_alloc(sizeof *m);
    m->keys = keys;
    m->stop = stop;
    session_init(&m->session, ROLE, NAMES, &keys->config->redis, metrics, stop);
    m->scans = mem_array(keys->queue_count, sizeof *m->scans);
    m->tracked_keys = mem_array(keys->queue_count, 2 * sizeof *m->tracked_keys);
    leadership_init(&m->leadership, ROLE, leases);
    m->buffers = apply_buffers_new();
    m->pages = pages_new(keys);
    m->tasks = tasks_new(keys);
    for (size_t i = 0; i < keys->queue_count; i++) {
        const queue_config_t *queue = keys->queues[i].config;
        scan_init(&m->scans[i], queue, metrics_queue(metrics, queue->name), keys->config->monitor.scan_interval_ms);
        if (queue->policy.roles & ROLE_MONITOR) monitor_add_queue(m, i);
    }
    qsort(m->tracked_keys, m->tracked_count, sizeof *m->tracked_keys, monitor_compare_keys);
    return m;
}

static void monitor_on_message(void *self, const char *channel, slice_t message) {
    tasks_on_message(((monitor_t *)self)->tasks, channel, message);
}

void monitor_add_task(monitor_t *m, size_t queue, const side_task_ops_t *ops) {
    size_t count;
    tasks_add(m->tasks, queue, ops, m->scans[queue].metrics, m->scans[queue].interval_ms);
    const char *const *channels = tasks_channels(m->tasks, &count);
    session_subscribe(&m->session, channels, count, monitor_on_message, m);
}

void monitor_free(monitor_t *m) {
    if (!m) return;
    tasks_free(m->tasks);
    for (size_t i = 0; i < m->keys->queue_count; i++) scan_free(&m->scans[i]);
    pages_free(m->pages);
    session_free(&m->session);
    apply_buffers_free(m->buffers);
    free(m->scans);
    free(m->tracked_keys);
    leadership_free(&m->leadership);
    free(m);
}

static void monitor_on_change(void *self, const char *key, size_t len) {
    monitor_t *m = self;
    mono_t now = mono_now();
    tasks_changed(m->tasks, key, len);
    for (size_t i = 0; !key && i < m->keys->queue_count; i++) scan_changed(&m->scans[i], true, now);
    if (!key || strlen(key) != len) return;
    const monitor_key_t *found =
        bsearch(&(monitor_key_t){.key = key}, m->tracked_keys, m->tracked_count, sizeof *m->tracked_keys, monitor_compare_keys);
    if (found) scan_changed(&m->scans[found->queue], found->errors, now);
}

// Side tasks and scans take turns. *worked: a side task made a step. False: the connection is unusable for now.
static bool monitor_step_task(monitor_t *m, bool *worked) {
    lease_t lease;
    redis_error_t error;
    task_t *task = tasks_turn(m->tasks, monitor_may_serve, m, mono_now(), &lease);
    if (!task) return true;
    *worked = true;
    if (!monitor_read_replies(m)) return false;
    task_context_t context = {.conn = m->session.data, .token = lease.token, .arm = m->session.tracking};
    task_step(m->tasks, task, &context, &error);
    const call_t call = monitor_call(m, task_queue(task), lease.token, &error);
    return monitor_handle_outcome(m, &call, lease.term);
}

static void monitor_safety(monitor_t *m, mono_t now) {
    if (!mono_reached(m->safety_at, now)) return;
    m->safety_at = mono_add(now, SCAN_SAFETY_S * NS_PER_S);
    for (size_t i = 0; i < m->keys->queue_count; i++) scan_safety(&m->scans[i], now);
    tasks_changed(m->tasks, NULL, 0);
}

static void monitor_work(monitor_t *m) {
    mono_t started = mono_now();
    monitor_safety(m, started);
    while (!atomic_load(m->stop) && mono_diff(mono_now(), started) < TICK_MS * NS_PER_MS) {
        if (!session_read_messages(&m->session, monitor_on_change, m) || !monitor_begin_scans(m, mono_now())) break;
        bool worked = monitor_next_turn(m);
        if (worked && !monitor_step_scan(m)) break;
        if (!monitor_step_task(m, &worked) || !worked) break;
    }
    (void)monitor_read_replies(m);
}

static bool monitor_connect(monitor_t *m, mono_t now) {
    bool fresh;
    bool open = session_open(&m->session, now, &fresh);
    if (fresh) monitor_reset_all(m);
    return open && session_check_alive(&m->session);
}

static mono_t monitor_next_time(monitor_t *m) {
    mono_t next = mono_min(m->safety_at, tasks_next(m->tasks, monitor_may_serve, m));
    for (size_t i = 0; i < m->keys->queue_count; i++) {
        lease_t lease;
        if (monitor_may_scan(m, i, &lease)) next = mono_min(next, scan_next(&m->scans[i]));
    }
    return next;
}

void monitor_tick(void *self, role_wait_t *wait) {
    monitor_t *m = self;
    bool needed = m->scans_any || tasks_count(m->tasks) > 0;
    if (!needed || !leadership_refresh(&m->leadership, monitor_reset, m)) {
        if (conn_is_open(m->session.data)) {
            session_close(&m->session);
            monitor_reset_all(m);
        }
        return; // until a lease begins
    }
    mono_t now = mono_now();
    if (mono_reached(m->session.retry_at, now) && monitor_connect(m, now)) monitor_work(m);
    session_wait(&m->session, monitor_next_time(m), wait);
}

void monitor_finish(void *self) {
    monitor_t *m = self;
    for (task_t *task = NULL; (task = tasks_leaving(m->tasks, task)) && conn_is_open(m->session.data);) {
        lease_t lease;
        redis_error_t error;
        if (!monitor_may_serve(m, task_queue(task), &lease)) continue;
        task_context_t context = {.conn = m->session.data, .token = lease.token};
        if (task_leave(m->tasks, task, &context, &error) == OUTCOME_OK) continue;
        log_warn(ROLE, NULL, "cannot release what the monitor holds in redis", F_STR("reason", error.text));
        return;
    }
}
