#include "monitor/scan/scan.h"

#include "base/buffer.h"
#include "base/log.h"

enum {
    PAGE_FIRST = 8,            // entries of the first request
    ROTATED_BYTES = 16 * 1024, // a list of entries this large on average is rotated at any length
    EMPTY_SCANS = 2,           // after this many empty scans, prune the stamps of finished jobs and wait for a change
    INTERVAL_MIN_MS = 1000,    // shortest interval of scan_interval "auto"
    INTERVAL_MAX_MS = 60000,
    INTERVAL_SHARE = 10,           // scans in one protected timeout, with "auto"
    REPORTS_PAUSE_BYTES = 1024,    // after a read: 1 ms of pause for this many bytes of large reports
    REPORTS_PAUSE_MAX_MS = 600000, // longest time between two reads
    TOGETHER_MS = 10,              // a scan waits so long after a timeout: workers took more jobs shortly after
    DATES_MAX = 1000,              // jobs in scan_dates_t
    REPORT_SCANS_SHARE = 3,        // after a scan, so many times as long without a scan that only reports ask for
};

static const char ROLE[] = "monitor";

static int64_t scan_auto_interval_ms(const queue_config_t *config) {
    int64_t interval_ms = config->policy.protected_timeout_ms / INTERVAL_SHARE;
    if (interval_ms < INTERVAL_MIN_MS) return INTERVAL_MIN_MS;
    return interval_ms < INTERVAL_MAX_MS ? interval_ms : INTERVAL_MAX_MS;
}

void scan_init(scan_t *scan, const queue_config_t *config, metrics_queue_t *metrics, int64_t scan_interval_ms, int64_t rotation) {
    *scan = (scan_t){
        .config = config, .ops = dialect_scan(config), .metrics = metrics, .interval_ms = scan_interval_ms, .rotation = rotation};
    if (scan_interval_ms == 0) scan->interval_ms = scan_auto_interval_ms(config);
    scan_reset(scan);
}

static void scan_forget_jobs(scan_t *scan) {
    duplicates_free(&scan->duplicates);
    workers_free(&scan->workers);
    report_table_free(&scan->reports);
}

static void scan_forget_refusals(scan_t *scan) {
    free(scan->refusals.first);
    free(scan->refusals.blocked);
    scan->refusals = (scan_refusals_t){.condition = scan->refusals.condition};
}

void scan_free(scan_t *scan) {
    scan_forget_jobs(scan);
    scan_forget_refusals(scan);
    condition_free(&scan->refusals.condition);
    buffer_free(&scan->status.marker);
    *scan = (scan_t){0};
}

void scan_enter(scan_t *scan, scan_state_t state) {
    static const bool ALLOWED[][4] = {
        [SCAN_WAIT] = {[SCAN_READ] = true, [SCAN_SEARCH] = true},
        [SCAN_READ] = {[SCAN_PRUNE] = true, [SCAN_WAIT] = true},
        [SCAN_SEARCH] = {[SCAN_WAIT] = true},
        [SCAN_PRUNE] = {[SCAN_WAIT] = true},
    };
    assert(ALLOWED[scan->state][state]);
    scan->state = state;
    if (state != SCAN_PRUNE) memset(&scan->of, 0, sizeof scan->of); // a scan keeps its counts while it prunes
}

static void scan_break_off(scan_t *scan) {
    if (scan->state != SCAN_WAIT) scan_enter(scan, SCAN_WAIT);
}

void scan_abandon(scan_t *scan) {
    scan_break_off(scan);
    scan->timer.changed = true;
    scan->timer.next = (mono_t){0};
}

// A scan that was broken off, or may have missed jobs, tells nothing.
static void scan_note_anomalies(const scan_t *scan, const scan_pass_t *pass) {
    if (pass->incomplete) return;
    anomaly_set(scan->metrics, ANOMALY_large_in_progress, pass->oversized, scan->clock.now);
    anomaly_set(scan->metrics, ANOMALY_endless_heartbeats, pass->endless_heartbeats, scan->clock.now);
    if (pass->undated && scan->dates.undated > scan->dates.dated)
        anomaly_add(scan->metrics, ANOMALY_undated_jobs, pass->undated, scan->clock.now);
}

void scan_note_date(scan_t *scan, bool undated) {
    if (scan->state != SCAN_READ) return;
    scan_pass(scan)->undated += undated;
    *(undated ? &scan->dates.undated : &scan->dates.dated) += 1;
    if (scan->dates.dated + scan->dates.undated <= DATES_MAX) return;
    scan->dates.dated /= 2;
    scan->dates.undated /= 2;
}

void scan_reset(scan_t *scan) {
    scan_forget_jobs(scan);
    scan_forget_refusals(scan);
    scan_break_off(scan);
    scan->completed = 0;
    scan->timer = (scan_timer_t){.began = scan->timer.began, .search = mono_never(), .changed = true};
    scan->clock = (scan_clock_t){0};
    scan->page_size = (scan_page_size_t){.entries = PAGE_FIRST};
    metric_set(&scan->metrics->in_progress_since_ms, 0);
    scan_note_anomalies(scan, &(scan_pass_t){0});
}

// The time between two scans that a change of the list or a report asks for.
static int64_t scan_apart_ns(const scan_t *scan) {
    return (scan->interval_ms < INTERVAL_MIN_MS ? scan->interval_ms : INTERVAL_MIN_MS) * NS_PER_MS;
}

// A list in use changes all the time. So a change of the list begins a scan only of an idle queue, at most once a second. A
// report begins a search, or a scan of an idle queue, whose list is short.
void scan_changed(scan_t *scan, bool report, mono_t now) {
    scan_timer_t *timer = &scan->timer;
    if (report) timer->changed = true;
    if (scan->state != SCAN_WAIT || (!timer->idle && !report)) return;
    mono_t soon = timer->idle ? now : scan_scans_for_reports(scan) ? timer->report_scan : timer->earliest;
    if (!report) soon = mono_add(timer->began, scan_apart_ns(scan));
    mono_t *at = report && !timer->idle && scan_has_reports(scan) ? &timer->search : &timer->next;
    *at = mono_min(*at, mono_max(soon, now));
}

void scan_safety(scan_t *scan, mono_t now) {
    if (scan->timer.idle) scan->timer.next = mono_min(scan->timer.next, now);
}

// Redis needs some 4 ms for each MiB of a report, and every client waits meanwhile. Read large reports again after a pause that
// is some 250 times as long.
mono_t scan_reports_due(const scan_t *scan) {
    int64_t pause_ms = scan->reports.large_bytes / REPORTS_PAUSE_BYTES;
    if (pause_ms > REPORTS_PAUSE_MAX_MS) pause_ms = REPORTS_PAUSE_MAX_MS;
    return mono_add(scan->timer.reports_read, pause_ms * NS_PER_MS);
}

void scan_log_refusal(condition_t *refused, const char *queue, const redis_error_t *error) {
    condition_change_t change = condition_update_reason(refused, error ? error->text : NULL);
    if (change == CONDITION_BEGAN && error)
        LOG_AT(error_kind_is_slot(error->kind) ? LOG_INFO : LOG_ERROR, ROLE, queue, "redis refuses the monitor",
               F_STR("reason", error->text));
    if (change == CONDITION_ENDED) log_info(ROLE, queue, "redis accepts the monitor's requests again");
}

void scan_refused(scan_t *scan, const redis_error_t *error, mono_t now) {
    scan_log_refusal(&scan->refusals.condition, scan->config->name, error);
    metrics_refused(scan->metrics, mono_now());
    scan_break_off(scan);
    scan->timer.changed = true;
    scan->timer.blocked_until = scan->timer.next = mono_add(now, error_kind_pause_ms(error->kind, SCAN_REFUSED_MS) * NS_PER_MS);
}

void scan_note_refusal(scan_t *scan, const redis_error_t *error) {
    if (scan->refusals.first) return;
    scan->refusals.first = mem_alloc(sizeof *error);
    *scan->refusals.first = *error;
}

void scan_apply_refusals(scan_t *scan, mono_t now) {
    if (scan->refusals.first)
        scan_refused(scan, scan->refusals.first, now);
    else
        scan_log_refusal(&scan->refusals.condition, scan->config->name, NULL);
    scan_forget_refusals(scan);
}

void scan_block(scan_t *scan, bool retries, const char *ready) {
    scan_refusals_t *refusals = &scan->refusals;
    if (refusals->blocked_count == SCAN_BLOCKS_MAX || scan_blocked(scan, retries, ready)) return;
    refusals->blocked = mem_grown(refusals->blocked, refusals->blocked_count, sizeof *refusals->blocked);
    refusals->blocked[refusals->blocked_count++] = (scan_block_t){ready, retries};
}

bool scan_blocked(const scan_t *scan, bool retries, const char *ready) {
    for (size_t i = 0; i < scan->refusals.blocked_count; i++)
        if (scan->refusals.blocked[i].retries == retries && scan->refusals.blocked[i].ready == ready) return true;
    return false;
}

mono_t scan_next(const scan_t *scan) {
    mono_t next = scan->state == SCAN_WAIT ? mono_min(scan->timer.next, scan->timer.search) : (mono_t){0};
    return mono_max(next, scan->timer.blocked_until);
}

bool scan_wants(const scan_t *scan, mono_t now) { return mono_reached(scan_next(scan), now); }

static void scan_become_idle(scan_t *scan, mono_t now) {
    scan_note_anomalies(scan, &(scan_pass_t){0});
    scan->completed++;
    scan->timer.empty_scans = 0;
    scan->timer.idle = true;
    scan->timer.next = scan->status.armed ? mono_never() : mono_add(now, scan->interval_ms * NS_PER_MS);
    scan_forget_jobs(scan);
    metric_set(&scan->metrics->in_progress, 0);
    metric_set(&scan->metrics->in_progress_since_ms, 0);
    scan_apply_refusals(scan, now);
}

// A failover may have lost heartbeats. So a heartbeat counts as missing only after one complete scan and one interval on the new
// primary: meanwhile each living worker renews its heartbeat.
static int64_t scan_certain_at(const scan_t *scan, int64_t redis_ms, mono_t now) {
    mono_t at = mono_add(scan->server_since, scan->interval_ms * NS_PER_MS);
    bool whole = mono_reached(scan->server_since, scan->whole_began);
    if (!whole) return INT64_MAX;
    if (mono_reached(at, now)) return 0;
    int64_t left_ms = mono_diff(at, now) / NS_PER_MS;
    return redis_ms + 1 + (left_ms > 0 ? left_ms : 0);
}

bool scan_is_empty(const scan_t *scan) {
    const backup_status_t *status = &scan->status;
    return status->reports == 0 && (status->entries == 0 || status->marker_alone);
}

// A list that shrinks becomes short only at half of the border, so that one at the border does not change its way at each scan.
// The marker that a rotation has left is no job.
static bool scan_list_is_long(const scan_t *scan) {
    if (scan->page_size.average >= ROTATED_BYTES) return false; // such a list has few entries, and its pages would not overlap
    int64_t jobs = scan->status.entries - (scan->status.n > 0);
    return jobs > scan->rotation || (scan->is_long && jobs > scan->rotation / 2);
}

void scan_take_status(scan_t *scan, const backup_status_t *status, mono_t now) {
    buffer_t known = scan->status.marker; // the new state does not have it
    scan->status = *status;
    scan->status.marker_met = false;
    scan->status.marker = known;
    scan_forget_refusals(scan); // drop the refusals of a scan that was broken off
    scan->timer.search = mono_never();
    scan->timer.changed = scan->timer.rescan = false;
    scan->clock.now = status->now;
    scan->clock.certain_at = scan_certain_at(scan, status->now, now);
}

bool scan_begin(scan_t *scan, mono_t now) {
    const backup_status_t *status = &scan->status;
    scan->timer.began = now;
    scan->clock.next_verdict_at = INT64_MAX;
    scan->is_long = scan_list_is_long(scan);
    if (scan_is_empty(scan) && (scan->timer.empty_scans >= EMPTY_SCANS || status->stamps == 0)) {
        scan_become_idle(scan, now);
        return false;
    }
    scan_enter(scan, SCAN_READ);
    *scan_pass(scan) = (scan_pass_t){
        .in_place = scan->is_long || !scan->ops->rotation,
        .reports_kept = status->reports > 0 && !mono_reached(scan_reports_due(scan), now),
        .saw_marker = status->marker_alone,
        .ended = status->entries == 0 || scan_is_empty(scan), // no job to read
        .left = status->entries,
        .since = INT64_MAX,
    };
    duplicates_begin(&scan->duplicates, (size_t)status->entries);
    if (!scan_pass(scan)->reports_kept) report_table_begin(&scan->reports);
    return true;
}

bool scan_all_read(scan_t *scan) {
    scan_enter(scan, SCAN_PRUNE);
    const scan_pass_t *pass = scan_pass(scan);
    if (pass->incomplete) return false; // the job of a stamp may be one that it missed
    return scan->status.stamps > pass->jobs || scan->status.entries == 0;
}

// The time to keep the stamp of a requeued job that is not in the list. Only a job with a date of its own needs the stamp: the
// date would end the job.
static int64_t scan_requeued_for_ms(const queue_policy_t *policy) { return *policy->created_path ? policy->alive_timeout_ms : 0; }

bool scan_keeps_stamp(void *self, const uint8_t field[KEY_BYTES], stamp_t *stamp) {
    scan_t *scan = self;
    const queue_policy_t *policy = &scan->config->policy;
    stamp_correct(stamp, scan->clock.now);
    if (stamp->seen && (scan->completed == 0 || duplicates_seen_lately(&scan->duplicates, field))) return true;
    bool requeued = stamp->requeued && !stamp->retries;
    // The job is not in the list, but may come back. Its retries count then, and a new execution begins.
    stamp->seen = stamp->missing = 0;
    return scan->clock.now - stamp->retried_at <= (requeued ? scan_requeued_for_ms(policy) : policy->retry.window_ms);
}

static void scan_note_metrics(const scan_t *scan, const scan_pass_t *pass, int64_t took_ns) {
    metric_add(&scan->metrics->passes, 1);
    metric_add(&scan->metrics->pass_us, took_ns / NS_PER_US);
    metric_set(&scan->metrics->in_progress, pass->jobs);
    metric_set(&scan->metrics->in_progress_since_ms, pass->since == INT64_MAX ? 0 : pass->since);
}

// Rotation clears tracking: scan once more to re-arm it, then wait.
static int64_t scan_next_in_ns(const scan_t *scan, int64_t pause_ns) {
    const scan_timer_t *timer = &scan->timer;
    bool rearm = timer->empty_scans && timer->empty_scans <= EMPTY_SCANS;
    bool reported = scan_has_reports(scan) || scan_scans_for_reports(scan);
    if (timer->rescan || rearm || (timer->changed && !reported)) return pause_ns;
    int64_t in_ms = scan->interval_ms;
    const int64_t at = scan->clock.next_verdict_at;
    const int64_t until_ms = at == INT64_MAX ? at : at + TOGETHER_MS - scan->clock.now; // a timeout must be exceeded
    if (until_ms < in_ms) in_ms = until_ms;
    return in_ms * NS_PER_MS > pause_ns ? in_ms * NS_PER_MS : pause_ns;
}

// The shortest time from the end of a scan to the next one: Redis and the network have time for others.
static int64_t scan_pause_ns(const scan_pass_t *pass, int64_t took_ns) {
    int64_t pause_ns = took_ns > SCAN_PAUSE_MIN_MS * NS_PER_MS ? took_ns : SCAN_PAUSE_MIN_MS * NS_PER_MS;
    int64_t large_ns = pass->large_bytes * (NS_PER_S / SCAN_LARGE_BYTES_PER_S);
    return pause_ns > large_ns ? pause_ns : large_ns;
}

// Stores facts that only a scan of all jobs can tell.
static void scan_complete(scan_t *scan) {
    scan->completed++;
    scan->whole_began = scan->timer.began;
    workers_filter(&scan->workers, duplicates_seen_now, &scan->duplicates);
    report_table_end(&scan->reports);
    duplicates_end(&scan->duplicates);
}

void scan_end(scan_t *scan, mono_t now) {
    scan_timer_t *timer = &scan->timer;
    const scan_pass_t pass = *scan_pass(scan);
    int64_t took_ns = mono_diff(now, timer->began), pause_ns = scan_pause_ns(&pass, took_ns);
    scan_enter(scan, SCAN_WAIT);
    scan->page_size.largest[1] = scan->page_size.largest[0];
    scan->page_size.largest[0] = 0;
    scan->page_size.average = pass.jobs ? pass.bytes / pass.jobs : 0;
    if (!pass.incomplete) scan_complete(scan);
    if (!pass.saw_marker && !pass.in_place) buffer_clear(&scan->status.marker); // the list has lost its marker
    scan_note_metrics(scan, &pass, took_ns);
    scan_note_anomalies(scan, &pass);
    timer->idle = false;
    timer->empty_scans = pass.jobs == 0 && scan->reports.count == 0 ? timer->empty_scans + 1 : 0;
    timer->earliest = mono_add(now, scan_has_reports(scan) ? SCAN_PAUSE_MIN_MS * NS_PER_MS : pause_ns);
    timer->report_scan =
        mono_max(mono_add(timer->began, scan_apart_ns(scan)),
                 mono_add(now, took_ns * REPORT_SCANS_SHARE > pause_ns ? took_ns * REPORT_SCANS_SHARE : pause_ns));
    timer->next = mono_add(now, scan_next_in_ns(scan, pause_ns));
    if (pass.reports_kept) timer->next = mono_min(timer->next, mono_max(scan_reports_due(scan), mono_add(now, pause_ns)));
    bool search = timer->changed || report_table_awaits_scan(&scan->reports);
    if (search && scan_scans_for_reports(scan)) timer->next = mono_min(timer->next, timer->report_scan);
    if (search && scan_has_reports(scan)) timer->search = timer->earliest;
}
