// Gaps at the end of an import.
//
// A gap says that this log never had the records of a stretch of a failure stream; its job is "AFTER..UP_TO", two ids of that
// stream. It is about one log: the gap of another one is none of ours where we were complete, and ours is filled where the other
// log was. Complete means: its position is at the end of the stretch or behind it, and it has no open gap that touches it.
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "audit/import/internal.h"
#include "audit/query/query.h"
#include "audit/query/statement.h"

typedef struct id {
    uint64_t ms, nth;
} entry_id_t;

typedef struct range {
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

static void gaps_add(gaps_t *gaps, const event_t *event, bool open) {
    if (gaps->count == gaps->room) {
        gaps->room = gaps->room ? 2 * gaps->room : 16;
        import_event_t *larger = mem_array(gaps->room, sizeof *larger);
        if (gaps->count) memcpy(larger, gaps->all, gaps->count * sizeof *larger);
        free(gaps->all);
        gaps->all = larger;
    }
    import_event_t *copy = &gaps->all[gaps->count++];
    import_copy(copy, event);
    copy->open = open;
}

static void gaps_free(gaps_t *gaps) {
    for (size_t i = 0; i < gaps->count; i++) free(gaps->all[i].block);
    free(gaps->all);
    *gaps = (gaps_t){0};
}

void import_add_gap(import_t *import, const event_t *event) { gaps_add(&import->gaps, event, true); }
void import_clear_gaps(import_t *import) { gaps_free(&import->gaps); }

static bool gaps_take_row(void *self, const audit_row_t *row) {
    gaps_add(self, &row->event, !slice_is(row->state, "filled"));
    return true;
}

// All gaps of a log: a look at each of its rows.
static bool gaps_read(audit_t *audit, gaps_t *gaps, buffer_t *why) {
    return audit_list(audit, &(audit_filter_t){.kind = "gap"}, gaps_take_row, gaps, why);
}

// Whether retention has removed some of it. Nobody keeps the very beginning of a stream: of a stretch from there, what is left
// counts.
static bool gaps_range_removed(const gaps_t *its, const id_range_t *range) {
    uint64_t dropped = its->dropped_ms > 0 ? (uint64_t)its->dropped_ms : 0;
    return range->after.ms ? dropped > range->after.ms : dropped >= range->up_to.ms;
}

// Whether a log, whose gaps these are, has all of the stretch that `gap` tells of.
static bool gaps_is_complete(audit_t *audit, const gaps_t *its, const event_t *gap, bool *complete, buffer_t *why) {
    id_range_t range, other;
    entry_id_t id;
    char position[AUDIT_POSITION_SIZE];
    const char *at = position;
    *complete = false;
    if (!range_read(gap->job, &range)) return true;
    char *queue = mem_printf("%.*s", (int)gap->queue.len, gap->queue.data);
    bool done = audit_position(audit, queue, position, why);
    free(queue);
    if (!done) return false;
    *complete = range_read_id(&at, position + strlen(position), &id) && range_compare_ids(id, range.up_to) >= 0 &&
                !gaps_range_removed(its, &range);
    for (size_t i = 0; *complete && i < its->count; i++) {
        const import_event_t *one = &its->all[i];
        if (one->open && slice_equal(one->event.queue, gap->queue))
            *complete = range_read(one->event.job, &other) && !ranges_overlap(&other, &range);
    }
    return true;
}

typedef struct search {
    slice_t id;
    bool found;
} gaps_search_t;

static bool compare_id(void *self, const audit_row_t *row) {
    gaps_search_t *search = self;
    search->found = slice_equal(row->event.event, search->id);
    return !search->found;
}

static bool is_known(audit_t *audit, slice_t id, bool *known, buffer_t *why) {
    char ref[EVENT_REF_SIZE];
    gaps_search_t search = {.id = id};
    if (event_ref(id, ref) && !audit_find_ref(audit, ref, -1, compare_id, &search, why)) return false;
    *known = search.found;
    return true;
}

// A gap that the file tells of.
static bool gaps_import_gap(import_t *import, const gaps_t *ours, import_event_t *gap, bool *added, buffer_t *why) {
    bool known, complete;
    if (!is_known(import->audit, gap->event.event, &known, why)) return false;
    if (!known && !gaps_is_complete(import->audit, ours, &gap->event, &complete, why)) return false;
    if (known || !complete) return import_put(import, &gap->event, added, why);
    import->pending.gaps_skipped++;
    return true;
}

// The end of a gap is believed when the gap came with it: whether a gap that was here before is filled is for fill_ours to say.
static bool gaps_import_end(import_t *import, const event_t *end, const bool *added, buffer_t *why) {
    bool known;
    for (size_t i = 0; i < import->gaps.count; i++)
        if (added[i] && slice_equal(import->gaps.all[i].event.event, end->answers)) return import_put(import, end, NULL, why);
    if (!is_known(import->audit, end->event, &known, why)) return false;
    if (known) return import_put(import, end, NULL, why);
    import->pending.gaps_skipped++;
    return true;
}

// The end of one of our gaps. Its id is made of the gap's, so a gap ends once.
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
                   .at = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000};
    event_id(&end, 0, 0, id);
    end.sha256 = (slice_t){0};
    end.event = slice_text(id);
    end.answers = gap->event;
    end.reason = slice_text("imported");
    end.error = slice_text(text);
    bool done = audit_insert(import->audit, &end, &added, why);
    import->pending.gaps_filled += done && added;
    free(text);
    return done;
}

// Leaves open in `ours` what the peer fills, and nothing else.
static bool gaps_find_filled(audit_t *peer, gaps_t *ours, buffer_t *why) {
    gaps_t its = {0};
    const char dropped[] = "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'dropped'), 0)";
    bool done = audit_query_number(peer, dropped, &its.dropped_ms, why) && gaps_read(peer, &its, why);
    for (size_t i = 0; done && i < ours->count; i++) {
        bool complete = false;
        if (ours->all[i].open) done = gaps_is_complete(peer, &its, &ours->all[i].event, &complete, why);
        ours->all[i].open = complete;
    }
    gaps_free(&its);
    return done;
}

static bool gaps_write(import_t *import, const gaps_t *ours, const gaps_t *filled, const char *path, buffer_t *why) {
    bool *added = mem_array(import->gaps.count, sizeof *added), done = true;
    for (size_t i = 0; done && i < import->gaps.count; i++)
        if (slice_is(import->gaps.all[i].event.kind, "gap"))
            done = gaps_import_gap(import, ours, &import->gaps.all[i], &added[i], why);
    for (size_t i = 0; done && i < import->gaps.count; i++)
        if (slice_is(import->gaps.all[i].event.kind, "filled"))
            done = gaps_import_end(import, &import->gaps.all[i].event, added, why);
    for (size_t i = 0; done && i < filled->count; i++)
        if (filled->all[i].open) done = gaps_fill(import, &filled->all[i].event, path, why);
    free(added);
    return done;
}

static bool gaps_commit(import_t *import, const gaps_t *ours, const gaps_t *filled, const char *path, buffer_t *why) {
    import->pending = (import_counts_t){0};
    bool done = audit_begin(import->audit, why) && gaps_write(import, ours, filled, path, why) && import_commit(import, why);
    if (!done) audit_rollback(import->audit);
    if (!done) return false;
    import->counts.gaps_skipped += import->pending.gaps_skipped;
    import->counts.gaps_filled += import->pending.gaps_filled;
    return true;
}

// All that has to be read is read before the transaction: it can take long, and the auditor waits.
bool import_finish_gaps(import_t *import, audit_t *peer, const char *path, const import_listener_t *listener, buffer_t *why) {
    gaps_t ours = {0}, filled = {0};
    bool done = gaps_read(import->audit, &ours, why) &&
                (!peer || (gaps_read(import->audit, &filled, why) && gaps_find_filled(peer, &filled, why)));
    bool some = import->gaps.count > 0;
    for (size_t i = 0; i < filled.count; i++) some = some || filled.all[i].open;
    done = done && (!some || gaps_commit(import, &ours, &filled, path, why));
    for (size_t i = 0; done && i < filled.count; i++)
        if (filled.all[i].open) listener->filled(listener->self, &filled.all[i].event);
    gaps_free(&ours);
    gaps_free(&filled);
    import_clear_gaps(import);
    return done;
}

bool import_finish_export(import_t *import, buffer_t *why) {
    return import_flush(import, why) && (import->gaps.count == 0 || import_finish_gaps(import, NULL, NULL, NULL, why));
}
