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

typedef struct place {
    uint64_t ms, nth;
} place_t;

typedef struct stretch {
    place_t after, up_to;
} stretch_t;

static bool read_number(const char **at, const char *end, uint64_t *number) {
    const char *from = *at;
    for (*number = 0; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        if (__builtin_mul_overflow(*number, 10, number) || __builtin_add_overflow(*number, (uint64_t)(**at - '0'), number))
            return false;
    return *at > from;
}

static bool read_place(const char **at, const char *end, place_t *place) {
    if (!read_number(at, end, &place->ms) || *at == end || **at != '-') return false;
    (*at)++;
    return read_number(at, end, &place->nth);
}

static bool read_stretch(slice_t text, stretch_t *stretch) {
    const char *at = text.data, *end = text.data + text.len;
    if (!read_place(&at, end, &stretch->after) || end - at < 2 || at[0] != '.' || at[1] != '.') return false;
    at += 2;
    return read_place(&at, end, &stretch->up_to) && at == end;
}

static int compare(place_t a, place_t b) {
    if (a.ms != b.ms) return a.ms < b.ms ? -1 : 1;
    return (a.nth > b.nth) - (a.nth < b.nth);
}

static bool touch(const stretch_t *a, const stretch_t *b) {
    return compare(a->after, b->up_to) < 0 && compare(b->after, a->up_to) < 0;
}

static void keep(gaps_t *gaps, const event_t *event, bool open) {
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

static void forget(gaps_t *gaps) {
    for (size_t i = 0; i < gaps->count; i++) free(gaps->all[i].block);
    free(gaps->all);
    *gaps = (gaps_t){0};
}

void import_keep_gap(import_t *import, const event_t *event) { keep(&import->gaps, event, true); }
void import_forget_gaps(import_t *import) { forget(&import->gaps); }

static bool hear(void *self, const audit_row_t *row) {
    keep(self, &row->event, !slice_is(row->state, "filled"));
    return true;
}

// All gaps of a log: a look at each of its rows.
static bool collect(audit_t *audit, gaps_t *gaps, buffer_t *why) {
    return audit_list(audit, &(audit_filter_t){.kind = "gap"}, hear, gaps, why);
}

// Whether retention has removed some of it. Nobody keeps the very beginning of a stream: of a stretch from there, what is left
// counts.
static bool is_dropped(const gaps_t *its, const stretch_t *stretch) {
    uint64_t dropped = its->dropped_ms > 0 ? (uint64_t)its->dropped_ms : 0;
    return stretch->after.ms ? dropped > stretch->after.ms : dropped >= stretch->up_to.ms;
}

// Whether a log, whose gaps these are, has all of the stretch that `gap` tells of.
static bool is_complete(audit_t *audit, const gaps_t *its, const event_t *gap, bool *complete, buffer_t *why) {
    stretch_t stretch, other;
    place_t place;
    char position[AUDIT_POSITION_SIZE];
    const char *at = position;
    *complete = false;
    if (!read_stretch(gap->job, &stretch)) return true;
    char *queue = mem_printf("%.*s", (int)gap->queue.len, gap->queue.data);
    bool done = audit_position(audit, queue, position, why);
    free(queue);
    if (!done) return false;
    *complete =
        read_place(&at, position + strlen(position), &place) && compare(place, stretch.up_to) >= 0 && !is_dropped(its, &stretch);
    for (size_t i = 0; *complete && i < its->count; i++) {
        const import_event_t *one = &its->all[i];
        if (one->open && slice_equal(one->event.queue, gap->queue))
            *complete = read_stretch(one->event.job, &other) && !touch(&other, &stretch);
    }
    return true;
}

typedef struct search {
    slice_t id;
    bool found;
} search_t;

static bool compare_id(void *self, const audit_row_t *row) {
    search_t *search = self;
    search->found = slice_equal(row->event.event, search->id);
    return !search->found;
}

static bool is_known(audit_t *audit, slice_t id, bool *known, buffer_t *why) {
    char ref[EVENT_REF_SIZE];
    search_t search = {.id = id};
    if (event_ref(id, ref) && !audit_find(audit, ref, -1, compare_id, &search, why)) return false;
    *known = search.found;
    return true;
}

// A gap that the file tells of.
static bool settle_gap(import_t *import, const gaps_t *ours, import_event_t *gap, bool *added, buffer_t *why) {
    bool known, complete;
    if (!is_known(import->audit, gap->event.event, &known, why)) return false;
    if (!known && !is_complete(import->audit, ours, &gap->event, &complete, why)) return false;
    if (known || !complete) return import_put(import, &gap->event, added, why);
    import->pending.apart++;
    return true;
}

// The end of a gap is believed when the gap came with it: whether a gap that was here before is filled is for fill_ours to say.
static bool settle_end(import_t *import, const event_t *end, const bool *added, buffer_t *why) {
    bool known;
    for (size_t i = 0; i < import->gaps.count; i++)
        if (added[i] && slice_equal(import->gaps.all[i].event.event, end->answers)) return import_put(import, end, NULL, why);
    if (!is_known(import->audit, end->event, &known, why)) return false;
    if (known) return import_put(import, end, NULL, why);
    import->pending.apart++;
    return true;
}

// The end of one of our gaps. Its id is made of the gap's, so a gap ends once.
static bool end_gap(import_t *import, const event_t *gap, const char *path, buffer_t *why) {
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
    bool done = audit_put(import->audit, &end, &added, why);
    import->pending.filled += done && added;
    free(text);
    return done;
}

// Leaves open in `ours` what the peer fills, and nothing else.
static bool find_filled(audit_t *peer, gaps_t *ours, buffer_t *why) {
    gaps_t its = {0};
    const char dropped[] = "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'dropped'), 0)";
    bool done = audit_number(peer, dropped, &its.dropped_ms, why) && collect(peer, &its, why);
    for (size_t i = 0; done && i < ours->count; i++) {
        bool complete = false;
        if (ours->all[i].open) done = is_complete(peer, &its, &ours->all[i].event, &complete, why);
        ours->all[i].open = complete;
    }
    forget(&its);
    return done;
}

static bool write_all(import_t *import, const gaps_t *ours, const gaps_t *filled, const char *path, buffer_t *why) {
    bool *added = mem_array(import->gaps.count, sizeof *added), done = true;
    for (size_t i = 0; done && i < import->gaps.count; i++)
        if (slice_is(import->gaps.all[i].event.kind, "gap"))
            done = settle_gap(import, ours, &import->gaps.all[i], &added[i], why);
    for (size_t i = 0; done && i < import->gaps.count; i++)
        if (slice_is(import->gaps.all[i].event.kind, "filled")) done = settle_end(import, &import->gaps.all[i].event, added, why);
    for (size_t i = 0; done && i < filled->count; i++)
        if (filled->all[i].open) done = end_gap(import, &filled->all[i].event, path, why);
    free(added);
    return done;
}

static bool settle(import_t *import, const gaps_t *ours, const gaps_t *filled, const char *path, buffer_t *why) {
    import->pending = (import_counts_t){0};
    bool done = audit_begin(import->audit, why) && write_all(import, ours, filled, path, why) && import_commit(import, why);
    if (!done) audit_rollback(import->audit);
    if (!done) return false;
    import->counts.apart += import->pending.apart;
    import->counts.filled += import->pending.filled;
    return true;
}

// All that has to be read is read before the transaction: it can take long, and the auditor waits.
bool import_settle_gaps(import_t *import, audit_t *peer, const char *path, const import_listener_t *listener, buffer_t *why) {
    gaps_t ours = {0}, filled = {0};
    bool done = collect(import->audit, &ours, why) &&
                (!peer || (collect(import->audit, &filled, why) && find_filled(peer, &filled, why)));
    bool some = import->gaps.count > 0;
    for (size_t i = 0; i < filled.count; i++) some = some || filled.all[i].open;
    done = done && (!some || settle(import, &ours, &filled, path, why));
    for (size_t i = 0; done && i < filled.count; i++)
        if (filled.all[i].open) listener->filled(listener->self, &filled.all[i].event);
    forget(&ours);
    forget(&filled);
    import_forget_gaps(import);
    return done;
}

bool import_end_of_export(import_t *import, buffer_t *why) {
    return import_flush(import, why) && (import->gaps.count == 0 || import_settle_gaps(import, NULL, NULL, NULL, why));
}
