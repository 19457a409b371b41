#include "monitor.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/crash.h"
#include "base/log.h"
#include "link.h"
#include "monitor_judge.h"
#include "terms.h"
#include "ward.h"

enum {
    TICK_MS = 100,    // a tick comes up for air at least this often
    LOOKS_CHUNK = 64, // queues that are looked at in one request
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
    link_t link;
    ward_t *wards;
    watched_t *watched; // sorted by key
    size_t watched_count;
    terms_t terms;
    size_t cursor;    // whose turn it is
    mono_t safety_at; // when idle queues are looked at
    json_t *json;
    judge_room_t *room;
    backup_page_t pages[2]; // the one that is judged, and the one that comes
    int page;
    size_t paging; // the queue that pages[page] is of
};

static int compare_watched(const void *a, const void *b) {
    return strcmp(((const watched_t *)a)->key, ((const watched_t *)b)->key);
}

monitor_t *monitor_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    static const char *const NAMES[] = {"queue-sidecar-monitor", "queue-sidecar-monitor-ear"};
    monitor_t *m = mem_alloc(sizeof *m);
    m->keys = keys;
    m->metrics = metrics;
    m->stop = stop;
    link_init(&m->link, ROLE, NAMES, &keys->config->redis, metrics, stop);
    m->wards = mem_array(keys->queue_count, sizeof *m->wards);
    m->watched = mem_array(keys->queue_count, 2 * sizeof *m->watched);
    terms_init(&m->terms, ROLE, keys, leases);
    m->json = json_new();
    m->room = judge_room_new();
    for (size_t i = 0; i < keys->queue_count; i++) {
        const queue_config_t *queue = keys->queues[i].config;
        ward_init(&m->wards[i], queue, &metrics->queues[i], keys->config->monitor.scan_interval_ms);
        if (!(queue->policy.roles & ROLE_MONITOR)) continue;
        m->watched[m->watched_count++] = (watched_t){queue->backup, i, false};
        m->watched[m->watched_count++] = (watched_t){queue->errors, i, true};
    }
    qsort(m->watched, m->watched_count, sizeof *m->watched, compare_watched);
    return m;
}

void monitor_free(monitor_t *m) {
    if (!m) return;
    for (size_t i = 0; i < m->keys->queue_count; i++) ward_free(&m->wards[i]);
    for (int i = 0; i < 2; i++) backup_page_clear(&m->pages[i]);
    link_free(&m->link);
    json_free(m->json);
    judge_room_free(m->room);
    free(m->wards);
    free(m->watched);
    terms_free(&m->terms);
    free(m);
}

static void forget_everything(monitor_t *m) {
    for (int i = 0; i < 2; i++) backup_page_clear(&m->pages[i]);
    for (size_t i = 0; i < m->keys->queue_count; i++) ward_forget(&m->wards[i]);
}

// The page in hand, if it is of this queue, whose pass does not go on.
static void drop_page(monitor_t *m, size_t queue) {
    if (m->paging == queue) backup_page_clear(&m->pages[m->page]);
}

static void put_off(monitor_t *m, const fault_t *fault) {
    link_put_off(&m->link, fault);
    // A pass that was under way is not gone on with: the next one begins where the list stands.
    forget_everything(m);
}

static void term_began(void *self, size_t queue) {
    monitor_t *m = self;
    ward_forget(&m->wards[queue]);
    drop_page(m, queue);
}

static bool served(monitor_t *m, size_t queue, lease_t *lease) {
    return (m->wards[queue].config->policy.roles & ROLE_MONITOR) && terms_serve(&m->terms, queue, lease);
}

static void fence(monitor_t *m, size_t queue, const lease_t *lease) {
    terms_fence(&m->terms, queue, lease->term);
    ward_forget(&m->wards[queue]);
    drop_page(m, queue);
}

static int compare_key(const void *key, const void *watched) { return strcmp(key, ((const watched_t *)watched)->key); }

static void on_change(void *self, const char *key, size_t len) {
    monitor_t *m = self;
    mono_t now = mono_now();
    for (size_t i = 0; !key && i < m->keys->queue_count; i++) ward_changed(&m->wards[i], true, now);
    if (!key || strlen(key) != len) return;
    const watched_t *found = bsearch(key, m->watched, m->watched_count, sizeof *m->watched, compare_key);
    if (found) ward_changed(&m->wards[found->queue], found->errors, now);
}

// What is to be done with the outcome of a request for one queue. False: nothing more can be asked now.
static bool go_on(monitor_t *m, size_t queue, const fault_t *fault) {
    switch (fault->outcome) {
    case OUTCOME_OK: return true;
    case OUTCOME_FAULT:
        ward_fault(&m->wards[queue], fault->text, mono_now());
        drop_page(m, queue);
        return true;
    default: put_off(m, fault); return false;
    }
}

static bool scan_reports(monitor_t *m, size_t queue) {
    ward_t *ward = &m->wards[queue];
    uint64_t cursor = 0;
    fault_t fault;
    if (ward->look.reports == 0) {
        ward_reports_end(ward);
        return true;
    }
    do {
        outcome_t outcome = reports_scan(m->link.data, m->keys, queue, &cursor, ward_report, ward, &fault);
        if (outcome != OUTCOME_OK) return go_on(m, queue, &fault);
    } while (cursor && !ward->reports_full);
    ward_reports_end(ward);
    return true;
}

// Looks at every queue whose pass should begin, in one request, and begins those that have something to do.
static bool begin_passes(monitor_t *m, mono_t now) {
    size_t asked[LOOKS_CHUNK];
    size_t count = 0;
    lease_t lease;
    for (size_t n = 0; n < m->keys->queue_count && count < LOOKS_CHUNK; n++) {
        size_t queue = (m->cursor + n) % m->keys->queue_count;
        const ward_t *ward = &m->wards[queue];
        if (ward->phase != WARD_WAIT || !ward_wants(ward, now) || !served(m, queue, &lease)) continue;
        backup_look_append(m->link.data, m->keys, queue, &ward->look, m->link.waking);
        asked[count++] = queue;
    }
    backup_look_t looks[LOOKS_CHUNK];
    fault_t faults[LOOKS_CHUNK];
    for (size_t i = 0; i < count; i++)
        if (backup_look_read(m->link.data, m->keys, asked[i], m->link.waking, &looks[i], &faults[i]) == OUTCOME_LOST) {
            put_off(m, &faults[i]);
            return false;
        }
    for (size_t i = 0; i < count; i++) {
        if (!go_on(m, asked[i], &faults[i])) return false;
        if (faults[i].outcome != OUTCOME_OK || !ward_begin(&m->wards[asked[i]], &looks[i], mono_now())) continue;
        if (!scan_reports(m, asked[i])) return false;
    }
    return true;
}

// Sentinels of earlier passes, which somebody left behind. Read without rotation they stay: a removal would move what is behind.
static bool remove_old_sentinels(monitor_t *m, size_t queue, const backup_page_t *page) {
    for (size_t i = 0; i < page->count; i++) {
        fault_t fault;
        if (page->entries[i].kind != ENTRY_OLD_SENTINEL || page->standing) continue;
        metric_add(&m->wards[queue].metrics->old_sentinels, 1);
        backup_remove_sentinel(m->link.data, m->keys, queue, page->entries[i].bytes, &fault);
        if (!go_on(m, queue, &fault)) return false;
    }
    return true;
}

static void ask_page(monitor_t *m, size_t queue, size_t count) {
    ward_t *ward = &m->wards[queue];
    if (ward->reads_only)
        backup_range_append(m->link.data, m->keys, queue, ward->read, count);
    else
        backup_rotate_append(m->link.data, m->keys, queue, count, ward->left == ward->look.entries);
}

// At maxmemory Redis refuses to rotate; then the list is read where it stands.
static bool full(const fault_t *fault) { return fault->outcome == OUTCOME_LATER && strncmp(fault->text, "OOM", 3) == 0; }

static outcome_t read_page(monitor_t *m, size_t queue, size_t count, backup_page_t *page, fault_t *fault) {
    ward_t *ward = &m->wards[queue];
    if (ward->reads_only) return backup_range_read(m->link.data, &ward->look, count, page, fault);
    if (backup_rotate_read(m->link.data, &ward->look, count, page, fault) != OUTCOME_LATER || !full(fault)) return fault->outcome;
    log_error(ROLE, ward->config->name, "redis is full: workers stand still, and the backup list is read without rotation",
              F_STR("reason", fault->text));
    ward->reads_only = true;
    *fault = (fault_t){0};
    return OUTCOME_OK;
}

static bool others_wait(monitor_t *m, size_t queue) {
    lease_t lease;
    for (size_t i = 0; i < m->keys->queue_count; i++)
        if (i != queue && m->wards[i].phase != WARD_WAIT && served(m, i, &lease)) return true;
    return false;
}

// One step of a pass: judges the page that came last, while the next one is on its way.
static bool rotate(monitor_t *m, size_t queue, const lease_t *lease) {
    ward_t *ward = &m->wards[queue];
    backup_page_t *page = &m->pages[m->page];
    backup_page_t *next = &m->pages[1 - m->page];
    stamp_t stamps[BACKUP_PAGE];
    stamp_raw_t raws[BACKUP_PAGE];
    fault_t fault;
    fault_t later = {0};
    bool fenced = false;
    // Where others wait, the page in hand is judged without another one, and then it is their turn.
    size_t count = page->count && others_wait(m, queue) ? 0 : ward_wanted(ward);
    backup_page_clear(next);
    stamps_append(m->link.data, m->keys, queue, page);
    if (count) ask_page(m, queue, count);
    if (stamps_read(m->link.data, page, stamps, raws, &ward->now, &fault) == OUTCOME_LOST) return go_on(m, queue, &fault);
    if (count && read_page(m, queue, count, next, &later) == OUTCOME_LOST) return go_on(m, queue, &later);
    if (fault.outcome == OUTCOME_OK) fault = later;
    if (fault.outcome != OUTCOME_OK) return go_on(m, queue, &fault);
    judge_t judge = {.conn = m->link.data,
                     .keys = m->keys,
                     .queue = queue,
                     .token = lease->token,
                     .ward = ward,
                     .json = m->json,
                     .room = m->room,
                     .standing = page->standing};
    ward->now_at = mono_now();
    judge_page(&judge, page, stamps, raws, &fenced, &fault);
    if (!go_on(m, queue, &fault)) return false;
    if (fenced) fence(m, queue, lease);
    if (fault.outcome != OUTCOME_OK || fenced) return true;
    if (count) ward_page(ward, next);
    if (!remove_old_sentinels(m, queue, next)) return false;
    m->page = 1 - m->page;
    return true;
}

static bool plant(monitor_t *m, size_t queue, const lease_t *lease) {
    ward_t *ward = &m->wards[queue];
    bool planted;
    bool fenced;
    fault_t fault;
    if (ward->met_sentinel || ward->reads_only || ward->look.entries == 0) return true;
    crash_at("plant_before");
    backup_plant(m->link.data, m->keys, queue, lease->token, &ward->look, &planted, &fenced, &fault);
    if (!go_on(m, queue, &fault)) return false;
    crash_at("plant_answered");
    if (planted) metric_add(&ward->metrics->sentinels, 1);
    if (fenced) fence(m, queue, lease);
    return true;
}

static bool drop_stray_reports(monitor_t *m, size_t queue, const lease_t *lease) {
    ward_report_t stray;
    while (ward_stray_report(&m->wards[queue], &stray)) {
        fault_t fault;
        bool removed;
        bool fenced;
        report_remove(m->link.data, m->keys, queue, lease->token, (slice_t){stray.job, stray.job_len}, stray.sha1, &removed,
                      &fenced, &fault);
        free(stray.job);
        if (!go_on(m, queue, &fault)) return false;
        if (fenced) fence(m, queue, lease);
        if (fenced || fault.outcome != OUTCOME_OK) return true;
        if (!removed) continue;
        ward_changed(&m->wards[queue], true, mono_now()); // our own write has made Redis forget to tell of the next report
        log_warn(ROLE, m->wards[queue].config->name, "removed a report whose job is not in progress");
        metric_add(&m->wards[queue].metrics->stray_reports, 1);
    }
    return true;
}

static bool finish(monitor_t *m, size_t queue, const lease_t *lease) {
    if (!plant(m, queue, lease)) return false;
    ward_end(&m->wards[queue], mono_now());
    return drop_stray_reports(m, queue, lease);
}

static bool sweep(monitor_t *m, size_t queue, const lease_t *lease) {
    ward_t *ward = &m->wards[queue];
    int64_t removed = 0;
    bool fenced;
    fault_t fault;
    stamps_sweep(m->link.data, m->keys, queue, lease->token, &ward->cursor, ward_keeps, ward, &removed, &fenced, &fault);
    if (!go_on(m, queue, &fault)) return false;
    if (fenced) fence(m, queue, lease);
    if (fault.outcome != OUTCOME_OK || fenced || ward->cursor) return true;
    return finish(m, queue, lease);
}

// One step of the pass of one queue. Pages are of one queue, so its turn lasts until its pages are judged.
static bool step(monitor_t *m, size_t queue, const lease_t *lease) {
    ward_t *ward = &m->wards[queue];
    if (ward->phase == WARD_SWEEP) return sweep(m, queue, lease);
    if (!rotate(m, queue, lease)) return false;
    if (ward->phase != WARD_ROTATE || ward_wanted(ward) || m->pages[m->page].count) return true;
    return ward_met_all(ward) || finish(m, queue, lease);
}

// The queue whose pass goes on now: the one whose page is in hand, or the next in turn.
static bool next_queue(monitor_t *m, size_t *queue, lease_t *lease) {
    size_t count = m->keys->queue_count;
    if (m->pages[m->page].count && m->wards[m->paging].phase == WARD_ROTATE && served(m, m->paging, lease)) {
        *queue = m->paging;
        return true;
    }
    for (size_t n = 0; n < count; n++) {
        *queue = (m->cursor + n) % count;
        if (m->wards[*queue].phase == WARD_WAIT || !ward_wants(&m->wards[*queue], mono_now())) continue;
        if (!served(m, *queue, lease)) continue;
        m->cursor = (*queue + 1) % count;
        backup_page_clear(&m->pages[m->page]);
        m->paging = *queue;
        return true;
    }
    return false;
}

static void safety(monitor_t *m, mono_t now) {
    if (!mono_reached(m->safety_at, now)) return;
    m->safety_at = mono_add(now, WARD_SAFETY_S * NS_PER_S);
    for (size_t i = 0; i < m->keys->queue_count; i++) ward_safety(&m->wards[i], now);
}

static void work(monitor_t *m) {
    mono_t started = mono_now();
    safety(m, started);
    while (!atomic_load(m->stop) && mono_diff(mono_now(), started) < TICK_MS * NS_PER_MS) {
        size_t queue;
        lease_t lease;
        if (!link_hear(&m->link, on_change, m)) return;
        if (!begin_passes(m, mono_now()) || !next_queue(m, &queue, &lease)) return;
        if (!step(m, queue, &lease)) return;
    }
}

static bool connected(monitor_t *m, mono_t now) {
    bool fresh;
    bool open = link_open(&m->link, now, &fresh);
    if (fresh) forget_everything(m);
    return open;
}

static mono_t next_time(monitor_t *m) {
    mono_t next = m->safety_at;
    for (size_t i = 0; i < m->keys->queue_count; i++) {
        lease_t lease;
        if (served(m, i, &lease)) next = mono_min(next, ward_next(&m->wards[i]));
    }
    if (!m->link.waking) next = mono_min(next, m->link.wake_at);
    return mono_max(next, m->link.retry_at);
}

void monitor_tick(void *self, role_wait_t *wait) {
    monitor_t *m = self;
    if (m->watched_count == 0 || !terms_look(&m->terms, term_began, m)) {
        if (conn_is_open(m->link.data)) {
            link_close(&m->link);
            forget_everything(m);
        }
        return; // the lease wakes us
    }
    mono_t now = mono_now();
    if (mono_reached(m->link.retry_at, now) && connected(m, now) && link_alive(&m->link)) work(m);
    wait->until = next_time(m);
    // While we are put off nothing is read, and a socket with news would end every wait at once.
    if (!mono_reached(m->link.retry_at, mono_now())) return;
    role_wait_fd(wait, conn_fd(m->link.data));
    if (m->link.waking) role_wait_fd(wait, conn_fd(m->link.ear));
}
