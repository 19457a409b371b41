#include "monitor/monitor.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "monitor/apply.h"
#include "monitor/pages.h"
#include "monitor/reports.h"
#include "monitor/scan.h"
#include "monitor/tasks.h"
#include "role/leadership.h"
#include "role/session.h"

enum {
    TICK_MS = 100,    // a tick comes up for air at least this often
    LOOKS_CHUNK = 64, // queues that are looked at in one request
    TURN_PAGES = 4,   // that a queue gets while others wait for their turn
};

static const char ROLE[] = "monitor";

// A wake-up names a key; here is whose it is.
typedef struct watched {
    const char *key;
    size_t queue;
    bool errors;
} watched_t;

struct monitor {
    const keyspace_t *keys;
    metrics_t *metrics;
    const atomic_bool *stop;
    session_t session;
    scan_t *scans;
    watched_t *watched; // sorted by key
    size_t watched_count;
    bool any; // queues that passes are made of
    leadership_t leadership;
    size_t cursor;    // whose turn it is
    mono_t safety_at; // when idle queues are looked at
    apply_buffers_t *buffers;
    tasks_t *tasks;
    pages_t *pages;      // of one pass
    size_t paged_queue;  // the queue that they are of
    unsigned turn_pages; // pages that were judged since its turn began
};

static const dialect_ops_t *monitor_ops(const keyspace_t *keys, size_t queue) {
    return dialect_ops(keys->queues[queue].config->dialect);
}

static int monitor_compare_watched(const void *a, const void *b) {
    return strcmp(((const watched_t *)a)->key, ((const watched_t *)b)->key);
}

monitor_t *monitor_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    static const char *const NAMES[] = {"queue-sidecar-monitor", "queue-sidecar-monitor-ear"};
    monitor_t *m = mem_alloc(sizeof *m);
    m->keys = keys;
    m->metrics = metrics;
    m->stop = stop;
    session_init(&m->session, ROLE, NAMES, &keys->config->redis, metrics, stop);
    m->scans = mem_array(keys->queue_count, sizeof *m->scans);
    m->watched = mem_array(keys->queue_count, 2 * sizeof *m->watched);
    leadership_init(&m->leadership, ROLE, keys, leases);
    m->buffers = apply_buffers_new();
    m->pages = pages_new(keys);
    m->tasks = tasks_new(keys);
    for (size_t i = 0; i < keys->queue_count; i++) {
        const queue_config_t *queue = keys->queues[i].config;
        scan_init(&m->scans[i], queue, metrics_queue(metrics, queue->name), keys->config->monitor.scan_interval_ms);
        if (!(queue->policy.roles & ROLE_MONITOR)) continue;
        const dialect_ops_t *ops = monitor_ops(keys, i);
        if (ops->side_task) monitor_add_task(m, i, ops->side_task);
        if (!ops->pass) continue;
        m->any = true;
        if (ops->pass->rotation) m->watched[m->watched_count++] = (watched_t){queue->backup, i, false};
        if (ops->pass->rotation && ops->pass->rotation->reports)
            m->watched[m->watched_count++] = (watched_t){queue->errors, i, true};
    }
    qsort(m->watched, m->watched_count, sizeof *m->watched, monitor_compare_watched);
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
    free(m->watched);
    leadership_free(&m->leadership);
    free(m);
}

static void monitor_reset_all(monitor_t *m) {
    pages_drop(m->pages, m->session.data);
    for (size_t i = 0; i < m->keys->queue_count; i++) {
        scan_reset(&m->scans[i]);
        pages_forget(m->pages, i);
    }
    tasks_reset_all(m->tasks);
}

// The pages in hand, if they are of this queue, whose pass does not go on.
static void monitor_drop_pages(monitor_t *m, size_t queue) {
    if (m->paged_queue == queue) pages_drop(m->pages, m->session.data);
}

static void monitor_reset(monitor_t *m, size_t queue) {
    scan_reset(&m->scans[queue]);
    tasks_reset(m->tasks, queue);
    monitor_drop_pages(m, queue);
    pages_forget(m->pages, queue);
}

static void monitor_back_off(monitor_t *m, const redis_error_t *error) {
    session_back_off(&m->session, error);
    // A pass that was under way is not gone on with: the next one begins where the list stands.
    monitor_reset_all(m);
}

static void monitor_on_term(void *self, size_t queue) { monitor_reset(self, queue); }

static bool monitor_may_serve(void *self, size_t queue, lease_t *lease) {
    monitor_t *m = self;
    return (m->scans[queue].config->policy.roles & ROLE_MONITOR) && leadership_may_serve(&m->leadership, queue, lease);
}

// The same for passes, which not every dialect has.
static bool monitor_may_scan(monitor_t *m, size_t queue, lease_t *lease) {
    return monitor_ops(m->keys, queue)->pass && monitor_may_serve(m, queue, lease);
}

static void monitor_fence(monitor_t *m, size_t queue, const lease_t *lease) {
    leadership_fence(&m->leadership, queue, lease->term);
    monitor_reset(m, queue);
}

static int monitor_compare_key(const void *key, const void *watched) { return strcmp(key, ((const watched_t *)watched)->key); }

static void monitor_on_change(void *self, const char *key, size_t len) {
    monitor_t *m = self;
    mono_t now = mono_now();
    tasks_changed(m->tasks, key, len);
    for (size_t i = 0; !key && i < m->keys->queue_count; i++) scan_changed(&m->scans[i], true, now);
    if (!key || strlen(key) != len) return;
    const watched_t *found = bsearch(key, m->watched, m->watched_count, sizeof *m->watched, monitor_compare_key);
    if (found) scan_changed(&m->scans[found->queue], found->errors, now);
}

static call_t call_of(monitor_t *m, size_t queue, const lease_t *lease, redis_error_t *error) {
    return (call_t){m->session.data, m->keys, queue, lease ? lease->token : NULL, error};
}

// What is to be done with the outcome of a request for one queue. `lease` may be NULL where the request is not fenced. False:
// nothing more can be asked now.
static bool monitor_handle_outcome(monitor_t *m, const call_t *call, const lease_t *lease) {
    switch (call->error->outcome) {
    case OUTCOME_OK: return true;
    case OUTCOME_REFUSED:
        scan_refused(&m->scans[call->queue], call->error->text, mono_now());
        monitor_drop_pages(m, call->queue);
        return true;
    case OUTCOME_FENCED: monitor_fence(m, call->queue, lease); return true;
    default: monitor_back_off(m, call->error); return false;
    }
}

// Reads what is under way of the pages in hand, so that something else can be asked.
static bool monitor_read_replies(monitor_t *m) {
    redis_error_t error;
    const call_t call = call_of(m, m->paged_queue, NULL, &error);
    return pages_read_all(m->pages, &call, &m->scans[m->paged_queue]) == OUTCOME_OK || monitor_handle_outcome(m, &call, NULL);
}

static size_t monitor_looks_wanted(monitor_t *m, size_t asked[LOOKS_CHUNK], mono_t now) {
    size_t count = 0;
    lease_t lease;
    for (size_t n = 0; n < m->keys->queue_count && count < LOOKS_CHUNK; n++) {
        size_t queue = (m->cursor + n) % m->keys->queue_count;
        const scan_t *scan = &m->scans[queue];
        if (scan->phase == SCAN_WAIT && scan_wants(scan, now) && monitor_may_scan(m, queue, &lease)) asked[count++] = queue;
    }
    return count;
}

// Looks at every queue whose pass should begin, in one request, and begins those that have something to do.
static bool monitor_begin_scans(monitor_t *m, mono_t now) {
    size_t asked[LOOKS_CHUNK];
    backup_look_t looks[LOOKS_CHUNK];
    redis_error_t errors[LOOKS_CHUNK];
    call_t calls[LOOKS_CHUNK];
    size_t count = monitor_looks_wanted(m, asked, now);
    if (count && !monitor_read_replies(m)) return false;
    for (size_t i = 0; i < count; i++) {
        calls[i] = call_of(m, asked[i], NULL, &errors[i]);
        pages_append_look(m->pages, &calls[i], &m->scans[asked[i]].look, m->session.tracking);
    }
    for (size_t i = 0; i < count; i++)
        if (pages_read_look(m->pages, &calls[i], &m->scans[asked[i]].look, m->session.tracking, &looks[i]) ==
            OUTCOME_DISCONNECTED) {
            monitor_back_off(m, &errors[i]);
            return false;
        }
    for (size_t i = 0; i < count; i++) {
        scan_t *scan = &m->scans[asked[i]];
        if (!monitor_handle_outcome(m, &calls[i], NULL)) return false;
        if (errors[i].outcome != OUTCOME_OK || !scan_begin(scan, &looks[i], mono_now())) continue;
        monitor_reports_read(&calls[i], scan);
        if (!monitor_handle_outcome(m, &calls[i], NULL)) return false;
    }
    return true;
}

static bool monitor_others_wait(monitor_t *m, size_t queue) {
    lease_t lease;
    for (size_t i = 0; i < m->keys->queue_count; i++)
        if (i != queue && m->scans[i].phase != SCAN_WAIT && monitor_may_scan(m, i, &lease)) return true;
    return false;
}

// Sentinels of earlier passes, which somebody left behind. Read without rotation they stay: a removal would move what is behind.
static bool monitor_remove_old_sentinels(monitor_t *m, const call_t *call, const backup_page_t *page) {
    for (size_t i = 0; i < page->count; i++) {
        if (page->entries[i].kind != ENTRY_OLD_SENTINEL || page->standing) continue;
        metric_add(&m->scans[call->queue].metrics->old_sentinels, 1);
        outcome_t outcome = backup_remove_sentinel(call, page->entries[i].bytes);
        if (!monitor_handle_outcome(m, call, NULL)) return false;
        if (outcome != OUTCOME_OK) break; // and the page is gone
    }
    return true;
}

static bool monitor_has_old_sentinels(const backup_page_t *page) {
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].kind == ENTRY_OLD_SENTINEL) return true;
    return false;
}

// What is refused about one job, by a key of the wrong type, say, must not keep those behind it from their turn, nor the pass
// from its end, without which nothing is ended in a long list. So it goes on, and the refusal is told at its end.
static void monitor_note_refused(scan_t *scan, redis_error_t *error) {
    if (error->outcome != OUTCOME_REFUSED) return;
    if (!scan->refused) scan->refused = mem_str(error->text);
    *error = (redis_error_t){0};
}

// Judges one page. Where something must be done about it, what is under way is read first.
static bool apply(monitor_t *m, const call_t *call, const lease_t *lease, const stamped_page_t *stamped) {
    scan_t *scan = &m->scans[call->queue];
    apply_t apply = {.call = call,
                     .scan = scan,
                     .ops = monitor_ops(m->keys, call->queue),
                     .buffers = m->buffers,
                     .standing = stamped->page.standing};
    scan->now = stamped->now;
    size_t count = apply_classify(&apply, &stamped->page, stamped->stamps, stamped->raws);
    bool old = monitor_has_old_sentinels(&stamped->page);
    if (count || old) {
        if (!monitor_read_replies(m)) return false;
        if (scan->phase != SCAN_ROTATE) return true; // at fault
        *call->error = (redis_error_t){0};
        if (count) apply_verdicts(&apply, count);
        monitor_note_refused(scan, call->error);
        if (!monitor_handle_outcome(m, call, lease)) return false;
        if (call->error->outcome != OUTCOME_OK) return true;
        if (old && !monitor_remove_old_sentinels(m, call, &stamped->page)) return false;
        if (scan->phase != SCAN_ROTATE) return true;
    }
    pages_done(m->pages);
    m->turn_pages++;
    return true;
}

// One step of a pass: judges the oldest page in hand, or waits for it.
static bool monitor_rotate(monitor_t *m, const call_t *call, const lease_t *lease) {
    scan_t *scan = &m->scans[call->queue];
    bool more = m->turn_pages < TURN_PAGES || !monitor_others_wait(m, call->queue);
    if (pages_request(m->pages, call, scan, more) != OUTCOME_OK) return monitor_handle_outcome(m, call, lease);
    const stamped_page_t *stamped = pages_ready(m->pages);
    if (stamped) return apply(m, call, lease, stamped);
    if (pages_in_flight(m->pages) && pages_read_reply(m->pages, call, scan) != OUTCOME_OK)
        return monitor_handle_outcome(m, call, lease);
    return true;
}

static bool push_sentinel(monitor_t *m, const call_t *call, const lease_t *lease) {
    scan_t *scan = &m->scans[call->queue];
    bool pushed;
    if (scan->met_sentinel || scan->read_only || scan->look.entries == 0) return true;
    failpoint("plant_before");
    backup_push_sentinel(call, &scan->look, &pushed);
    monitor_note_refused(scan, call->error);
    if (!monitor_handle_outcome(m, call, lease)) return false;
    failpoint("plant_answered");
    if (pushed) metric_add(&scan->metrics->sentinels, 1);
    return true;
}

static bool monitor_drop_orphan_reports(monitor_t *m, const call_t *call, const lease_t *lease) {
    scan_t *scan = &m->scans[call->queue];
    monitor_reports_drop(call, scan);
    monitor_note_refused(scan, call->error);
    return monitor_handle_outcome(m, call, lease);
}

// Where the term turns out to be over the pass is forgotten, and nothing is known of what was refused.
static bool monitor_end_scan(monitor_t *m, const call_t *call, const lease_t *lease) {
    scan_t *scan = &m->scans[call->queue];
    if (!push_sentinel(m, call, lease)) return false;
    if (scan->phase == SCAN_WAIT) return true;
    scan_end(scan, mono_now());
    if (!monitor_drop_orphan_reports(m, call, lease)) return false;
    if (scan->passes) scan_log_refusals(scan, mono_now());
    return true;
}

static bool prune_stamps(monitor_t *m, const call_t *call, const lease_t *lease) {
    scan_t *scan = &m->scans[call->queue];
    failpoint("sweep_before");
    outcome_t outcome = stamps_prune(call, &scan->cursor, scan_keeps_stamp, scan);
    if (!monitor_handle_outcome(m, call, lease)) return false;
    failpoint("sweep_answered");
    if (outcome != OUTCOME_OK || scan->cursor) return true;
    return monitor_end_scan(m, call, lease);
}

// One step of the pass of one queue. Pages are of one queue, so its turn lasts until its pages are judged.
static bool monitor_step(monitor_t *m, size_t queue, const lease_t *lease) {
    scan_t *scan = &m->scans[queue];
    redis_error_t error;
    const call_t call = call_of(m, queue, lease, &error);
    if (scan->phase == SCAN_PRUNE) return prune_stamps(m, &call, lease);
    if (!monitor_rotate(m, &call, lease)) return false;
    if (scan->phase != SCAN_ROTATE || scan_entries_wanted(scan) || !pages_empty(m->pages)) return true;
    return scan_all_read(scan) || monitor_end_scan(m, &call, lease);
}

// The queue whose pass goes on now: the one whose pages are in hand, or the next in turn.
static bool monitor_next_queue(monitor_t *m, size_t *queue, lease_t *lease) {
    size_t count = m->keys->queue_count;
    if (!pages_empty(m->pages) && m->scans[m->paged_queue].phase == SCAN_ROTATE && monitor_may_scan(m, m->paged_queue, lease)) {
        *queue = m->paged_queue;
        return true;
    }
    for (size_t n = 0; n < count; n++) {
        *queue = (m->cursor + n) % count;
        if (m->scans[*queue].phase == SCAN_WAIT || !scan_wants(&m->scans[*queue], mono_now())) continue;
        if (!monitor_may_scan(m, *queue, lease)) continue;
        m->cursor = (*queue + 1) % count;
        pages_drop(m->pages, m->session.data);
        m->paged_queue = *queue;
        m->turn_pages = 0;
        return true;
    }
    return false;
}

// One step of a watch, whose turn comes beside that of a pass. False: nothing more can be asked now. *worked: there was one.
static bool monitor_step_task(monitor_t *m, bool *worked) {
    lease_t lease;
    redis_error_t error;
    task_t *next = tasks_turn(m->tasks, monitor_may_serve, m, mono_now(), &lease);
    if (!next) return true;
    *worked = true;
    if (!monitor_read_replies(m)) return false;
    task_context_t with = {.conn = m->session.data, .token = lease.token, .arm = m->session.tracking};
    task_step(m->tasks, next, &with, &error);
    const call_t call = call_of(m, task_queue(next), &lease, &error);
    return monitor_handle_outcome(m, &call, &lease);
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
        size_t queue;
        lease_t lease;
        if (!session_read_messages(&m->session, monitor_on_change, m) || !monitor_begin_scans(m, mono_now())) break;
        bool worked = monitor_next_queue(m, &queue, &lease);
        if (worked && !monitor_step(m, queue, &lease)) break;
        if (!monitor_step_task(m, &worked) || !worked) break;
    }
    (void)monitor_read_replies(m);
}

static bool monitor_connect(monitor_t *m, mono_t now) {
    bool fresh;
    bool open = session_open(&m->session, now, &fresh);
    if (fresh) monitor_reset_all(m);
    return open;
}

static mono_t monitor_next_time(monitor_t *m) {
    mono_t next = mono_min(m->safety_at, tasks_next(m->tasks, monitor_may_serve, m));
    for (size_t i = 0; i < m->keys->queue_count; i++) {
        lease_t lease;
        if (monitor_may_scan(m, i, &lease)) next = mono_min(next, scan_next(&m->scans[i]));
    }
    if (!m->session.tracking) next = mono_min(next, m->session.tracking_retry_at);
    return mono_max(next, m->session.retry_at);
}

void monitor_tick(void *self, role_wait_t *wait) {
    monitor_t *m = self;
    bool idle = !m->any && tasks_count(m->tasks) == 0; // the dispatcher alone serves these queues
    if (idle || !leadership_refresh(&m->leadership, monitor_on_term, m)) {
        if (conn_is_open(m->session.data)) {
            session_close(&m->session);
            monitor_reset_all(m);
        }
        return; // the lease wakes us
    }
    mono_t now = mono_now();
    if (mono_reached(m->session.retry_at, now) && monitor_connect(m, now) && session_check_alive(&m->session)) monitor_work(m);
    wait->until = monitor_next_time(m);
    // While we are put off nothing is read, and a socket with news would end every wait at once.
    if (role_backing_off(wait, m->session.retry_at)) return;
    role_wait_fd(wait, conn_fd(m->session.data));
    if (m->session.tracking) role_wait_fd(wait, conn_fd(m->session.subscriber));
}

void monitor_finish(void *self) {
    monitor_t *m = self;
    for (task_t *last = NULL; (last = tasks_leaving(m->tasks, last)) && conn_is_open(m->session.data);) {
        lease_t lease;
        redis_error_t error;
        if (!monitor_may_serve(m, task_queue(last), &lease)) continue;
        task_context_t with = {.conn = m->session.data, .token = lease.token};
        if (task_leave(m->tasks, last, &with, &error) == OUTCOME_OK) continue;
        log_warn(ROLE, NULL, "what the monitor holds in redis could not be given back", F_STR("reason", error.text));
        return;
    }
}
