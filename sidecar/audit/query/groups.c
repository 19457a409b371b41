#include "audit/query/groups.h"

#include "audit/query/search.h"
#include "base/digest.h"
#include "base/keyset.h"
#include "base/utf8.h"

enum {
    HOUR_MS = 3600000,
    FEW_GROUPS = 20,
    FEW_ANSWERS = 50000,
    FEW_ANSWERS_SLICE = 1000,
    BY_ALL = AUDIT_BY_HOUR + 1 /* hour, queue and reason */
};

struct audit_groups {
    int by;             // audit_by_t or BY_ALL
    audit_count_t *all; // owned, with the texts
    size_t count;
    keymap_t index; // of the digest of a key: its place in `all`, plus 1; 0 = not there
    audit_dropped_t dropped;
    buffer_t key;
};

audit_groups_t *audit_groups_new(audit_by_t by) {
    audit_groups_t *groups = mem_alloc(sizeof *groups);
    *groups = (audit_groups_t){.by = (int)by};
    return groups;
}

static void groups_free_texts(audit_count_t *group) {
    free((char *)group->error.data);
    free((char *)group->queue.data);
    free((char *)group->reason.data);
}

static void groups_clear(audit_groups_t *groups) {
    for (size_t i = 0; i < groups->count; i++) groups_free_texts(&groups->all[i]);
    groups->count = 0;
    keymap_free(&groups->index);
}

void audit_groups_free(audit_groups_t *groups) {
    groups_clear(groups);
    free(groups->all);
    buffer_free(&groups->key);
    free(groups);
}

// Appends a character. Returns its bytes in the error.
static size_t groups_add_character(buffer_t *out, const char *at, size_t len) {
    size_t bytes = utf8_sequence(at, len), digits = 0;
    while (digits < len && at[digits] >= '0' && at[digits] <= '9') digits++;
    if (digits)
        buffer_str(out, "#");
    else if (bytes == 0)
        buffer_str(out, "\xef\xbf\xbd");
    else if ((unsigned char)*at < ' ' || *at == 0x7f)
        buffer_str(out, " ");
    else
        buffer_add(out, at, bytes);
    return digits ? digits : bytes ? bytes : 1;
}

static bool groups_is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

void audit_error_group(buffer_t *out, slice_t error) {
    enum { LONGEST = 4 }; // bytes of a character
    size_t at = 0;
    buffer_clear(out);
    while (at < error.len && groups_is_space(error.data[at])) at++;
    while (at < error.len && error.data[at] != '\n' && error.data[at] != '\r' && out->len <= AUDIT_ERROR_MAX - LONGEST)
        at += groups_add_character(out, error.data + at, error.len - at);
    while (out->len && out->data[out->len - 1] == ' ') out->data[--out->len] = '\0';
}

static int groups_compare_counts(const void *a, const void *b) {
    const audit_count_t *one = a, *other = b;
    if (one->failures != other->failures) return one->failures < other->failures ? 1 : -1;
    return (one->last_ms < other->last_ms) - (one->last_ms > other->last_ms);
}

static int groups_compare_hours(const void *a, const void *b) {
    const audit_count_t *one = a, *other = b;
    return (one->hour_ms < other->hour_ms) - (one->hour_ms > other->hour_ms);
}

static int groups_compare_texts(slice_t a, slice_t b) {
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

// Of the groups of one hour.
static int groups_compare_queues(const void *a, const void *b) {
    const audit_count_t *one = a, *other = b;
    int order = groups_compare_texts(one->queue, other->queue);
    if (order == 0) order = (one->failures < other->failures) - (one->failures > other->failures);
    return order ? order : groups_compare_texts(one->reason, other->reason);
}

static digest_t groups_digest(const audit_count_t *group) {
    const slice_t hour = {(const char *)&group->hour_ms, sizeof group->hour_ms};
    return digest_of_parts((const slice_t[]){hour, group->error, group->queue, group->reason}, 4);
}

static void groups_sort(audit_groups_t *groups, int (*compare)(const void *, const void *)) {
    if (groups->count) qsort(groups->all, groups->count, sizeof *groups->all, compare);
    keymap_free(&groups->index);
    for (size_t i = 0; i < groups->count; i++) *keymap_put(&groups->index, groups_digest(&groups->all[i]).bytes) = (int64_t)i + 1;
}

// Lossy counting (Manku, Motwani 2002): a group that is frequent comes again.
static void groups_drop_half(audit_groups_t *groups) {
    size_t keep = groups->count / 2, had = groups->count;
    groups_sort(groups, groups_compare_counts);
    groups->dropped.too_low += groups->all[keep].failures;
    for (groups->count = keep; keep < had; keep++) {
        groups->dropped.failures += groups->all[keep].failures;
        groups_free_texts(&groups->all[keep]);
    }
    groups_sort(groups, groups_compare_counts);
}

static void groups_copy_text(slice_t *text) { text->data = mem_printf("%.*s", (int)text->len, text->data); }

static bool groups_are_same(const audit_count_t *a, const audit_count_t *b) {
    return a->hour_ms == b->hour_ms && slice_equal(a->queue, b->queue) && slice_equal(a->reason, b->reason) &&
           slice_equal(a->error, b->error);
}

// The group of `wanted`, whose texts are borrowed. A digest costs as much as some 20 comparisons.
static audit_count_t *groups_find(audit_groups_t *groups, const audit_count_t *wanted) {
    for (size_t i = 0; i < groups->count && groups->count <= FEW_GROUPS; i++)
        if (groups_are_same(&groups->all[i], wanted)) return &groups->all[i];
    digest_t digest = groups_digest(wanted);
    int64_t *place = keymap_find(&groups->index, digest.bytes);
    if (place) return &groups->all[*place - 1];
    if (groups->count == AUDIT_GROUPS_MAX && groups->by != BY_ALL) groups_drop_half(groups);
    groups->all = mem_grown(groups->all, groups->count, sizeof *groups->all);
    audit_count_t *group = &groups->all[groups->count++];
    *group = *wanted;
    groups_copy_text(&group->error);
    groups_copy_text(&group->queue);
    groups_copy_text(&group->reason);
    *keymap_put(&groups->index, digest.bytes) = (int64_t)groups->count;
    return group;
}

static bool groups_add(void *self, sqlite3_stmt *stmt, bool *go_on, buffer_t *why) {
    audit_groups_t *groups = self;
    int64_t at = sqlite3_column_int64(stmt, SEARCH_AT);
    slice_t state = statement_bytes(stmt, SEARCH_MATCH);
    audit_count_t wanted = {.error = statement_bytes(stmt, SEARCH_COLUMNS),
                            .queue = statement_bytes(stmt, SEARCH_COLUMNS + 1),
                            .reason = statement_bytes(stmt, SEARCH_COLUMNS + 2),
                            .first_ms = at,
                            .last_ms = at};
    (void)go_on, (void)why;
    if (groups->by == AUDIT_BY_ERROR) {
        audit_error_group(&groups->key, wanted.error);
        wanted.error = (slice_t){buffer_text(&groups->key), groups->key.len};
    }
    if (groups->by >= AUDIT_BY_HOUR) wanted.hour_ms = at / HOUR_MS * HOUR_MS;
    audit_count_t *group = groups_find(groups, &wanted);
    group->failures++;
    group->requeued += slice_is(state, "requeued");
    group->discarded += slice_is(state, "discarded");
    group->open = group->failures - group->requeued - group->discarded;
    if (at < group->first_ms) group->first_ms = at;
    if (at > group->last_ms) group->last_ms = at;
    return true;
}

static bool groups_search(audit_t *audit, int by, const audit_filter_t *filter, audit_place_t *place, int64_t slice_us,
                          search_step_fn *step, void *self, buffer_t *why) {
    static const char *const keys[] = {[AUDIT_BY_ERROR] = ", error, '', ''",
                                       [AUDIT_BY_QUEUE] = ", '', queue, ''",
                                       [AUDIT_BY_REASON] = ", '', '', reason",
                                       [AUDIT_BY_HOUR] = ", '', '', ''",
                                       [BY_ALL] = ", '', queue, reason"};
    audit_filter_t failures = *filter;
    failures.kind = NULL;
    failures.all_kinds = false;
    failures.limit = 0;
    // The state of a failure needs its row. Where few have an answer, the index has the rest.
    static const char of_few[] = "iif(seq IN (SELECT f.seq FROM events AS a CROSS JOIN events AS f ON f.event = a.answers"
                                 " WHERE a.answers <> ''), state, 'failed')";
    bool few = false;
    if (!filter->state && !search_count_answers(audit, slice_us ? FEW_ANSWERS_SLICE : FEW_ANSWERS, &few, why)) return false;
    search_columns_t columns = {filter->state ? ":state" : few ? of_few : "state", keys[by]};
    return search_run(audit, &failures, place, slice_us, columns, step, self, why);
}

bool audit_groups_read(audit_groups_t *groups, audit_t *audit, const audit_filter_t *filter, audit_place_t *place,
                       int64_t slice_us, buffer_t *why) {
    return groups_search(audit, groups->by, filter, place, slice_us, groups_add, groups, why);
}

const audit_count_t *audit_groups_sorted(audit_groups_t *groups, size_t *count) {
    groups_sort(groups, groups->by == AUDIT_BY_HOUR ? groups_compare_hours : groups_compare_counts);
    *count = groups->count;
    return groups->all;
}

audit_dropped_t audit_groups_dropped(const audit_groups_t *groups) { return groups->dropped; }

// ---- By hour, queue and reason.

typedef struct groups_stats {
    audit_groups_t groups; // of one hour: newer ones are done
    int64_t limit, taken;
    audit_count_fn *take;
    void *self;
} groups_stats_t;

// Gives the groups of an hour to the caller. False: it wants no more.
static bool stats_flush(groups_stats_t *stats) {
    bool more = true;
    groups_sort(&stats->groups, groups_compare_queues);
    for (size_t i = 0; more && i < stats->groups.count; i++)
        more = (!stats->limit || stats->taken++ < stats->limit) && stats->take(stats->self, &stats->groups.all[i]);
    groups_clear(&stats->groups);
    return more;
}

static bool stats_add(void *self, sqlite3_stmt *stmt, bool *go_on, buffer_t *why) {
    groups_stats_t *stats = self;
    int64_t hour = sqlite3_column_int64(stmt, SEARCH_AT) / HOUR_MS * HOUR_MS;
    if (stats->groups.count && stats->groups.all[0].hour_ms != hour) *go_on = stats_flush(stats);
    return !*go_on || groups_add(&stats->groups, stmt, go_on, why);
}

bool audit_stats(audit_t *audit, const audit_filter_t *filter, audit_count_fn *take, void *self, buffer_t *why) {
    groups_stats_t stats = {.groups.by = BY_ALL, .limit = filter->limit, .take = take, .self = self};
    bool done = groups_search(audit, BY_ALL, filter, &(audit_place_t){0}, 0, stats_add, &stats, why);
    if (done) stats_flush(&stats);
    groups_clear(&stats.groups);
    free(stats.groups.all);
    return done;
}
