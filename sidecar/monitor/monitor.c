#include "monitor/monitor.h"

#include "base/buffer.h"
#include "base/digest.h"
#include "base/log.h"
#include "monitor/internal.h"

enum { TICK_MS = 100 }; // a longer tick returns, because a tick refreshes the leases only when it begins

static const char ROLE[] = "monitor";

static void monitor_on_change(void *self, const char *key, size_t len) {
    monitor_t *m = self;
    mono_t now = mono_now();
    tasks_changed(&m->tasks, key, len);
    for (size_t i = 0; !key && i < m->keys->queue_count; i++) scan_changed(&m->scans[i], true, now);
    if (!key) return;
    digest_t digest = digest_of(key, len);
    const int64_t *found = keymap_find(&m->by_key, digest.bytes);
    if (found) scan_changed(&m->scans[(*found - 1) / 2], *found % 2 == 0, now);
}

static void monitor_on_message(void *self, const char *channel, slice_t message) {
    tasks_on_message(&((monitor_t *)self)->tasks, channel, message);
}

static const session_ops_t SESSION = {.role = ROLE,
                                      .data_name = "queue-sidecar-monitor",
                                      .subscriber_name = "queue-sidecar-monitor-subscriber",
                                      .reset = monitor_reset,
                                      .on_change = monitor_on_change,
                                      .on_message = monitor_on_message};

static void monitor_track(monitor_t *m, const char *key, size_t value) {
    digest_t digest = digest_of(key, strlen(key));
    *keymap_put(&m->by_key, digest.bytes) = (int64_t)value;
}

static void monitor_add_queue(monitor_t *m, size_t queue) {
    const queue_config_t *config = m->keys->queues[queue].config;
    const dialect_ops_t *ops = dialect_ops(config->dialect);
    const scan_ops_t *scan = m->scans[queue].ops;
    for (size_t i = 0; ops->side_tasks[i]; i++) monitor_add_task(m, queue, ops->side_tasks[i]);
    if (!scan) return;
    m->scans_any = true;
    if (scan->reports) monitor_track(m, config->errors, 2 * queue + 2);
    if (!scan->rotation) return;
    monitor_track(m, config->backup, 2 * queue + 1);
    if (scan->rotation->reports) monitor_track(m, config->errors, 2 * queue + 2);
}

monitor_t *monitor_new(const keyspace_t *keys, shard_t *shard, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    monitor_t *m = mem_alloc(sizeof *m);
    m->keys = keys;
    m->stop = stop;
    session_init(&m->session, &SESSION, m, shard, metrics, stop);
    leadership_init(&m->leadership, ROLE, leases);
    m->scans = mem_array(keys->queue_count, sizeof *m->scans);
    m->buffers = apply_buffers_new();
    m->pages = pages_new(keys);
    m->search = mem_alloc(sizeof *m->search);
    tasks_init(&m->tasks, keys);
    for (size_t i = 0; i < keys->queue_count; i++) {
        const queue_config_t *queue = keys->queues[i].config;
        if (!monitor_serves(m, i)) continue; // the pages of its scan stay untouched, so they cost no memory
        scan_init(&m->scans[i], queue, metrics_queue(metrics, queue->name), keys->config->monitor.scan_interval_ms,
                  keys->config->monitor.rotation);
        monitor_add_queue(m, i);
    }
    return m;
}

void monitor_add_task(monitor_t *m, size_t queue, const side_task_ops_t *ops) {
    tasks_add(&m->tasks, queue, ops, m->scans[queue].metrics, m->scans[queue].interval_ms);
    session_subscribe(&m->session, m->tasks.channels.names, m->tasks.channels.count);
}

void monitor_free(monitor_t *m) {
    if (!m) return;
    tasks_free(&m->tasks);
    for (size_t i = 0; i < m->keys->queue_count; i++) scan_free(&m->scans[i]);
    pages_free(m->pages);
    backup_page_clear(&m->search->page);
    free(m->search);
    session_free(&m->session);
    apply_buffers_free(m->buffers);
    free(m->scans);
    keymap_free(&m->by_key);
    leadership_free(&m->leadership);
    free(m);
}

// Side tasks and scans take turns. *worked: a side task made a step. False: the connection is unusable for now.
static bool monitor_step_task(monitor_t *m, bool *worked) {
    lease_t lease;
    redis_error_t error;
    mono_t now = mono_now();
    size_t count = m->tasks.count ? m->keys->queue_count : 0, queue = 0, n = 0;
    for (; n < count; n++) {
        queue = (m->task_cursor + n) % count;
        if (mono_reached(task_due(&m->tasks.of_queue[queue]), now) && monitor_may_serve(m, queue, &lease)) break;
    }
    if (n == count) return true;
    *worked = true;
    m->task_cursor = queue + 1;
    if (!monitor_read_replies(m)) return false;
    const call_t call = monitor_call(m, queue, lease.token, &error);
    tasks_step(&m->tasks, &call, m->session.tracking);
    if (!mono_reached(m->tasks.of_queue[queue].blocked_until, mono_now())) session_suspect_tracking(&m->session);
    return monitor_handle_outcome(m, &call, lease.term);
}

static void monitor_safety(monitor_t *m, mono_t now) {
    if (!mono_reached(m->safety_at, now)) return;
    m->safety_at = mono_add(now, SCAN_SAFETY_S * NS_PER_S);
    for (size_t i = 0; i < m->keys->queue_count; i++) scan_safety(&m->scans[i], now);
    tasks_changed(&m->tasks, NULL, 0);
}

static bool monitor_step(monitor_t *m) {
    return m->scans[m->turn.queue].state == SCAN_SEARCH ? monitor_step_search(m) : monitor_step_scan(m);
}

static void monitor_work(monitor_t *m) {
    mono_t started = mono_now();
    monitor_safety(m, started);
    if (!monitor_look_for_reports(m)) return;
    while (!atomic_load(m->stop) && mono_diff(mono_now(), started) < TICK_MS * NS_PER_MS) {
        if (!session_read_messages(&m->session) || !monitor_begin_scans(m)) break;
        bool worked = monitor_next_turn(m);
        if (worked && !monitor_step(m)) break;
        if (!monitor_step_task(m, &worked) || !worked) break;
    }
    (void)monitor_read_replies(m);
}

static mono_t monitor_next_time(monitor_t *m) {
    mono_t now = mono_now(), next = m->session.tracking_refused ? mono_min(m->safety_at, m->look_at) : m->safety_at;
    for (size_t i = 0; i < m->keys->queue_count; i++) {
        lease_t lease;
        const scan_t *scan = &m->scans[i];
        const task_t *task = &m->tasks.of_queue[i];
        mono_t due = mono_min(task_due(task), scan->ops ? scan_next(scan) : mono_never());
        if (due.ns < next.ns && monitor_may_serve(m, i, &lease)) next = due;
        if (!mono_reached(mono_max(scan->timer.blocked_until, task->blocked_until), now))
            lease_note_refusal(m->leadership.leases, i);
    }
    return next;
}

void monitor_tick(void *self, role_wait_t *wait) {
    monitor_t *m = self;
    bool needed = m->scans_any || m->tasks.count > 0;
    if (!needed || !leadership_refresh(&m->leadership, monitor_reset_queue, m)) {
        session_close(&m->session);
        return; // the role waits until a lease begins
    }
    if (session_ready(&m->session)) monitor_work(m);
    session_wait(&m->session, monitor_next_time(m), wait);
}

void monitor_finish(void *self) {
    monitor_t *m = self;
    for (size_t i = 0; i < m->keys->queue_count && conn_is_open(m->session.data); i++) {
        lease_t lease;
        redis_error_t error;
        if (!monitor_may_serve(m, i, &lease)) continue;
        const call_t call = monitor_call(m, i, lease.token, &error);
        if (tasks_leave(&m->tasks, &call) == OUTCOME_OK) continue;
        log_warn(ROLE, NULL, "cannot release the monitor's keys in redis", F_STR("reason", error.text));
        return;
    }
}
