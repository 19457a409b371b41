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

void ward_init(ward_t *ward, const queue_config_t *config, metrics_queue_t *metrics, int64_t scan_interval_ms) {
    *ward = (ward_t){.config = config, .metrics = metrics, .interval_ms = scan_interval_ms};
    if (scan_interval_ms == 0) {
        ward->interval_ms = config->policy.protected_timeout_ms / INTERVAL_SHARE;
        if (ward->interval_ms < INTERVAL_LEAST_MS) ward->interval_ms = INTERVAL_LEAST_MS;
        if (ward->interval_ms > INTERVAL_MOST_MS) ward->interval_ms = INTERVAL_MOST_MS;
    }
    ward_forget(ward);
}

static void drop_reports(ward_t *ward) {
    ward->report_count = 0;
    keymap_free(&ward->reports);
}

static void drop_sets(ward_t *ward) {
    for (int i = 0; i < 2; i++) keyfilter_free(&ward->seen[i]);
    keymap_free(&ward->suspects);
    keymap_free(&ward->suspects_next);
    keymap_free(&ward->copies);
    workers_free(&ward->workers);
}

void ward_free(ward_t *ward) {
    drop_reports(ward);
    drop_sets(ward);
    free(ward->report_list);
    free(ward->refused);
    *ward = (ward_t){0};
}

void ward_forget(ward_t *ward) {
    drop_reports(ward);
    drop_sets(ward);
    ward->phase = WARD_WAIT;
    ward->next = ward->hold = (mono_t){0};
    ward->changed = true;
    ward->quiet = false;
    ward->hushed = 0;
    ward->soonest = (mono_t){0};
    ward->passes = 0;
    metric_set(&ward->metrics->in_progress_since_ms, 0);
    free(ward->refused);
    ward->refused = NULL;
    ward->page = PAGE_FIRST;
    ward->largest[0] = ward->largest[1] = 0;
}

// A list in use changes all the time, so only where nothing was going on does a change begin a pass, and no more than one a
// second: jobs that come and go would keep us busy. A report always does, but not without a pause.
void ward_changed(ward_t *ward, bool report, mono_t now) {
    if (report) ward->changed = true;
    if (ward->phase != WARD_WAIT || (!ward->quiet && !report)) return;
    mono_t soon = ward->quiet ? now : ward->soonest;
    int64_t apart = ward->interval_ms < INTERVAL_LEAST_MS ? ward->interval_ms : INTERVAL_LEAST_MS;
    if (!report) soon = mono_add(ward->began, apart * NS_PER_MS);
    ward->next = mono_min(ward->next, mono_max(soon, now));
}

void ward_fault(ward_t *ward, const char *reason, mono_t now) {
    if (strcmp(ward->said, reason) != 0)
        log_error(ROLE, ward->config->name, "redis refuses the monitor", F_STR("reason", reason));
    snprintf(ward->said, sizeof ward->said, "%s", reason);
    metrics_refused(ward->metrics, mono_now());
    ward->phase = WARD_WAIT;
    ward->changed = true;
    ward->hold = ward->next = mono_add(now, WARD_FAULT_HOLD_MS * NS_PER_MS);
}

void ward_tell(ward_t *ward, mono_t now) {
    char *reason = ward->refused;
    ward->refused = NULL;
    if (reason) {
        ward_fault(ward, reason, now);
    } else if (*ward->said) {
        log_info(ROLE, ward->config->name, "redis refuses the monitor no longer");
        ward->said[0] = '\0';
    }
    free(reason);
}

void ward_block(ward_t *ward, bool retries, const char *ready) {
    if (ward->block_count < WARD_BLOCKS_MOST && !ward_blocked(ward, retries, ready))
        ward->blocked[ward->block_count++] = (ward_block_t){ready, retries};
}

bool ward_blocked(const ward_t *ward, bool retries, const char *ready) {
    for (size_t i = 0; i < ward->block_count; i++)
        if (ward->blocked[i].retries == retries && ward->blocked[i].ready == ready) return true;
    return false;
}

bool ward_wants(const ward_t *ward, mono_t now) {
    return mono_reached(ward->hold, now) && (ward->phase != WARD_WAIT || mono_reached(ward->next, now));
}

mono_t ward_next(const ward_t *ward) {
    mono_t next = ward->phase == WARD_WAIT ? ward->next : (mono_t){0};
    return mono_max(next, ward->hold);
}

static void quieten(ward_t *ward) {
    ward->quiet = true;
    ward->phase = WARD_WAIT;
    ward->next = ward->look.armed ? mono_never() : mono_add(ward->began, ward->interval_ms * NS_PER_MS);
    drop_sets(ward);
    drop_reports(ward);
    metric_set(&ward->metrics->in_progress, 0);
    metric_set(&ward->metrics->in_progress_since_ms, 0);
}

void ward_safety(ward_t *ward, mono_t now) {
    if (ward->quiet) ward->next = mono_min(ward->next, now);
}

// What passes have learnt of sentinels outlives each look.
static void take_look(ward_t *ward, const backup_look_t *look) {
    size_t known = ward->look.sentinel_len;
    char sentinel[SENTINEL_MOST];
    memcpy(sentinel, ward->look.sentinel, known);
    ward->look = *look;
    ward->look.sentinel_met = false;
    ward->look.sentinel_len = known;
    memcpy(ward->look.sentinel, sentinel, known);
}

bool ward_begin(ward_t *ward, const backup_look_t *look, mono_t now) {
    take_look(ward, look);
    ward->began = now;
    ward->changed = false;
    ward->left = look->entries;
    ward->asked = ward->met = 0;
    ward->read = 0;
    ward->reads_only = !dialect_ops(ward->config->dialect)->pass->rotation;
    ward->met_sentinel = ward->unsettled = ward->reports_full = false;
    ward->ended = look->entries == 0;
    ward->jobs = 0;
    ward->block_count = 0;
    free(ward->refused); // of a pass that was broken off
    ward->refused = NULL;
    ward->since = INT64_MAX;
    ward->nearest = INT64_MAX;
    ward->cursor = 0;
    ward->now = look->now;
    bool idle = look->reports == 0 && (look->entries == 0 || look->sentinel_alone);
    if (idle && (ward->hushed >= HUSHED_PASSES || look->stamps == 0)) {
        ward->passes++;
        ward->hushed = 0;
        quieten(ward);
        ward_tell(ward, now);
        return false;
    }
    if (idle) ward->ended = true; // only stamps are left
    keyfilter_begin(&ward->seen[0], (size_t)look->entries);
    keymap_free(&ward->suspects_next); // of a pass that was broken off
    for (size_t i = 0; i < ward->suspects.room; i++) ward->suspects.slots[i].value = 0;
    ward->phase = WARD_ROTATE;
    return true;
}

// NULL = there is no room: it waits for the next pass.
static ward_report_t *new_report(ward_t *ward, const digest_t *digest) {
    if (ward->report_count >= REPORTS_MOST) {
        ward->reports_full = true;
        return NULL;
    }
    if (ward->report_count == ward->report_room) {
        size_t room = ward->report_room * 2 + 16;
        ward_report_t *grown = mem_array(room, sizeof *grown);
        if (ward->report_list) memcpy(grown, ward->report_list, ward->report_count * sizeof *grown);
        free(ward->report_list);
        ward->report_list = grown;
        ward->report_room = room;
    }
    ward_report_t *report = &ward->report_list[ward->report_count++];
    *report = (ward_report_t){.digest = *digest};
    *keymap_put(&ward->reports, digest->bytes) = (int64_t)ward->report_count;
    return report;
}

void ward_report(void *self, const report_ref_t *report) {
    ward_t *ward = self;
    digest_t digest = digest_of(report->job.data, report->job.len);
    const int64_t *known = keymap_find(&ward->reports, digest.bytes);
    ward_report_t *at = known ? &ward->report_list[*known - 1] : new_report(ward, &digest);
    if (!at) return;
    if (at->out || strcmp(at->sha1, report->sha1) != 0) at->missed = 0; // another report than before
    at->out = false;
    strncpy(at->sha1, report->sha1, sizeof at->sha1 - 1);
    at->ends = report->ends;
    at->met = false;
    at->listed = ward->passes;
}

void ward_reports_end(ward_t *ward) {
    size_t kept = 0;
    for (size_t i = 0; i < ward->report_count; i++) {
        ward_report_t *report = &ward->report_list[i];
        if (!report->out && report->listed == ward->passes) ward->report_list[kept++] = *report;
    }
    if (kept == ward->report_count) return;
    ward->report_count = kept;
    keymap_free(&ward->reports);
    for (size_t i = 0; i < kept; i++) *keymap_put(&ward->reports, ward->report_list[i].digest.bytes) = (int64_t)i + 1;
}

const ward_report_t *ward_report_of(const ward_t *ward, const digest_t *digest) {
    const int64_t *index = keymap_find(&ward->reports, digest->bytes);
    return index && !ward->report_list[*index - 1].out ? &ward->report_list[*index - 1] : NULL;
}

size_t ward_wanted(const ward_t *ward) {
    if (ward->phase != WARD_ROTATE || ward->ended || ward->left <= 0) return 0;
    // The first page tells how large entries are, and each page of a standing list where the next one begins.
    if (ward->asked != ward->met && (ward->met == 0 || ward->reads_only)) return 0;
    return ward->left < (int64_t)ward->page ? (size_t)ward->left : ward->page;
}

void ward_asked(ward_t *ward, size_t count) {
    ward->left -= (int64_t)count;
    ward->asked++;
}

static size_t largest(const ward_t *ward) { return ward->largest[0] > ward->largest[1] ? ward->largest[0] : ward->largest[1]; }

size_t ward_page_bytes(const ward_t *ward) { return ward->page * (largest(ward) + 1); }

bool ward_meets_large(const ward_t *ward) { return largest(ward) >= LARGE; }

// Pages grow until they are full or their bytes are many: nobody knows how large entries are before they are read. Small ones
// say little of those behind them: where large ones were met lately, more may come at any time.
static size_t next_page(size_t page, size_t count, size_t bytes, size_t most_bytes) {
    size_t most = bytes && count ? PAGE_BYTES / (bytes / count + 1) : BACKUP_PAGE;
    size_t next = page * 4;
    if (next > PAGES_BYTES / (most_bytes + 1)) next = PAGES_BYTES / (most_bytes + 1);
    if (next > BACKUP_PAGE) next = BACKUP_PAGE;
    if (next > most) next = most;
    return next ? next : 1;
}

void ward_page(ward_t *ward, const backup_page_t *page, size_t asked) {
    size_t taken = page->count + page->vacant;
    ward->left += (int64_t)asked - (int64_t)taken; // what a full Redis has refused may be asked for again
    if (ward->look.open && ward->left < BACKUP_PAGE) ward->left = BACKUP_PAGE;
    ward->met++;
    if (page->standing) ward->read += taken;
    if (page->ended) ward->ended = true;
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].bytes.len > ward->largest[0]) ward->largest[0] = page->entries[i].bytes.len;
    ward->page = next_page(ward->page, page->count, page->bytes, largest(ward));
    for (size_t i = 0; i < page->count; i++) {
        if (page->entries[i].kind != ENTRY_SENTINEL) continue;
        ward->met_sentinel = true;
        if (!ward->reads_only) ward->ended = true; // read from the tail, it stands anywhere
    }
}

bool ward_met(ward_t *ward, const digest_t *digest) {
    ward->jobs++;
    ward_report_t *report = (ward_report_t *)ward_report_of(ward, digest);
    if (report) report->met = true;
    int64_t *suspect = keymap_find(&ward->suspects, digest->bytes);
    bool before = keyfilter_add(&ward->seen[0], digest->bytes);
    if (suspect)
        ++*suspect;
    else if (before && ward->suspects_next.count < SUSPECTS_MOST)
        keymap_put(&ward->suspects_next, digest->bytes);
    return keymap_find(&ward->copies, digest->bytes) || (suspect && *suspect > 1);
}

void ward_met_since(ward_t *ward, int64_t since) {
    if (since <= 0) since = ward->now;
    if (since < ward->since) ward->since = since;
}

void ward_verdict(ward_t *ward, const verdict_t *verdict) {
    switch (verdict->kind) {
    case VERDICT_LEAVE:
    case VERDICT_PRESENT:
        if (verdict->again < ward->nearest) ward->nearest = verdict->again;
        break;
    case VERDICT_STAMP:
    case VERDICT_SEEN: {
        int64_t due = ward->now + ward->config->policy.protected_timeout_ms;
        if (due < ward->nearest) ward->nearest = due;
        break;
    }
    default: break; // what follows from these is known when they are settled
    }
}

// Settle looks through one list: it sees no copies in those of other workers.
bool ward_sure(const ward_t *ward) {
    bool exact = dialect_ops(ward->config->dialect)->pass->rotation && ward->look.entries <= WARD_EXACT_ENTRIES;
    return exact || ward->passes >= WARD_SURE_PASSES;
}

bool ward_met_all(ward_t *ward) {
    ward->phase = WARD_SWEEP;
    ward->cursor = 0;
    return ward->look.stamps > ward->jobs || ward->look.entries == 0;
}

// A job that was put back begins a life when it is met, stamp or not. Its stamp matters only where its own date would end it.
static int64_t requeued_for_ms(const queue_policy_t *policy) { return *policy->created_path ? policy->alive_timeout_ms : 0; }

bool ward_keeps(void *self, const uint8_t field[STAMP_FIELD_BYTES], const stamp_t *stamp) {
    ward_t *ward = self;
    const queue_policy_t *policy = &ward->config->policy;
    if (!stamp->seen && stamp->requeued && !stamp->retries) return ward->now - stamp->retried_at <= requeued_for_ms(policy);
    if (!stamp->seen) return ward->now - stamp->retried_at <= policy->retry_window_ms;
    return ward->passes == 0 || keyfilter_has(&ward->seen[0], field) || keyfilter_has(&ward->seen[1], field);
}

static bool count_copy(void *self, const uint8_t key[KEY_BYTES], int64_t *met) {
    ward_t *ward = self;
    if (*met > 1) keymap_put(&ward->copies, key);
    return false;
}

static bool suspect_again(void *self, const uint8_t key[KEY_BYTES], int64_t *met) {
    keymap_put(self, key);
    (void)met;
    return true;
}

static bool met_now(void *self, const uint8_t key[KEY_BYTES]) { return keyfilter_has(self, key); }

void ward_end(ward_t *ward, mono_t now) {
    ward->passes++;
    ward->largest[1] = ward->largest[0];
    ward->largest[0] = 0;
    workers_filter(&ward->workers, met_now, &ward->seen[0]);
    for (size_t i = 0; i < ward->report_count; i++)
        ward->report_list[i].missed = ward->report_list[i].met ? 0 : ward->report_list[i].missed + 1;
    // What was met more than once is copies, and stays suspect; so is what the filter met again for the first time.
    keymap_free(&ward->copies);
    keymap_filter(&ward->suspects, count_copy, ward);
    keymap_free(&ward->suspects);
    ward->suspects = ward->suspects_next;
    ward->suspects_next = (keymap_t){0};
    keymap_filter(&ward->copies, suspect_again, &ward->suspects);
    keyfilter_t older = ward->seen[1];
    ward->seen[1] = ward->seen[0];
    ward->seen[0] = older;
    ward->phase = WARD_WAIT;
    ward->quiet = false;
    if (!ward->met_sentinel && !ward->reads_only) ward->look.sentinel_len = 0; // it is gone: the next one that is met is it
    metric_add(&ward->metrics->passes, 1);
    metric_set(&ward->metrics->in_progress, ward->jobs);
    metric_set(&ward->metrics->in_progress_since_ms, ward->since == INT64_MAX ? 0 : ward->since);
    int64_t took = mono_diff(now, ward->began);
    metric_add(&ward->metrics->pass_us, took / NS_PER_US);
    int64_t pause = took > WARD_LEAST_MS * NS_PER_MS ? took : WARD_LEAST_MS * NS_PER_MS;
    int64_t in = ward->interval_ms * NS_PER_MS;
    ward->soonest = mono_add(now, pause);
    // Our own rotation has made Redis forget whom to wake: one more look arms it again, and then there is silence. What is still
    // there after that is no job, and no reason to hurry.
    ward->hushed = ward->jobs == 0 && ward->report_count == 0 ? ward->hushed + 1 : 0;
    bool settling = ward->hushed && ward->hushed <= HUSHED_PASSES;
    if (ward->nearest != INT64_MAX) {
        int64_t until = ward->nearest + 1 - ward->now; // a timeout is over when it is exceeded
        if (until < in / NS_PER_MS) in = until * NS_PER_MS;
    }
    if (ward->unsettled || settling || ward->changed || in < pause) in = pause;
    ward->next = mono_add(now, in);
}

static bool is_stray(const ward_report_t *report) { return !report->out && report->missed >= REPORT_MISSED_PASSES; }

bool ward_has_strays(const ward_t *ward) {
    for (size_t i = 0; i < ward->report_count; i++)
        if (is_stray(&ward->report_list[i])) return true;
    return false;
}

const ward_report_t *ward_stray_report(const ward_t *ward, const digest_t *digest) {
    const ward_report_t *report = ward_report_of(ward, digest);
    return report && is_stray(report) ? report : NULL;
}

void ward_drop_report(ward_t *ward, const ward_report_t *report) { // the rest of it goes with the next scan
    ward->report_list[report - ward->report_list].out = true;
}
