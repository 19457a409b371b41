#include "monitor/pages.h"

#include "base/buffer.h"
#include "base/log.h"
#include "dialects/dialect.h"
#include "queue/stamps.h"

enum { ROOM = 3 }; // the page that is judged, the page whose stamps are requested, and the page whose entries are requested

static const char ROLE[] = "monitor";

// The request in flight. All members are 0 if there is none.
typedef struct request {
    bool stamps;
    size_t entries;       // entries that the scan has not met; 0 = the request asks for no entries
    bool in_place;        // without rotation: of a backup list,
    backup_range_t range; // this part, with entries that the scan has met
} request_t;

// Pages are numbered from 0 and take four steps. Each counter is the number of the next page to take that step; page n is at
// n % ROOM.
struct pages {
    const keyspace_t *keys;
    void **states; // state of each queue, from scan_ops.open; NULL = none
    size_t asked;  // pages requested
    size_t read;   // pages read
    size_t ready;  // pages whose stamps are read
    size_t done;   // pages judged
    request_t request;
    stamped_page_t stamped_pages[ROOM];
};

pages_t *pages_new(const keyspace_t *keys) {
    pages_t *pages = mem_alloc(sizeof *pages);
    pages->keys = keys;
    pages->states = mem_array(keys->queue_count, sizeof *pages->states);
    return pages;
}

static const scan_ops_t *pages_ops(const pages_t *pages, size_t queue) {
    return dialect_ops(pages->keys->queues[queue].config->dialect)->scan;
}

static void *pages_state(pages_t *pages, size_t queue) {
    const scan_ops_t *ops = pages_ops(pages, queue);
    if (ops->open && !pages->states[queue]) pages->states[queue] = ops->open(&pages->keys->queues[queue]);
    return pages->states[queue];
}

void pages_forget(pages_t *pages, size_t queue) {
    if (pages->states[queue]) pages_ops(pages, queue)->close(pages->states[queue]);
    pages->states[queue] = NULL;
}

void pages_append_status(pages_t *pages, const call_t *call, const backup_status_t *known, bool arm) {
    const scan_ops_t *ops = pages_ops(pages, call->queue);
    if (ops->rotation) {
        backup_status_append(call, ops->rotation, known, arm);
        return;
    }
    if (arm && ops->reports) backup_reports_append(call);
    ops->status_append(call, pages_state(pages, call->queue));
}

outcome_t pages_read_status(pages_t *pages, const call_t *call, const backup_status_t *known, bool arm, backup_status_t *out) {
    const scan_ops_t *ops = pages_ops(pages, call->queue);
    if (!ops->rotation) {
        redis_error_t arming = {0};
        if (arm && ops->reports) (void)backup_reports_read(call, &arming);
        if (ops->status_read(call, pages_state(pages, call->queue), out) == OUTCOME_OK) *call->error = arming;
        return call->error->outcome;
    }
    backup_status_read(call, ops->rotation, arm, out);
    if (!known->marker.len) out->marker_alone = false;
    return call->error->outcome;
}

// A page that took a step twice, or left one out, would settle jobs by the stamps of others.
static void pages_assert_order(const pages_t *pages) {
    assert(pages->done <= pages->ready && pages->ready <= pages->read && pages->read <= pages->asked);
    assert(pages->asked - pages->done <= ROOM && pages->asked - pages->read <= 1);
}

static stamped_page_t *pages_slot(pages_t *pages, size_t number) { return &pages->stamped_pages[number % ROOM]; }

static void pages_clear(pages_t *pages) {
    for (size_t i = 0; i < ROOM; i++) backup_page_clear(&pages->stamped_pages[i].page);
    pages->asked = pages->read = pages->ready = pages->done = 0;
    pages->request = (request_t){0};
}

void pages_free(pages_t *pages) {
    if (!pages) return;
    pages_clear(pages);
    for (size_t i = 0; i < ROOM; i++) backup_page_free(&pages->stamped_pages[i].page);
    for (size_t i = 0; i < pages->keys->queue_count; i++) pages_forget(pages, i);
    free(pages->states);
    free(pages);
}

bool pages_in_flight(const pages_t *pages) { return pages->request.stamps || pages->request.entries; }
bool pages_empty(const pages_t *pages) { return pages->done == pages->asked; }

// An entry that memory has no room for is read for nothing, so large pages are requested one by one.
static bool pages_have_room(const pages_t *pages, const scan_t *scan) {
    size_t in_hand = pages->asked - pages->done;
    if (in_hand == 0) return true;
    return scan->of.pass.in_place && in_hand < ROOM && (in_hand + 1) * scan_page_bytes(scan) <= PAGES_BYTES;
}

static void pages_request_entries(pages_t *pages, const call_t *call, scan_t *scan, request_t *request) {
    const scan_ops_t *ops = pages_ops(pages, call->queue);
    scan_pass_t *pass = scan_pass(scan);
    request->in_place = pass->in_place;
    if (!ops->rotation) {
        ops->page_append(call, pages_state(pages, call->queue), request->entries);
    } else if (request->in_place) {
        request->range = place_request(&pass->place, request->entries);
        request->range.step = scan_page_step(scan);
        backup_range_append(call, &request->range);
    } else {
        backup_rotate_append(call, request->entries, pass->asked == 0);
    }
    scan_requested(scan, request->entries);
    pages->asked++;
}

outcome_t pages_request(pages_t *pages, const call_t *call, scan_t *scan, bool more) {
    request_t *request = &pages->request;
    *call->error = (redis_error_t){0};
    if (pages_in_flight(pages)) return OUTCOME_OK;
    request->stamps = pages->ready < pages->read;
    request->entries = more && pages_have_room(pages, scan) ? scan_entries_wanted(scan) : 0;
    if (request->stamps) stamps_append(call, &pages_slot(pages, pages->ready)->page);
    if (request->entries) pages_request_entries(pages, call, scan, request);
    pages_assert_order(pages);
    if (pages_in_flight(pages)) conn_flush(call->conn, call->error);
    return call->error->outcome;
}

static outcome_t pages_read_entries(pages_t *pages, const call_t *call, backup_status_t *status, const request_t *request,
                                    size_t held, backup_page_t *page) {
    const scan_ops_t *ops = pages_ops(pages, call->queue);
    backup_page_clear(page);
    page->others = held;
    if (!ops->rotation) {
        ops->page_read(call, pages_state(pages, call->queue), page);
        page->in_place = true;
        return call->error->outcome;
    }
    if (request->in_place) return backup_range_read(call, status, &request->range, page);
    return backup_rotate_read(call, status, request->entries, page);
}

static outcome_t pages_read_entries_reply(pages_t *pages, const call_t *call, scan_t *scan, const request_t *request) {
    redis_error_t *error = call->error;
    size_t held = 0;
    for (size_t i = pages->done; i < pages->read; i++) held += pages_slot(pages, i)->page.held;
    backup_page_t *page = &pages_slot(pages, pages->read++)->page;
    pages_read_entries(pages, call, &scan->status, request, held, page);
    if (error->kind == ERROR_FULL) { // Redis refuses to rotate
        log_error(ROLE, scan->config->name,
                  "redis is full: workers cannot take jobs; the monitor reads the backup list without rotation",
                  F_STR("reason", error->text));
        scan_pass(scan)->in_place = true;
        *error = (redis_error_t){0};
    }
    if (error->outcome == OUTCOME_OK) scan_read_page(scan, page, request->entries, request->range.skip);
    return error->outcome;
}

outcome_t pages_read_reply(pages_t *pages, const call_t *call, scan_t *scan) {
    const request_t request = pages->request;
    redis_error_t later = {0};
    redis_error_t *error = call->error;
    const call_t entries = {call->conn, call->keys, call->queue, call->token, &later};
    pages->request = (request_t){0};
    *error = (redis_error_t){0};
    if (request.stamps) {
        stamped_page_t *stamped = pages_slot(pages, pages->ready++);
        stamped->now_us = scan->clock.now * 1000; // a page without jobs has no request for stamps
        if (stamps_read(call, &stamped->page, stamped->stamps, stamped->raws, &stamped->now_us) == OUTCOME_DISCONNECTED)
            return OUTCOME_DISCONNECTED;
    }
    if (request.entries && pages_read_entries_reply(pages, &entries, scan, &request) != OUTCOME_OK)
        if (later.outcome == OUTCOME_DISCONNECTED || error->outcome == OUTCOME_OK) *error = later;
    return error->outcome;
}

outcome_t pages_read_all(pages_t *pages, const call_t *call, scan_t *scan) {
    *call->error = (redis_error_t){0};
    while (pages_in_flight(pages) && pages_read_reply(pages, call, scan) == OUTCOME_OK) {
    }
    return call->error->outcome;
}

const stamped_page_t *pages_ready(const pages_t *pages) {
    return pages->done < pages->ready ? &pages->stamped_pages[pages->done % ROOM] : NULL;
}

void pages_done(pages_t *pages) {
    backup_page_clear(&pages_slot(pages, pages->done++)->page);
    pages_assert_order(pages);
}

void pages_drop(pages_t *pages, const call_t *call) {
    backup_status_t ignored = {0};
    const request_t request = pages->request;
    *call->error = (redis_error_t){0};
    if (request.stamps) {
        stamped_page_t *stamped = pages_slot(pages, pages->ready++);
        stamps_read(call, &stamped->page, stamped->stamps, stamped->raws, &stamped->now_us);
    }
    if (request.entries && call->error->outcome != OUTCOME_DISCONNECTED)
        pages_read_entries(pages, call, &ignored, &request, PAGES_BYTES, &pages_slot(pages, pages->read++)->page);
    pages_clear(pages);
}
