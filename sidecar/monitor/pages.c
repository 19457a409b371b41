#include "monitor/pages.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/log.h"
#include "dialects/dialect.h"
#include "queue/stamps.h"

enum {
    ROOM = 5, // one page is judged, the stamps of two are under way, and so are the entries of two
    WINDOW = 2,
};

static const char ROLE[] = "monitor";

// One request under way: the stamps of the page that is next in turn for them, and the entries of one more.
typedef struct flight {
    bool stamps;
    size_t entries; // 0 = none
    size_t queue;
    size_t skip;   // entries that were read before these, where they are read
    bool standing; // without rotation
} flight_t;

// Pages are numbered from 0 on and pass through five steps; each number is that of the next page to take that step, and page n
// lies at n % ROOM.
struct pages {
    const keyspace_t *keys;
    void **states;       // of each queue: pass_ops.open; NULL = not open, or it needs none
    size_t asked;        // its entries were asked for
    size_t met;          // they have come
    size_t stamps_asked; // so were its stamps
    size_t ready;        // they have come, too
    size_t done;         // it is judged
    flight_t flights[WINDOW];
    int flying;
    sheet_t sheets[ROOM];
};

pages_t *pages_new(const keyspace_t *keys) {
    pages_t *pages = mem_alloc(sizeof *pages);
    pages->keys = keys;
    pages->states = mem_array(keys->queue_count, sizeof *pages->states);
    return pages;
}

static const pass_ops_t *ops_of(const pages_t *pages, size_t queue) {
    return dialect_ops(pages->keys->queues[queue].config->dialect)->pass;
}

static void *state_of(pages_t *pages, size_t queue) {
    const pass_ops_t *ops = ops_of(pages, queue);
    if (ops->open && !pages->states[queue]) pages->states[queue] = ops->open(&pages->keys->queues[queue]);
    return pages->states[queue];
}

void pages_forget(pages_t *pages, size_t queue) {
    if (pages->states[queue]) ops_of(pages, queue)->close(pages->states[queue]);
    pages->states[queue] = NULL;
}

void pages_look_append(pages_t *pages, const call_t *call, const backup_look_t *known, bool arm) {
    const pass_ops_t *ops = ops_of(pages, call->queue);
    if (ops->rotation)
        backup_look_append(call, ops->rotation, known, arm);
    else
        ops->look_append(call, state_of(pages, call->queue));
}

outcome_t pages_look_read(pages_t *pages, const call_t *call, const backup_look_t *known, bool arm, backup_look_t *out) {
    const pass_ops_t *ops = ops_of(pages, call->queue);
    if (!ops->rotation) return ops->look_read(call, state_of(pages, call->queue), out);
    backup_look_read(call, ops->rotation, arm, out);
    if (!known->sentinel_len) out->sentinel_alone = false;
    return call->error->outcome;
}

static sheet_t *sheet_of(pages_t *pages, size_t number) { return &pages->sheets[number % ROOM]; }

static void clear(pages_t *pages) {
    for (size_t i = 0; i < ROOM; i++) backup_page_clear(&pages->sheets[i].page);
    pages->asked = pages->met = pages->stamps_asked = pages->ready = pages->done = 0;
    pages->flying = 0;
}

void pages_free(pages_t *pages) {
    if (!pages) return;
    clear(pages);
    for (size_t i = 0; i < pages->keys->queue_count; i++) pages_forget(pages, i);
    free(pages->states);
    free(pages);
}

bool pages_empty(const pages_t *pages) { return pages->done == pages->asked; }

// Where another page might not fit into memory beside those in hand, one comes after the other: an entry for which there is no
// room is met in vain.
static bool has_room(const pages_t *pages, const ward_t *ward) {
    size_t in_hand = pages->asked - pages->done;
    return in_hand == 0 || (in_hand < ROOM && (in_hand + 1) * ward_page_bytes(ward) <= PAGES_BYTES);
}

static void ask_entries(pages_t *pages, const call_t *call, ward_t *ward, size_t count) {
    const pass_ops_t *ops = ops_of(pages, call->queue);
    if (!ops->rotation)
        ops->page_append(call, state_of(pages, call->queue), ward->read, count);
    else if (ward->reads_only)
        backup_range_append(call, ward->read, count);
    else
        backup_rotate_append(call, count, ward->asked == 0);
    ward_asked(ward, count);
    pages->asked++;
}

outcome_t pages_ask(pages_t *pages, const call_t *call, ward_t *ward, bool more) {
    *call->error = (redis_error_t){0};
    while (pages->flying < WINDOW) {
        flight_t flight = {.stamps = pages->stamps_asked < pages->met,
                           .entries = more && has_room(pages, ward) ? ward_wanted(ward) : 0,
                           .queue = call->queue,
                           .skip = ward->read,
                           .standing = ward->reads_only};
        if (!flight.stamps && !flight.entries) break;
        if (flight.stamps) stamps_append(call, &sheet_of(pages, pages->stamps_asked++)->page);
        if (flight.entries) ask_entries(pages, call, ward, flight.entries);
        pages->flights[pages->flying++] = flight;
        if (conn_flush(call->conn, call->error) != OUTCOME_OK) break;
    }
    return call->error->outcome;
}

// At maxmemory Redis refuses to rotate; then the list is read where it stands.
static bool full(const redis_error_t *error) { return error->outcome == OUTCOME_RETRY && strncmp(error->text, "OOM", 3) == 0; }

static outcome_t read_entries(pages_t *pages, const call_t *call, backup_look_t *look, const flight_t *flight, size_t held,
                              backup_page_t *page) {
    const pass_ops_t *ops = ops_of(pages, flight->queue);
    backup_page_clear(page);
    page->others = held;
    if (!ops->rotation) {
        ops->page_read(call, state_of(pages, flight->queue), flight->skip, flight->entries, page);
        page->standing = true;
        return call->error->outcome;
    }
    if (flight->standing) return backup_range_read(call, look, flight->entries, page);
    return backup_rotate_read(call, look, flight->entries, page);
}

static outcome_t land_entries(pages_t *pages, const call_t *call, ward_t *ward, const flight_t *flight) {
    redis_error_t *error = call->error;
    size_t held = 0;
    for (size_t i = pages->done; i < pages->met; i++) held += sheet_of(pages, i)->page.held;
    backup_page_t *page = &sheet_of(pages, pages->met++)->page;
    read_entries(pages, call, &ward->look, flight, held, page);
    if (full(error)) {
        if (!ward->reads_only)
            log_error(ROLE, ward->config->name,
                      "redis is full: workers stand still, and the backup list is read without rotation",
                      F_STR("reason", error->text));
        ward->reads_only = true;
        *error = (redis_error_t){0};
    }
    if (error->outcome == OUTCOME_OK) ward_page(ward, page, flight->entries);
    return error->outcome;
}

static flight_t next_flight(pages_t *pages) {
    flight_t flight = pages->flights[0];
    pages->flying--;
    memmove(pages->flights, pages->flights + 1, (size_t)pages->flying * sizeof *pages->flights);
    return flight;
}

outcome_t pages_land(pages_t *pages, const call_t *call, ward_t *ward) {
    flight_t flight = next_flight(pages);
    redis_error_t later = {0};
    redis_error_t *error = call->error;
    const call_t entries = {call->conn, call->keys, call->queue, call->token, &later};
    *error = (redis_error_t){0};
    if (flight.stamps) {
        sheet_t *sheet = sheet_of(pages, pages->ready++);
        sheet->now = ward->now; // where there is no job nothing was asked
        if (stamps_read(call, &sheet->page, sheet->stamps, sheet->raws, &sheet->now) == OUTCOME_DISCONNECTED)
            return OUTCOME_DISCONNECTED;
    }
    if (flight.entries && land_entries(pages, &entries, ward, &flight) != OUTCOME_OK)
        if (later.outcome == OUTCOME_DISCONNECTED || error->outcome == OUTCOME_OK) *error = later;
    return error->outcome;
}

outcome_t pages_land_all(pages_t *pages, const call_t *call, ward_t *ward) {
    *call->error = (redis_error_t){0};
    while (pages->flying > 0 && pages_land(pages, call, ward) == OUTCOME_OK) {
    }
    return call->error->outcome;
}

int pages_flying(const pages_t *pages) { return pages->flying; }

const sheet_t *pages_ready(const pages_t *pages) {
    return pages->done < pages->ready ? &pages->sheets[pages->done % ROOM] : NULL;
}

void pages_done(pages_t *pages) { backup_page_clear(&sheet_of(pages, pages->done++)->page); }

void pages_drop(pages_t *pages, conn_t *conn) {
    backup_look_t nowhere = {0};
    redis_error_t error = {0};
    const call_t call = {.conn = conn, .keys = pages->keys, .error = &error};
    while (pages->flying > 0 && error.outcome != OUTCOME_DISCONNECTED) {
        flight_t flight = next_flight(pages);
        if (flight.stamps) {
            sheet_t *sheet = sheet_of(pages, pages->ready++);
            stamps_read(&call, &sheet->page, sheet->stamps, sheet->raws, &sheet->now);
        }
        if (flight.entries && error.outcome != OUTCOME_DISCONNECTED)
            read_entries(pages, &call, &nowhere, &flight, PAGES_BYTES, &sheet_of(pages, pages->met++)->page);
    }
    clear(pages);
}
