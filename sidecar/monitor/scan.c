#include "monitor/scan.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/log.h"
#include "dialects/dialect.h"

enum {
    PAGE_FIRST = 8,
    PAGE_BYTES = 1024 * 1024, // of one request's entries; several are on their way
    LARGE = 64 * 1024,
    REPORTS_MOST = 10000, // others wait for the next pass
    REPORT_MISSED_PASSES = 2,
    HUSHED_PASSES = 2, // then the stamps of finished jobs are swept, too
    SUSPECTS_MOST = 100000,
    INTERVAL_LEAST_MS = 1000, // of scan_interval "auto"
    INTERVAL_MOST_MS = 60000,
    INTERVAL_SHARE = 10,
};

static const char ROLE[] = "monitor";

void scan_init(scan_t *scan, const queue_config_t *config, metrics_queue_t *metrics, int64_t scan_interval_ms) {
    *scan = (scan_t){.config = config, .metrics = metrics, .interval_ms = scan_interval_ms};
    if (scan_interval_ms == 0) {
        scan->interval_ms = config->policy.protected_timeout_ms / INTERVAL_SHARE;
        if (scan->interval_ms < INTERVAL_LEAST_MS) scan->interval_ms = INTERVAL_LEAST_MS;
        if (scan->interval_ms > INTERVAL_MOST_MS) scan->interval_ms = INTERVAL_MOST_MS;
    }
    scan_reset(scan);
}

static void scan_drop_reports(scan_t *scan) {
    scan->report_count = 0;
    keymap_free(&scan->reports);
}

static void scan_drop_sets(scan_t *scan) {
    for (int i = 0; i < 2; i++) keyfilter_free(&scan->seen[i]);
    keymap_free(&scan->suspects);
    keymap_free(&scan->suspects_next);
    keymap_free(&scan->copies);
    workers_free(&scan->workers);
}

void scan_free(scan_t *scan) {
    scan_drop_reports(scan);
    scan_drop_sets(scan);
    free(scan->report_list);
    free(scan->refused);
    *scan = (scan_t){0};
}

void scan_reset(scan_t *scan) {
    scan_drop_reports(scan);
    scan_drop_sets(scan);
    scan->phase = SCAN_WAIT;
    scan->next = scan->blocked_until = (mono_t){0};
    scan->changed = true;
    scan->idle = false;
    scan->empty_scans = 0;
    scan->earliest = (mono_t){0};
    scan->passes = 0;
    metric_set(&scan->metrics->in_progress_since_ms, 0);
    free(scan->refused);
    scan->refused = NULL;
    scan->page = PAGE_FIRST;
    scan->largest[0] = scan->largest[1] = 0;
}

// A list in use changes all the time, so only where nothing was going on does a change begin a pass, and no more than one a
// second: jobs that come and go would keep us busy. A report always does, but not without a pause.
void scan_changed(scan_t *scan, bool report, mono_t now) {
    if (report) scan->changed = true;
    if (scan->phase != SCAN_WAIT || (!scan->idle && !report)) return;
    mono_t soon = scan->idle ? now : scan->earliest;
    int64_t apart = scan->interval_ms < INTERVAL_LEAST_MS ? scan->interval_ms : INTERVAL_LEAST_MS;
    if (!report) soon = mono_add(scan->began, apart * NS_PER_MS);
    scan->next = mono_min(scan->next, mono_max(soon, now));
}

void scan_refused(scan_t *scan, const char *reason, mono_t now) {
    if (strcmp(scan->logged, reason) != 0)
        log_error(ROLE, scan->config->name, "redis refuses the monitor", F_STR("reason", reason));
    snprintf(scan->logged, sizeof scan->logged, "%s", reason);
    metrics_refused(scan->metrics, mono_now());
    scan->phase = SCAN_WAIT;
    scan->changed = true;
    scan->blocked_until = scan->next = mono_add(now, SCAN_REFUSED_MS * NS_PER_MS);
}

void scan_log_refusals(scan_t *scan, mono_t now) {
    char *reason = scan->refused;
    scan->refused = NULL;
    if (reason) {
        scan_refused(scan, reason, now);
    } else if (*scan->logged) {
        log_info(ROLE, scan->config->name, "redis refuses the monitor no longer");
        scan->logged[0] = '\0';
    }
    free(reason);
}

void scan_block(scan_t *scan, bool retries, const char *ready) {
    if (scan->block_count < SCAN_BLOCKS_MAX && !scan_blocked(scan, retries, ready))
        scan->blocked[scan->block_count++] = (scan_block_t){ready, retries};
}

bool scan_blocked(const scan_t *scan, bool retries, const char *ready) {
    for (size_t i = 0; i < scan->block_count; i++)
        if (scan->blocked[i].retries == retries && scan->blocked[i].ready == ready) return true;
    return false;
}

bool scan_wants(const scan_t *scan, mono_t now) {
    return mono_reached(scan->blocked_until, now) && (scan->phase != SCAN_WAIT || mono_reached(scan->next, now));
}

mono_t scan_next(const scan_t *scan) {
    mono_t next = scan->phase == SCAN_WAIT ? scan->next : (mono_t){0};
    return mono_max(next, scan->blocked_until);
}

static void scan_become_idle(scan_t *scan) {
    scan->idle = true;
    scan->phase = SCAN_WAIT;
    scan->next = scan->look.armed ? mono_never() : mono_add(scan->began, scan->interval_ms * NS_PER_MS);
    scan_drop_sets(scan);
    scan_drop_reports(scan);
    metric_set(&scan->metrics->in_progress, 0);
    metric_set(&scan->metrics->in_progress_since_ms, 0);
}

void scan_safety(scan_t *scan, mono_t now) {
    if (scan->idle) scan->next = mono_min(scan->next, now);
}

// What passes have learnt of sentinels outlives each look.
static void scan_take_look(scan_t *scan, const backup_look_t *look) {
    size_t known = scan->look.sentinel_len;
    char sentinel[SENTINEL_MOST];
    memcpy(sentinel, scan->look.sentinel, known);
    scan->look = *look;
    scan->look.sentinel_met = false;
    scan->look.sentinel_len = known;
    memcpy(scan->look.sentinel, sentinel, known);
}

bool scan_begin(scan_t *scan, const backup_look_t *look, mono_t now) {
    scan_take_look(scan, look);
    scan->began = now;
    scan->changed = false;
    scan->left = look->entries;
    scan->asked = scan->met = 0;
    scan->read = 0;
    scan->read_only = !dialect_ops(scan->config->dialect)->pass->rotation;
    scan->met_sentinel = scan->rescan = scan->reports_full = false;
    scan->ended = look->entries == 0;
    scan->jobs = 0;
    scan->block_count = 0;
    free(scan->refused); // of a pass that was broken off
    scan->refused = NULL;
    scan->since = INT64_MAX;
    scan->next_verdict_at = INT64_MAX;
    scan->cursor = 0;
    scan->now = look->now;
    bool idle = look->reports == 0 && (look->entries == 0 || look->sentinel_alone);
    if (idle && (scan->empty_scans >= HUSHED_PASSES || look->stamps == 0)) {
        scan->passes++;
        scan->empty_scans = 0;
        scan_become_idle(scan);
        scan_log_refusals(scan, now);
        return false;
    }
    if (idle) scan->ended = true; // only stamps are left
    keyfilter_begin(&scan->seen[0], (size_t)look->entries);
    keymap_free(&scan->suspects_next); // of a pass that was broken off
    for (size_t i = 0; i < scan->suspects.room; i++) scan->suspects.slots[i].value = 0;
    scan->phase = SCAN_ROTATE;
    return true;
}

// NULL = there is no room: it waits for the next pass.
static scan_report_t *scan_new_report(scan_t *scan, const digest_t *digest) {
    if (scan->report_count >= REPORTS_MOST) {
        scan->reports_full = true;
        return NULL;
    }
    if (scan->report_count == scan->report_room) {
        size_t room = scan->report_room * 2 + 16;
        scan_report_t *grown = mem_array(room, sizeof *grown);
        if (scan->report_list) memcpy(grown, scan->report_list, scan->report_count * sizeof *grown);
        free(scan->report_list);
        scan->report_list = grown;
        scan->report_room = room;
    }
    scan_report_t *report = &scan->report_list[scan->report_count++];
    *report = (scan_report_t){.digest = *digest};
    *keymap_put(&scan->reports, digest->bytes) = (int64_t)scan->report_count;
    return report;
}

void scan_add_report(void *self, const report_ref_t *report) {
    scan_t *scan = self;
    digest_t digest = digest_of(report->job.data, report->job.len);
    const int64_t *known = keymap_find(&scan->reports, digest.bytes);
    scan_report_t *at = known ? &scan->report_list[*known - 1] : scan_new_report(scan, &digest);
    if (!at) return;
    if (at->out || strcmp(at->sha1, report->sha1) != 0) at->missed = 0; // another report than before
    at->out = false;
    strncpy(at->sha1, report->sha1, sizeof at->sha1 - 1);
    at->ends = report->ends;
    at->met = false;
    at->listed = scan->passes;
}

void scan_reports_end(scan_t *scan) {
    size_t kept = 0;
    for (size_t i = 0; i < scan->report_count; i++) {
        scan_report_t *report = &scan->report_list[i];
        if (!report->out && report->listed == scan->passes) scan->report_list[kept++] = *report;
    }
    if (kept == scan->report_count) return;
    scan->report_count = kept;
    keymap_free(&scan->reports);
    for (size_t i = 0; i < kept; i++) *keymap_put(&scan->reports, scan->report_list[i].digest.bytes) = (int64_t)i + 1;
}

const scan_report_t *scan_report_of(const scan_t *scan, const digest_t *digest) {
    const int64_t *index = keymap_find(&scan->reports, digest->bytes);
    return index && !scan->report_list[*index - 1].out ? &scan->report_list[*index - 1] : NULL;
}

size_t scan_entries_wanted(const scan_t *scan) {
    if (scan->phase != SCAN_ROTATE || scan->ended || scan->left <= 0) return 0;
    // The first page tells how large entries are, and each page of a standing list where the next one begins.
    if (scan->asked != scan->met && (scan->met == 0 || scan->read_only)) return 0;
    return scan->left < (int64_t)scan->page ? (size_t)scan->left : scan->page;
}

void scan_requested(scan_t *scan, size_t count) {
    scan->left -= (int64_t)count;
    scan->asked++;
}

static size_t largest(const scan_t *scan) { return scan->largest[0] > scan->largest[1] ? scan->largest[0] : scan->largest[1]; }

size_t scan_page_bytes(const scan_t *scan) { return scan->page * (largest(scan) + 1); }

bool scan_has_large(const scan_t *scan) { return largest(scan) >= LARGE; }

// Pages grow until they are full or their bytes are many: nobody knows how large entries are before they are read. Small ones
// say little of those behind them: where large ones were met lately, more may come at any time.
static size_t scan_next_page(size_t page, size_t count, size_t bytes, size_t most_bytes) {
    size_t most = bytes && count ? PAGE_BYTES / (bytes / count + 1) : BACKUP_PAGE;
    size_t next = page * 4;
    if (next > PAGES_BYTES / (most_bytes + 1)) next = PAGES_BYTES / (most_bytes + 1);
    if (next > BACKUP_PAGE) next = BACKUP_PAGE;
    if (next > most) next = most;
    return next ? next : 1;
}

void scan_read_page(scan_t *scan, const backup_page_t *page, size_t asked) {
    size_t taken = page->count + page->vacant;
    scan->left += (int64_t)asked - (int64_t)taken; // what a full Redis has refused may be asked for again
    if (scan->look.open && scan->left < BACKUP_PAGE) scan->left = BACKUP_PAGE;
    scan->met++;
    if (page->standing) scan->read += taken;
    if (page->ended) scan->ended = true;
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].bytes.len > scan->largest[0]) scan->largest[0] = page->entries[i].bytes.len;
    scan->page = scan_next_page(scan->page, page->count, page->bytes, largest(scan));
    for (size_t i = 0; i < page->count; i++) {
        if (page->entries[i].kind != ENTRY_SENTINEL) continue;
        scan->met_sentinel = true;
        if (!scan->read_only) scan->ended = true; // read from the tail, it stands anywhere
    }
}

bool scan_note_job(scan_t *scan, const digest_t *digest) {
    scan->jobs++;
    scan_report_t *report = (scan_report_t *)scan_report_of(scan, digest);
    if (report) report->met = true;
    int64_t *suspect = keymap_find(&scan->suspects, digest->bytes);
    bool before = keyfilter_add(&scan->seen[0], digest->bytes);
    if (suspect)
        ++*suspect;
    else if (before && scan->suspects_next.count < SUSPECTS_MOST)
        keymap_put(&scan->suspects_next, digest->bytes);
    return keymap_find(&scan->copies, digest->bytes) || (suspect && *suspect > 1);
}

void scan_note_since(scan_t *scan, int64_t since) {
    if (since <= 0) since = scan->now;
    if (since < scan->since) scan->since = since;
}

void scan_verdict(scan_t *scan, const verdict_t *verdict) {
    switch (verdict->kind) {
    case VERDICT_LEAVE:
    case VERDICT_PRESENT:
        if (verdict->again < scan->next_verdict_at) scan->next_verdict_at = verdict->again;
        break;
    case VERDICT_STAMP:
    case VERDICT_SEEN: {
        int64_t due = scan->now + scan->config->policy.protected_timeout_ms;
        if (due < scan->next_verdict_at) scan->next_verdict_at = due;
        break;
    }
    default: break; // what follows from these is known when they are settled
    }
}

// Settle looks through one list: it sees no copies in those of other workers.
bool scan_may_end(const scan_t *scan) {
    bool exact = dialect_ops(scan->config->dialect)->pass->rotation && scan->look.entries <= SCAN_EXACT_ENTRIES;
    return exact || scan->passes >= SCAN_SURE_SCANS;
}

bool scan_all_read(scan_t *scan) {
    scan->phase = SCAN_PRUNE;
    scan->cursor = 0;
    return scan->look.stamps > scan->jobs || scan->look.entries == 0;
}

// A job that was put back begins a life when it is met, stamp or not. Its stamp matters only where its own date would end it.
static int64_t scan_requeued_for_ms(const queue_policy_t *policy) { return *policy->created_path ? policy->alive_timeout_ms : 0; }

bool scan_keeps_stamp(void *self, const uint8_t field[STAMP_FIELD_BYTES], const stamp_t *stamp) {
    scan_t *scan = self;
    const queue_policy_t *policy = &scan->config->policy;
    if (!stamp->seen && stamp->requeued && !stamp->retries) return scan->now - stamp->retried_at <= scan_requeued_for_ms(policy);
    if (!stamp->seen) return scan->now - stamp->retried_at <= policy->retry_window_ms;
    return scan->passes == 0 || keyfilter_has(&scan->seen[0], field) || keyfilter_has(&scan->seen[1], field);
}

static bool scan_count_copy(void *self, const uint8_t key[KEY_BYTES], int64_t *met) {
    scan_t *scan = self;
    if (*met > 1) keymap_put(&scan->copies, key);
    return false;
}

static bool scan_suspect_again(void *self, const uint8_t key[KEY_BYTES], int64_t *met) {
    keymap_put(self, key);
    (void)met;
    return true;
}

static bool scan_met_now(void *self, const uint8_t key[KEY_BYTES]) { return keyfilter_has(self, key); }

void scan_end(scan_t *scan, mono_t now) {
    scan->passes++;
    scan->largest[1] = scan->largest[0];
    scan->largest[0] = 0;
    workers_filter(&scan->workers, scan_met_now, &scan->seen[0]);
    for (size_t i = 0; i < scan->report_count; i++)
        scan->report_list[i].missed = scan->report_list[i].met ? 0 : scan->report_list[i].missed + 1;
    // What was met more than once is copies, and stays suspect; so is what the filter met again for the first time.
    keymap_free(&scan->copies);
    keymap_filter(&scan->suspects, scan_count_copy, scan);
    keymap_free(&scan->suspects);
    scan->suspects = scan->suspects_next;
    scan->suspects_next = (keymap_t){0};
    keymap_filter(&scan->copies, scan_suspect_again, &scan->suspects);
    keyfilter_t older = scan->seen[1];
    scan->seen[1] = scan->seen[0];
    scan->seen[0] = older;
    scan->phase = SCAN_WAIT;
    scan->idle = false;
    if (!scan->met_sentinel && !scan->read_only) scan->look.sentinel_len = 0; // it is gone: the next one that is met is it
    metric_add(&scan->metrics->passes, 1);
    metric_set(&scan->metrics->in_progress, scan->jobs);
    metric_set(&scan->metrics->in_progress_since_ms, scan->since == INT64_MAX ? 0 : scan->since);
    int64_t took = mono_diff(now, scan->began);
    metric_add(&scan->metrics->pass_us, took / NS_PER_US);
    int64_t pause = took > SCAN_PAUSE_MIN_MS * NS_PER_MS ? took : SCAN_PAUSE_MIN_MS * NS_PER_MS;
    int64_t in = scan->interval_ms * NS_PER_MS;
    scan->earliest = mono_add(now, pause);
    // Our own rotation has made Redis forget whom to wake: one more look arms it again, and then there is silence. What is still
    // there after that is no job, and no reason to hurry.
    scan->empty_scans = scan->jobs == 0 && scan->report_count == 0 ? scan->empty_scans + 1 : 0;
    bool settling = scan->empty_scans && scan->empty_scans <= HUSHED_PASSES;
    if (scan->next_verdict_at != INT64_MAX) {
        int64_t until = scan->next_verdict_at + 1 - scan->now; // a timeout is over when it is exceeded
        if (until < in / NS_PER_MS) in = until * NS_PER_MS;
    }
    if (scan->rescan || settling || scan->changed || in < pause) in = pause;
    scan->next = mono_add(now, in);
}

static bool scan_is_orphan(const scan_report_t *report) { return !report->out && report->missed >= REPORT_MISSED_PASSES; }

bool scan_has_orphan_reports(const scan_t *scan) {
    for (size_t i = 0; i < scan->report_count; i++)
        if (scan_is_orphan(&scan->report_list[i])) return true;
    return false;
}

const scan_report_t *scan_orphan_report(const scan_t *scan, const digest_t *digest) {
    const scan_report_t *report = scan_report_of(scan, digest);
    return report && scan_is_orphan(report) ? report : NULL;
}

void scan_drop_report(scan_t *scan, const scan_report_t *report) { // the rest of it goes with the next scan
    scan->report_list[report - scan->report_list].out = true;
}
