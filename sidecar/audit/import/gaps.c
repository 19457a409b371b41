// Imports gaps, after all other rows of a file, and fills the gaps of this log.
//
// A gap is a row: the log never had the records of a range of a failure stream. The job of the row is "AFTER..UP_TO", two ids of
// that stream. A gap concerns one log. The import drops a gap of the other log if this log is complete there. It fills a gap of
// this log if the other log is complete there. Complete means: the log's position is at the end of the range or later, and no
// open gap of the log overlaps the range.

#include "audit/import/internal.h"
#include "audit/query/query.h"
#include "audit/store.h"

typedef struct entry_id {
    uint64_t ms, nth;
} entry_id_t;

typedef struct id_range {
    entry_id_t after, up_to;
} id_range_t;

static bool range_read_number(const char **at, const char *end, uint64_t *number) {
    const char *from = *at;
    for (*number = 0; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        if (__builtin_mul_overflow(*number, 10, number) || __builtin_add_overflow(*number, (uint64_t)(**at - '0'), number))
            return false;
    return *at > from;
}

static bool range_read_id(const char **at, const char *end, entry_id_t *id) {
    if (!range_read_number(at, end, &id->ms) || *at == end || **at != '-') return false;
    (*at)++;
    return range_read_number(at, end, &id->nth);
}

static bool range_read(slice_t text, id_range_t *range) {
    const char *at = text.data, *end = text.data + text.len;
    if (!range_read_id(&at, end, &range->after) || end - at < 2 || at[0] != '.' || at[1] != '.') return false;
    at += 2;
    return range_read_id(&at, end, &range->up_to) && at == end;
}

static int range_compare_ids(entry_id_t a, entry_id_t b) {
    if (a.ms != b.ms) return a.ms < b.ms ? -1 : 1;
    return (a.nth > b.nth) - (a.nth < b.nth);
}

static bool ranges_overlap(const id_range_t *a, const id_range_t *b) {
    return range_compare_ids(a->after, b->up_to) < 0 && range_compare_ids(b->after, a->up_to) < 0;
}

void gaps_add(gaps_t *gaps, const event_t *event) {
    gaps->all = mem_grown(gaps->all, gaps->count, sizeof *gaps->all);
    import_copy(&gaps->all[gaps->count++], event);
}

void gaps_free(gaps_t *gaps) {
    for (size_t i = 0; i < gaps->count; i++) free(gaps->all[i].block);
    free(gaps->all);
    *gaps = (gaps_t){0};
}

static bool gaps_take_row(void *self, const audit_row_t *row) {
    gaps_t *gaps = self;
    gaps_add(gaps, &row->event);
    gaps->all[gaps->count - 1].open = !slice_is(row->state, "filled");
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
    const char *at = position;
    *complete = false;
    if (!range_read(gap->job, &range)) return true;
    if (!audit_position(audit, gap->queue, position, why)) return false;
    *complete = range_read_id(&at, position + strlen(position), &id) && range_compare_ids(id, range.up_to) >= 0 &&
                !gaps_range_removed(gaps, &range);
    for (size_t i = 0; *complete && i < gaps->count; i++) {
        const import_event_t *one = &gaps->all[i];
        if (one->open && slice_equal(one->event.queue, gap->queue))
            *complete = range_read(one->event.job, &other) && !ranges_overlap(&other, &range);
    }
    return true;
}

static bool gaps_import_gap(import_t *import, const gaps_t *own, import_event_t *gap, buffer_t *why) {
    bool known, complete;
    if (!audit_has_event(import->audit, gap->event.event, &known, why)) return false;
    if (!known && !gaps_is_complete(import->audit, own, &gap->event, &complete, why)) return false;
    if (known || !complete) return import_put(import, &gap->event, &gap->added, why);
    import->counts.gaps_skipped++;
    return true;
}

// Imports an event of kind `filled` only if its gap came from the same file. gaps_find_filled decides on others.
static bool gaps_import_end(import_t *import, const event_t *end, buffer_t *why) {
    bool known;
    for (size_t i = 0; i < import->gaps.count; i++)
        if (import->gaps.all[i].added && slice_equal(import->gaps.all[i].event.event, end->answers))
            return import_put(import, end, NULL, why);
    if (!audit_has_event(import->audit, end->event, &known, why)) return false;
    if (known) return import_put(import, end, NULL, why);
    import->counts.gaps_skipped++;
    return true;
}

// Adds the event that fills a gap of this log. Its id is made from the id of the gap, so a gap is filled once.
static bool gaps_fill(import_t *import, const event_t *gap, const char *path, buffer_t *why) {
    struct timespec now;
    char id[EVENT_ID_SIZE];
    bool added;
    clock_gettime(CLOCK_REALTIME, &now);
    char *text = mem_printf("the records of this gap were added from the audit log %s", path);
    event_t end = {.kind = slice_text("filled"),
                   .dialect = gap->dialect,
                   .queue = gap->queue,
                   .job = gap->job,
                   .sha256 = gap->event,
                   .group = gap->group,
                   .at = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000};
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

static bool gaps_find_filled(audit_t *peer, gaps_t *own, buffer_t *why) {
    gaps_t peer_gaps = {0};
    bool done = audit_read_fact(peer, "dropped", 0, &peer_gaps.dropped_ms, why) && gaps_read(peer, &peer_gaps, why);
    for (size_t i = 0; done && i < own->count; i++)
        if (own->all[i].open) done = gaps_is_complete(peer, &peer_gaps, &own->all[i].event, &own->all[i].fills, why);
    gaps_free(&peer_gaps);
    return done;
}

typedef struct gaps_write {
    import_t *import;
    const gaps_t *own;
    const char *path;
} gaps_write_t;

// Add gaps first, because gaps_import_end looks for them.
static bool gaps_write(void *self, buffer_t *why) {
    const gaps_write_t *write = self;
    const gaps_t *gaps = &write->import->gaps, *own = write->own;
    bool done = true;
    for (size_t i = 0; done && i < gaps->count; i++)
        if (slice_is(gaps->all[i].event.kind, "gap")) done = gaps_import_gap(write->import, own, &gaps->all[i], why);
    for (size_t i = 0; done && i < gaps->count; i++)
        if (slice_is(gaps->all[i].event.kind, "filled")) done = gaps_import_end(write->import, &gaps->all[i].event, why);
    for (size_t i = 0; done && i < own->count; i++)
        if (own->all[i].fills) done = gaps_fill(write->import, &own->all[i].event, write->path, why);
    return done;
}

// Reads everything before the transaction, because a read may take long and the auditor waits for the transaction.
bool import_finish_gaps(import_t *import, audit_t *peer, const char *path, const import_listener_t *listener, buffer_t *why) {
    gaps_t own = {0};
    bool done = gaps_read(import->audit, &own, why) && (!peer || gaps_find_filled(peer, &own, why));
    bool some = import->gaps.count > 0;
    for (size_t i = 0; i < own.count; i++) some = some || own.all[i].fills;
    gaps_write_t write = {import, &own, path};
    if (done && some) done = import_in_transaction(import, gaps_write, &write, why);
    for (size_t i = 0; done && i < own.count; i++)
        if (own.all[i].fills) listener->filled(listener->self, &own.all[i].event);
    gaps_free(&own);
    gaps_free(&import->gaps);
    return done;
}
