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
    ward_t *wards;
    watched_t *watched; // sorted by key
    size_t watched_count;
    bool any; // queues that passes are made of
    leadership_t leadership;
    size_t cursor;    // whose turn it is
    mono_t safety_at; // when idle queues are looked at
    json_t *json;
    judge_room_t *room;
    watches_t *watches;
    pages_t *pages; // of one pass
    size_t paging;  // the queue that they are of
    unsigned turn;  // pages that were judged since its turn began
};

static const dialect_ops_t *ops_of(const keyspace_t *keys, size_t queue) {
    return dialect_ops(keys->queues[queue].config->dialect);
}

static int compare_watched(const void *a, const void *b) {
    return strcmp(((const watched_t *)a)->key, ((const watched_t *)b)->key);
}

monitor_t *monitor_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop) {
    static const char *const NAMES[] = {"queue-sidecar-monitor", "queue-sidecar-monitor-ear"};
    monitor_t *m = mem_alloc(sizeof *m);
    m->keys = keys;
    m->metrics = metrics;
    m->stop = stop;
    session_init(&m->session, ROLE, NAMES, &keys->config->redis, metrics, stop);
    m->wards = mem_array(keys->queue_count, sizeof *m->wards);
    m->watched = mem_array(keys->queue_count, 2 * sizeof *m->watched);
    leadership_init(&m->leadership, ROLE, keys, leases);
    m->json = json_new();
    m->room = judge_room_new();
    m->pages = pages_new(keys);
    m->watches = watches_new(keys);
    for (size_t i = 0; i < keys->queue_count; i++) {
        const queue_config_t *queue = keys->queues[i].config;
        ward_init(&m->wards[i], queue, metrics_queue(metrics, queue->name), keys->config->monitor.scan_interval_ms);
        if (!(queue->policy.roles & ROLE_MONITOR)) continue;
        const dialect_ops_t *ops = ops_of(keys, i);
        if (ops->watch) monitor_watch(m, i, ops->watch);
        if (!ops->pass) continue;
        m->any = true;
        if (ops->pass->rotation) m->watched[m->watched_count++] = (watched_t){queue->backup, i, false};
        if (ops->pass->rotation && ops->pass->rotation->reports)
            m->watched[m->watched_count++] = (watched_t){queue->errors, i, true};
    }
    qsort(m->watched, m->watched_count, sizeof *m->watched, compare_watched);
    return m;
}

static void on_heard(void *self, const char *channel, slice_t message) {
    watches_heard(((monitor_t *)self)->watches, channel, message);
}

void monitor_watch(monitor_t *m, size_t queue, const watch_ops_t *ops) {
    size_t count;
    watches_add(m->watches, queue, ops, m->wards[queue].metrics, m->wards[queue].interval_ms);
    const char *const *channels = watches_channels(m->watches, &count);
    session_subscribe(&m->session, channels, count, on_heard, m);
}

void monitor_free(monitor_t *m) {
    if (!m) return;
    watches_free(m->watches);
    for (size_t i = 0; i < m->keys->queue_count; i++) ward_free(&m->wards[i]);
    pages_free(m->pages);
    session_free(&m->session);
    json_free(m->json);
    judge_room_free(m->room);
    free(m->wards);
    free(m->watched);
    leadership_free(&m->leadership);
    free(m);
}

static void forget_everything(monitor_t *m) {
    pages_drop(m->pages, m->session.data);
    for (size_t i = 0; i < m->keys->queue_count; i++) {
        ward_forget(&m->wards[i]);
        pages_forget(m->pages, i);
    }
    watches_forget_all(m->watches);
}

// The pages in hand, if they are of this queue, whose pass does not go on.
static void drop_pages(monitor_t *m, size_t queue) {
    if (m->paging == queue) pages_drop(m->pages, m->session.data);
}

static void forget(monitor_t *m, size_t queue) {
    ward_forget(&m->wards[queue]);
    watches_forget(m->watches, queue);
    drop_pages(m, queue);
    pages_forget(m->pages, queue);
}

static void put_off(monitor_t *m, const redis_error_t *error) {
    session_back_off(&m->session, error);
    // A pass that was under way is not gone on with: the next one begins where the list stands.
    forget_everything(m);
}

static void term_began(void *self, size_t queue) { forget(self, queue); }

static bool served(void *self, size_t queue, lease_t *lease) {
    monitor_t *m = self;
    return (m->wards[queue].config->policy.roles & ROLE_MONITOR) && leadership_may_serve(&m->leadership, queue, lease);
}

// The same for passes, which not every dialect has.
static bool pass_served(monitor_t *m, size_t queue, lease_t *lease) {
    return ops_of(m->keys, queue)->pass && served(m, queue, lease);
}

static void fence(monitor_t *m, size_t queue, const lease_t *lease) {
    leadership_fence(&m->leadership, queue, lease->term);
    forget(m, queue);
}

static int compare_key(const void *key, const void *watched) { return strcmp(key, ((const watched_t *)watched)->key); }

static void on_change(void *self, const char *key, size_t len) {
    monitor_t *m = self;
    mono_t now = mono_now();
    watches_changed(m->watches, key, len);
    for (size_t i = 0; !key && i < m->keys->queue_count; i++) ward_changed(&m->wards[i], true, now);
    if (!key || strlen(key) != len) return;
    const watched_t *found = bsearch(key, m->watched, m->watched_count, sizeof *m->watched, compare_key);
    if (found) ward_changed(&m->wards[found->queue], found->errors, now);
}

static call_t call_of(monitor_t *m, size_t queue, const lease_t *lease, redis_error_t *error) {
    return (call_t){m->session.data, m->keys, queue, lease ? lease->token : NULL, error};
}

// What is to be done with the outcome of a request for one queue. `lease` may be NULL where the request is not fenced. False:
// nothing more can be asked now.
static bool go_on(monitor_t *m, const call_t *call, const lease_t *lease) {
    switch (call->error->outcome) {
    case OUTCOME_OK: return true;
    case OUTCOME_REFUSED:
        ward_fault(&m->wards[call->queue], call->error->text, mono_now());
        drop_pages(m, call->queue);
        return true;
    case OUTCOME_FENCED: fence(m, call->queue, lease); return true;
    default: put_off(m, call->error); return false;
    }
}

// Reads what is under way of the pages in hand, so that something else can be asked.
static bool land(monitor_t *m) {
    redis_error_t error;
    const call_t call = call_of(m, m->paging, NULL, &error);
    return pages_land_all(m->pages, &call, &m->wards[m->paging]) == OUTCOME_OK || go_on(m, &call, NULL);
}

static size_t wanted_looks(monitor_t *m, size_t asked[LOOKS_CHUNK], mono_t now) {
    size_t count = 0;
    lease_t lease;
    for (size_t n = 0; n < m->keys->queue_count && count < LOOKS_CHUNK; n++) {
        size_t queue = (m->cursor + n) % m->keys->queue_count;
        const ward_t *ward = &m->wards[queue];
        if (ward->phase == WARD_WAIT && ward_wants(ward, now) && pass_served(m, queue, &lease)) asked[count++] = queue;
    }
    return count;
}

// Looks at every queue whose pass should begin, in one request, and begins those that have something to do.
static bool begin_passes(monitor_t *m, mono_t now) {
    size_t asked[LOOKS_CHUNK];
    backup_look_t looks[LOOKS_CHUNK];
    redis_error_t errors[LOOKS_CHUNK];
    call_t calls[LOOKS_CHUNK];
    size_t count = wanted_looks(m, asked, now);
    if (count && !land(m)) return false;
    for (size_t i = 0; i < count; i++) {
        calls[i] = call_of(m, asked[i], NULL, &errors[i]);
        pages_look_append(m->pages, &calls[i], &m->wards[asked[i]].look, m->session.tracking);
    }
    for (size_t i = 0; i < count; i++)
        if (pages_look_read(m->pages, &calls[i], &m->wards[asked[i]].look, m->session.tracking, &looks[i]) ==
            OUTCOME_DISCONNECTED) {
            put_off(m, &errors[i]);
            return false;
        }
    for (size_t i = 0; i < count; i++) {
        ward_t *ward = &m->wards[asked[i]];
        if (!go_on(m, &calls[i], NULL)) return false;
        if (errors[i].outcome != OUTCOME_OK || !ward_begin(ward, &looks[i], mono_now())) continue;
        monitor_reports_read(&calls[i], ward);
        if (!go_on(m, &calls[i], NULL)) return false;
    }
    return true;
}

static bool others_wait(monitor_t *m, size_t queue) {
    lease_t lease;
    for (size_t i = 0; i < m->keys->queue_count; i++)
        if (i != queue && m->wards[i].phase != WARD_WAIT && pass_served(m, i, &lease)) return true;
    return false;
}

// Sentinels of earlier passes, which somebody left behind. Read without rotation they stay: a removal would move what is behind.
static bool remove_old_sentinels(monitor_t *m, const call_t *call, const backup_page_t *page) {
    for (size_t i = 0; i < page->count; i++) {
        if (page->entries[i].kind != ENTRY_OLD_SENTINEL || page->standing) continue;
        metric_add(&m->wards[call->queue].metrics->old_sentinels, 1);
        outcome_t outcome = backup_remove_sentinel(call, page->entries[i].bytes);
        if (!go_on(m, call, NULL)) return false;
        if (outcome != OUTCOME_OK) break; // and the page is gone
    }
    return true;
}

static bool has_old_sentinels(const backup_page_t *page) {
    for (size_t i = 0; i < page->count; i++)
        if (page->entries[i].kind == ENTRY_OLD_SENTINEL) return true;
    return false;
}

// What is refused about one job, by a key of the wrong type, say, must not keep those behind it from their turn, nor the pass
// from its end, without which nothing is ended in a long list. So it goes on, and the refusal is told at its end.
static void note_refused(ward_t *ward, redis_error_t *error) {
    if (error->outcome != OUTCOME_REFUSED) return;
    if (!ward->refused) ward->refused = mem_str(error->text);
    *error = (redis_error_t){0};
}

// Judges one page. Where something must be done about it, what is under way is read first.
static bool judge(monitor_t *m, const call_t *call, const lease_t *lease, const sheet_t *sheet) {
    ward_t *ward = &m->wards[call->queue];
    judge_t judge = {.call = call,
                     .ward = ward,
                     .ops = ops_of(m->keys, call->queue),
                     .json = m->json,
                     .room = m->room,
                     .standing = sheet->page.standing};
    ward->now = sheet->now;
    size_t count = judge_meet(&judge, &sheet->page, sheet->stamps, sheet->raws);
    bool old = has_old_sentinels(&sheet->page);
    if (count || old) {
        if (!land(m)) return false;
        if (ward->phase != WARD_ROTATE) return true; // at fault
        *call->error = (redis_error_t){0};
        if (count) judge_act(&judge, count);
        note_refused(ward, call->error);
        if (!go_on(m, call, lease)) return false;
        if (call->error->outcome != OUTCOME_OK) return true;
        if (old && !remove_old_sentinels(m, call, &sheet->page)) return false;
        if (ward->phase != WARD_ROTATE) return true;
    }
    pages_done(m->pages);
    m->turn++;
    return true;
}

// One step of a pass: judges the oldest page in hand, or waits for it.
static bool rotate(monitor_t *m, const call_t *call, const lease_t *lease) {
    ward_t *ward = &m->wards[call->queue];
    bool more = m->turn < TURN_PAGES || !others_wait(m, call->queue);
    if (pages_ask(m->pages, call, ward, more) != OUTCOME_OK) return go_on(m, call, lease);
    const sheet_t *sheet = pages_ready(m->pages);
    if (sheet) return judge(m, call, lease, sheet);
    if (pages_flying(m->pages) && pages_land(m->pages, call, ward) != OUTCOME_OK) return go_on(m, call, lease);
    return true;
}

static bool push_sentinel(monitor_t *m, const call_t *call, const lease_t *lease) {
    ward_t *ward = &m->wards[call->queue];
    bool pushed;
    if (ward->met_sentinel || ward->reads_only || ward->look.entries == 0) return true;
    failpoint("plant_before");
    backup_push_sentinel(call, &ward->look, &pushed);
    note_refused(ward, call->error);
    if (!go_on(m, call, lease)) return false;
    failpoint("plant_answered");
    if (pushed) metric_add(&ward->metrics->sentinels, 1);
    return true;
}

static bool drop_stray_reports(monitor_t *m, const call_t *call, const lease_t *lease) {
    ward_t *ward = &m->wards[call->queue];
    monitor_reports_drop(call, ward);
    note_refused(ward, call->error);
    return go_on(m, call, lease);
}

// Where the term turns out to be over the pass is forgotten, and nothing is known of what was refused.
static bool finish(monitor_t *m, const call_t *call, const lease_t *lease) {
    ward_t *ward = &m->wards[call->queue];
    if (!push_sentinel(m, call, lease)) return false;
    if (ward->phase == WARD_WAIT) return true;
    ward_end(ward, mono_now());
    if (!drop_stray_reports(m, call, lease)) return false;
    if (ward->passes) ward_tell(ward, mono_now());
    return true;
}

static bool prune_stamps(monitor_t *m, const call_t *call, const lease_t *lease) {
    ward_t *ward = &m->wards[call->queue];
    failpoint("sweep_before");
    outcome_t outcome = stamps_prune(call, &ward->cursor, ward_keeps, ward);
    if (!go_on(m, call, lease)) return false;
    failpoint("sweep_answered");
    if (outcome != OUTCOME_OK || ward->cursor) return true;
    return finish(m, call, lease);
}

// One step of the pass of one queue. Pages are of one queue, so its turn lasts until its pages are judged.
static bool step(monitor_t *m, size_t queue, const lease_t *lease) {
    ward_t *ward = &m->wards[queue];
    redis_error_t error;
    const call_t call = call_of(m, queue, lease, &error);
    if (ward->phase == WARD_SWEEP) return prune_stamps(m, &call, lease);
    if (!rotate(m, &call, lease)) return false;
    if (ward->phase != WARD_ROTATE || ward_wanted(ward) || !pages_empty(m->pages)) return true;
    return ward_met_all(ward) || finish(m, &call, lease);
}

// The queue whose pass goes on now: the one whose pages are in hand, or the next in turn.
static bool next_queue(monitor_t *m, size_t *queue, lease_t *lease) {
    size_t count = m->keys->queue_count;
    if (!pages_empty(m->pages) && m->wards[m->paging].phase == WARD_ROTATE && pass_served(m, m->paging, lease)) {
        *queue = m->paging;
        return true;
    }
    for (size_t n = 0; n < count; n++) {
        *queue = (m->cursor + n) % count;
        if (m->wards[*queue].phase == WARD_WAIT || !ward_wants(&m->wards[*queue], mono_now())) continue;
        if (!pass_served(m, *queue, lease)) continue;
        m->cursor = (*queue + 1) % count;
        pages_drop(m->pages, m->session.data);
        m->paging = *queue;
        m->turn = 0;
        return true;
    }
    return false;
}

// One step of a watch, whose turn comes beside that of a pass. False: nothing more can be asked now. *worked: there was one.
static bool watch(monitor_t *m, bool *worked) {
    lease_t lease;
    redis_error_t error;
    watch_t *next = watches_turn(m->watches, served, m, mono_now(), &lease);
    if (!next) return true;
    *worked = true;
    if (!land(m)) return false;
    watch_with_t with = {.conn = m->session.data, .token = lease.token, .json = m->json, .arm = m->session.tracking};
    watch_step(m->watches, next, &with, &error);
    const call_t call = call_of(m, watch_queue(next), &lease, &error);
    return go_on(m, &call, &lease);
}

static void safety(monitor_t *m, mono_t now) {
    if (!mono_reached(m->safety_at, now)) return;
    m->safety_at = mono_add(now, WARD_SAFETY_S * NS_PER_S);
    for (size_t i = 0; i < m->keys->queue_count; i++) ward_safety(&m->wards[i], now);
    watches_changed(m->watches, NULL, 0);
}

static void work(monitor_t *m) {
    mono_t started = mono_now();
    safety(m, started);
    while (!atomic_load(m->stop) && mono_diff(mono_now(), started) < TICK_MS * NS_PER_MS) {
        size_t queue;
        lease_t lease;
        if (!session_read_messages(&m->session, on_change, m) || !begin_passes(m, mono_now())) break;
        bool worked = next_queue(m, &queue, &lease);
        if (worked && !step(m, queue, &lease)) break;
        if (!watch(m, &worked) || !worked) break;
    }
    (void)land(m);
}

static bool connected(monitor_t *m, mono_t now) {
    bool fresh;
    bool open = session_open(&m->session, now, &fresh);
    if (fresh) forget_everything(m);
    return open;
}

static mono_t next_time(monitor_t *m) {
    mono_t next = mono_min(m->safety_at, watches_next(m->watches, served, m));
    for (size_t i = 0; i < m->keys->queue_count; i++) {
        lease_t lease;
        if (pass_served(m, i, &lease)) next = mono_min(next, ward_next(&m->wards[i]));
    }
    if (!m->session.tracking) next = mono_min(next, m->session.tracking_retry_at);
    return mono_max(next, m->session.retry_at);
}

void monitor_tick(void *self, role_wait_t *wait) {
    monitor_t *m = self;
    bool idle = !m->any && watches_count(m->watches) == 0; // the dispatcher alone serves these queues
    if (idle || !leadership_refresh(&m->leadership, term_began, m)) {
        if (conn_is_open(m->session.data)) {
            session_close(&m->session);
            forget_everything(m);
        }
        return; // the lease wakes us
    }
    mono_t now = mono_now();
    if (mono_reached(m->session.retry_at, now) && connected(m, now) && session_check_alive(&m->session)) work(m);
    wait->until = next_time(m);
    // While we are put off nothing is read, and a socket with news would end every wait at once.
    if (role_backing_off(wait, m->session.retry_at)) return;
    role_wait_fd(wait, conn_fd(m->session.data));
    if (m->session.tracking) role_wait_fd(wait, conn_fd(m->session.subscriber));
}

void monitor_finish(void *self) {
    monitor_t *m = self;
    for (watch_t *last = NULL; (last = watches_leaving(m->watches, last)) && conn_is_open(m->session.data);) {
        lease_t lease;
        redis_error_t error;
        if (!served(m, watch_queue(last), &lease)) continue;
        watch_with_t with = {.conn = m->session.data, .token = lease.token, .json = m->json};
        if (watch_leave(m->watches, last, &with, &error) == OUTCOME_OK) continue;
        log_warn(ROLE, NULL, "what the monitor holds in redis could not be given back", F_STR("reason", error.text));
        return;
    }
}
