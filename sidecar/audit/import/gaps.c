// Fills gaps of this log, after all rows of another log are in.
//
// A gap is a row: the log never had the records of a range of a failure stream. The job of the row is "AFTER..UP_TO", two ids of
// that stream. The import fills a gap of this log if the other log is complete there: its position is at the end of the range or
// later, and no open gap of the other log overlaps the range.

#include "audit/import/internal.h"
#include "audit/query/query.h"
#include "audit/store.h"

typedef struct entry_id {
    uint64_t ms, nth;
} entry_id_t;

typedef struct id_range {
    entry_id_t after, up_to;
} id_range_t;

static bool range_read(slice_t text, id_range_t *range) {
    char copy[128];
    int end = 0;
    snprintf(copy, sizeof copy, "%.*s", (int)text.len, text.data);
    int read = sscanf(copy, "%" SCNu64 "-%" SCNu64 "..%" SCNu64 "-%" SCNu64 "%n", &range->after.ms, &range->after.nth,
                      &range->up_to.ms, &range->up_to.nth, &end);
    return read == 4 && (size_t)end == text.len;
}

static int range_compare_ids(entry_id_t a, entry_id_t b) {
    if (a.ms != b.ms) return a.ms < b.ms ? -1 : 1;
    return (a.nth > b.nth) - (a.nth < b.nth);
}

static bool ranges_overlap(const id_range_t *a, const id_range_t *b) {
    return range_compare_ids(a->after, b->up_to) < 0 && range_compare_ids(b->after, a->up_to) < 0;
}

static void gaps_free(gaps_t *gaps) {
    for (size_t i = 0; i < gaps->count; i++) free(gaps->all[i].block);
    free(gaps->all);
}

static bool gaps_take_row(void *self, const audit_row_t *row) {
    gaps_t *gaps = self;
    gaps->all = mem_grown(gaps->all, gaps->count, sizeof *gaps->all);
    import_copy(&gaps->all[gaps->count], &row->event);
    gaps->all[gaps->count++].open = !slice_is(row->state, "filled");
    return true;
}

static bool gaps_read(audit_t *audit, gaps_t *gaps, buffer_t *why) {
    return audit_list(audit, &(audit_filter_t){.kind = "gap"}, gaps_take_row, gaps, why);
}

// Whether retention has removed a part of the range, or all of a range that starts at 0-0: no log keeps the first records of a
// stream for ever.
static bool gaps_range_removed(const gaps_t *gaps, const id_range_t *range) {
    uint64_t dropped = gaps->dropped_ms > 0 ? (uint64_t)gaps->dropped_ms : 0;
    return range->after.ms ? dropped > range->after.ms : dropped >= range->up_to.ms;
}

// Whether the log `audit` has the whole range of `gap`. `gaps`: all gaps of that log.
static bool gaps_is_complete(audit_t *audit, const gaps_t *gaps, const event_t *gap, bool *complete, buffer_t *why) {
    id_range_t range, other;
    entry_id_t id;
    char position[AUDIT_POSITION_SIZE];
    *complete = false;
    if (!range_read(gap->job, &range)) return true;
    if (!audit_position(audit, gap->queue, position, why)) return false;
    *complete = sscanf(position, "%" SCNu64 "-%" SCNu64, &id.ms, &id.nth) == 2 && range_compare_ids(id, range.up_to) >= 0 &&
                !gaps_range_removed(gaps, &range);
    for (size_t i = 0; *complete && i < gaps->count; i++) {
        const import_event_t *one = &gaps->all[i];
        if (one->open && slice_equal(one->event.queue, gap->queue))
            *complete = range_read(one->event.job, &other) && !ranges_overlap(&other, &range);
    }
    return true;
}

// Adds the event that fills a gap of this log. Its id is made from the id of the gap, so a gap is filled once.
static bool gaps_fill(import_t *import, const event_t *gap, const char *path, buffer_t *why) {
    char id[EVENT_ID_SIZE];
    bool added;
    char *text = mem_printf("the records of this gap were added from the audit log %s", path);
    event_t end = {.kind = slice_text("filled"),
                   .dialect = gap->dialect,
                   .queue = gap->queue,
                   .job = gap->job,
                   .sha256 = gap->event,
                   .group = gap->group,
                   .at = wall_ms()};
    event_id(&end, 0, 0, id);
    end.sha256 = (slice_t){0};
    end.answers = gap->event;
    end.reason = slice_text("imported");
    end.error = slice_text(text);
    bool done = audit_insert(import->audit, &end, &added, why);
    import->counts.gaps_filled += done && added;
    free(text);
    return done;
}

typedef struct gaps_write {
    import_t *import;
    const gaps_t *own;
    const char *path;
} gaps_write_t;

static bool gaps_write(void *self, buffer_t *why) {
    const gaps_write_t *write = self;
    for (size_t i = 0; i < write->own->count; i++)
        if (write->own->all[i].fills && !gaps_fill(write->import, &write->own->all[i].event, write->path, why)) return false;
    return true;
}

// Reads everything before the transaction, because a read may take long and the auditor waits for the transaction.
bool import_fill_gaps(import_t *import, audit_t *peer, const char *path, const import_listener_t *listener, buffer_t *why) {
    gaps_t own = {0}, others = {0};
    bool done = gaps_read(import->audit, &own, why) && audit_read_fact(peer, "dropped", 0, &others.dropped_ms, why) &&
                gaps_read(peer, &others, why);
    bool some = false;
    for (size_t i = 0; done && i < own.count; i++) {
        if (own.all[i].open) done = gaps_is_complete(peer, &others, &own.all[i].event, &own.all[i].fills, why);
        some = some || own.all[i].fills;
    }
    gaps_write_t write = {import, &own, path};
    if (done && some) done = import_in_transaction(import, gaps_write, &write, why);
    for (size_t i = 0; done && i < own.count; i++)
        if (own.all[i].fills) listener->filled(listener->self, &own.all[i].event);
    gaps_free(&own);
    gaps_free(&others);
    return done;
}
