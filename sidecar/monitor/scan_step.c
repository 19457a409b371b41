#include "base/failpoint.h"
#include "base/log.h"
#include "monitor/internal.h"
#include "monitor/reports.h"

enum {
    STATUSES_MAX = 64, // queues in one request
    TURN_PAGES = 4,    // pages of one queue while other queues wait for their turn
};

static void monitor_drop_pages(monitor_t *m) {
    redis_error_t error;
    const call_t call = monitor_call(m, m->turn.queue, NULL, &error);
    pages_drop(m->pages, &call);
}

void monitor_reset_queue(void *self, size_t queue) {
    monitor_t *m = self;
    if (!monitor_serves(m, queue)) return;
    scan_reset(&m->scans[queue]);
    tasks_reset(&m->tasks, queue);
    if (m->turn.queue == queue) monitor_drop_pages(m);
    pages_forget(m->pages, queue);
}

void monitor_reset(void *self) {
    monitor_t *m = self;
    for (size_t i = 0; i < m->keys->queue_count; i++) monitor_reset_queue(m, i);
}

static void monitor_back_off(monitor_t *m, const redis_error_t *error) {
    session_back_off(&m->session, error);
    monitor_reset(m); // a new scan may begin anywhere in a list
}

bool monitor_serves(const monitor_t *m, size_t queue) { return m->keys->queues[queue].config->policy.roles & ROLE_MONITOR; }

bool monitor_may_serve(monitor_t *m, size_t queue, lease_t *lease) {
    return monitor_serves(m, queue) && leadership_may_serve(&m->leadership, queue, lease);
}

bool monitor_may_scan(monitor_t *m, size_t queue, lease_t *lease) {
    return m->scans[queue].ops && monitor_may_serve(m, queue, lease);
}

call_t monitor_call(monitor_t *m, size_t queue, const char *token, redis_error_t *error) {
    return (call_t){m->session.data, m->keys, queue, token, error};
}

apply_t monitor_apply(monitor_t *m, const call_t *call, const backup_page_t *page, bool from_tail) {
    return (apply_t){.call = call,
                     .scan = &m->scans[call->queue],
                     .buffers = m->buffers,
                     .pace = &m->pace,
                     .page = page,
                     .from_tail = from_tail};
}

bool monitor_handle_outcome(monitor_t *m, const call_t *call, uint64_t term) {
    switch (call->error->outcome) {
    case OUTCOME_OK: return true;
    case OUTCOME_REFUSED:
        scan_refused(&m->scans[call->queue], call->error, mono_now());
        session_suspect_tracking(&m->session);
        if (m->turn.queue == call->queue) monitor_drop_pages(m);
        return true;
    case OUTCOME_FENCED:
        leadership_fence(&m->leadership, call->queue, term);
        monitor_reset_queue(m, call->queue);
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

static size_t monitor_due_scans(monitor_t *m, size_t queues[STATUSES_MAX]) {
    mono_t now = mono_now();
    size_t count = 0;
    lease_t lease;
    for (size_t n = 0; n < m->keys->queue_count && count < STATUSES_MAX; n++) {
        size_t queue = (m->cursor + n) % m->keys->queue_count;
        const scan_t *scan = &m->scans[queue];
        if (scan->state == SCAN_WAIT && scan_wants(scan, now) && monitor_may_scan(m, queue, &lease)) queues[count++] = queue;
    }
    return count;
}

// Begins a scan or a search. False: it has no work and is over.
static bool monitor_begin(scan_t *scan, const backup_status_t *status, mono_t now) {
    bool search = scan_search_due(scan, now);
    scan_take_status(scan, status, now);
    return search ? scan_search_begin(scan, now) : scan_begin(scan, now);
}

bool monitor_begin_scans(monitor_t *m) {
    size_t queues[STATUSES_MAX];
    backup_status_t statuses[STATUSES_MAX];
    redis_error_t errors[STATUSES_MAX];
    call_t calls[STATUSES_MAX];
    size_t count = monitor_due_scans(m, queues);
    bool arm = m->session.tracking;
    if (count && !monitor_read_replies(m)) return false;
    for (size_t i = 0; i < count; i++) {
        calls[i] = monitor_call(m, queues[i], NULL, &errors[i]);
        pages_append_status(m->pages, &calls[i], &m->scans[queues[i]].status, arm);
    }
    for (size_t i = 0; i < count; i++)
        if (pages_read_status(m->pages, &calls[i], &m->scans[queues[i]].status, arm, &statuses[i]) == OUTCOME_DISCONNECTED) {
            monitor_back_off(m, &errors[i]);
            return false;
        }
    for (size_t i = 0; i < count; i++) {
        scan_t *scan = &m->scans[queues[i]];
        if (!monitor_handle_outcome(m, &calls[i], 0)) return false;
        scan->server_since = conn_server_since(m->session.data);
        if (errors[i].outcome != OUTCOME_OK || !monitor_begin(scan, &statuses[i], mono_now())) continue;
        reports_read(&calls[i], scan);
        if (!monitor_handle_outcome(m, &calls[i], 0)) return false;
    }
    return true;
}

static void monitor_look_at(monitor_t *m, const bool *waits, redis_error_t *worst) {
    for (size_t i = 0; i < m->keys->queue_count; i++)
        if (waits[i]) request_append(m->session.data, "HLEN", m->scans[i].config->errors);
    for (size_t i = 0; i < m->keys->queue_count; i++) {
        if (!waits[i]) continue;
        // A search follows each of the monitor's own writes to the hash, and reads the number again.
        bool changed = conn_read_int(m->session.data, m->scans[i].config->errors, worst) != m->scans[i].status.reports;
        if (changed) scan_changed(&m->scans[i], true, mono_now());
    }
}

bool monitor_look_for_reports(monitor_t *m) {
    mono_t now = mono_now();
    redis_error_t worst = {0};
    if (!m->session.tracking_refused || !mono_reached(m->look_at, now)) return true;
    if (!monitor_read_replies(m)) return false;
    m->look_at = mono_add(now, m->keys->config->dispatcher.blind_poll_ms * NS_PER_MS);
    bool *waits = mem_array(m->keys->queue_count, sizeof *waits);
    for (size_t i = 0; i < m->keys->queue_count; i++) {
        const scan_t *scan = &m->scans[i];
        lease_t lease;
        bool reports = scan_has_reports(scan) || scan_scans_for_reports(scan);
        waits[i] = reports && scan->state == SCAN_WAIT && monitor_may_scan(m, i, &lease);
    }
    monitor_look_at(m, waits, &worst);
    free(waits);
    if (worst.outcome == OUTCOME_OK || worst.outcome == OUTCOME_REFUSED) return true; // the scan reports a refusal
    monitor_back_off(m, &worst);
    return false;
}

static bool monitor_others_wait(monitor_t *m, size_t queue) {
    lease_t lease;
    for (size_t i = 0; i < m->keys->queue_count; i++)
        if (i != queue && m->scans[i].state != SCAN_WAIT && monitor_may_scan(m, i, &lease)) return true;
    return false;
}

static bool monitor_has_old_markers(const backup_page_t *page) {
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].kind == ENTRY_OLD_MARKER) return true;
    return false;
}

// In a page that was read without rotation, old markers stay. A removal would move the entries behind them.
static bool monitor_remove_old_markers(monitor_t *m, const call_t *call, const backup_page_t *page) {
    for (size_t i = 0; i < page->count; i++) {
        if (page->entries[i].kind != ENTRY_OLD_MARKER || page->in_place) continue;
        metric_add(&m->scans[call->queue].metrics->old_sentinels, 1);
        outcome_t outcome = backup_remove_marker(call, page->entries[i].bytes);
        if (!monitor_handle_outcome(m, call, m->turn.lease.term)) return false;
        if (outcome != OUTCOME_OK) break; // monitor_handle_outcome has dropped the page
    }
    return true;
}

bool monitor_handle_job_outcome(monitor_t *m, const call_t *call) {
    if (call->error->outcome == OUTCOME_REFUSED) {
        scan_note_refusal(&m->scans[call->queue], call->error);
        *call->error = (redis_error_t){0};
    }
    return monitor_handle_outcome(m, call, m->turn.lease.term);
}

// Judges one page. Reads the replies in flight before it carries out a verdict.
static bool monitor_apply_page(monitor_t *m, const call_t *call, const stamped_page_t *stamped) {
    scan_t *scan = &m->scans[call->queue];
    apply_t apply = monitor_apply(m, call, &stamped->page, stamped->page.in_place);
    scan->clock.now = stamped->now_us / 1000;
    apply.births_us = stamped->now_us;
    size_t count = apply_classify(&apply, &stamped->page, stamped->stamps, stamped->raws);
    bool old_markers = monitor_has_old_markers(&stamped->page);
    if (count || old_markers) {
        if (!monitor_read_replies(m)) return false;
        if (scan->state != SCAN_READ) return true; // a refusal has ended the scan
        *call->error = (redis_error_t){0};
        if (count) apply_verdicts(&apply, count);
        if (!monitor_handle_job_outcome(m, call)) return false;
        if (call->error->outcome != OUTCOME_OK) return true;
        if (old_markers && !monitor_remove_old_markers(m, call, &stamped->page)) return false;
        if (scan->state != SCAN_READ) return true;
    }
    pages_done(m->pages);
    m->turn.pages++;
    return true;
}

static bool monitor_read_jobs(monitor_t *m, const call_t *call) {
    scan_t *scan = &m->scans[call->queue];
    bool more = m->turn.pages < TURN_PAGES || !monitor_others_wait(m, call->queue);
    if (pages_request(m->pages, call, scan, more) != OUTCOME_OK) return monitor_handle_outcome(m, call, m->turn.lease.term);
    const stamped_page_t *stamped = pages_ready(m->pages);
    if (stamped) return monitor_apply_page(m, call, stamped);
    return !pages_in_flight(m->pages) || pages_read_reply(m->pages, call, scan) == OUTCOME_OK ||
           monitor_handle_outcome(m, call, m->turn.lease.term);
}

static bool monitor_push_marker(monitor_t *m, const call_t *call) {
    scan_t *scan = &m->scans[call->queue];
    bool pushed;
    const scan_pass_t *pass = scan_pass(scan);
    bool repeats = scan_note_repeats(scan); // a new marker makes all repeats old ones
    if ((pass->saw_marker && !repeats) || pass->in_place || scan->status.entries == 0) return true;
    failpoint("push_marker_before");
    backup_push_marker(call, &scan->status, &pushed);
    if (!monitor_handle_job_outcome(m, call)) return false;
    failpoint("push_marker_answered");
    if (pushed) metric_add(&scan->metrics->sentinels, 1);
    return true;
}

static bool monitor_end_scan(monitor_t *m, const call_t *call) {
    scan_t *scan = &m->scans[call->queue];
    if (!monitor_push_marker(m, call)) return false;
    if (scan->state == SCAN_WAIT) return true; // fenced: scan_reset has ended the scan
    bool reports_kept = scan_pass(scan)->reports_kept;
    scan_end(scan, mono_now());
    if (!reports_kept) reports_remove_orphans(call, scan);
    if (!monitor_handle_job_outcome(m, call)) return false;
    // Fenced: scan_reset has dropped the refusals.
    if (call->error->outcome != OUTCOME_FENCED) scan_apply_refusals(scan, mono_now());
    return true;
}

static bool monitor_prune_stamps(monitor_t *m, const call_t *call) {
    scan_t *scan = &m->scans[call->queue];
    failpoint("prune_before");
    outcome_t outcome = stamps_prune(call, &scan_pass(scan)->cursor, scan_keeps_stamp, scan);
    if (!monitor_handle_outcome(m, call, m->turn.lease.term)) return false;
    failpoint("prune_answered");
    if (outcome != OUTCOME_OK || scan_pass(scan)->cursor) return true;
    return monitor_end_scan(m, call);
}

bool monitor_step_scan(monitor_t *m) {
    scan_t *scan = &m->scans[m->turn.queue];
    redis_error_t error;
    const call_t call = monitor_call(m, m->turn.queue, m->turn.lease.token, &error);
    if (scan->state == SCAN_PRUNE) return monitor_prune_stamps(m, &call);
    if (!monitor_read_jobs(m, &call)) return false;
    if (scan->state != SCAN_READ || !pages_empty(m->pages) || scan_entries_wanted(scan)) return true;
    return scan_all_read(scan) || monitor_end_scan(m, &call);
}

bool monitor_next_turn(monitor_t *m) {
    monitor_turn_t *turn = &m->turn;
    if (!pages_empty(m->pages) && monitor_may_scan(m, turn->queue, &turn->lease)) return true;
    for (size_t n = 0; n < m->keys->queue_count; n++) {
        size_t queue = (m->cursor + n) % m->keys->queue_count;
        lease_t lease;
        if (m->scans[queue].state == SCAN_WAIT || !scan_wants(&m->scans[queue], mono_now())) continue;
        if (!monitor_may_scan(m, queue, &lease)) continue;
        m->cursor = (queue + 1) % m->keys->queue_count;
        if (!pages_empty(m->pages)) scan_abandon(&m->scans[turn->queue]); // its lease has ended meanwhile
        monitor_drop_pages(m);
        *turn = (monitor_turn_t){.queue = queue, .lease = lease};
        return true;
    }
    return false;
}
