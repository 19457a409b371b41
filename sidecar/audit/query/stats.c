// How many final failures, by hour, queue and reason.
#include <stdlib.h>

#include "audit/query/query.h"
#include "audit/query/statement.h"

enum { HOUR_MS = 3600000 };

typedef struct group {
    char *queue, *reason; // owned
    int64_t failures, first_ms, last_ms;
} group_t;

// The hour that is being counted. An index gives failures by time, so one hour is complete when the next begins, and nothing has
// to be sorted but the groups of an hour, which are few.
typedef struct tally {
    audit_count_fn *take;
    void *self;
    int64_t left;    // rows that may still be told
    int64_t hour;    // since 1970
    group_t *groups; // owned; used again for the next hour
    size_t count, room;
    size_t latest;          // the group of the last failure: the next one is often like it
    sqlite3_stmt *answered; // counts of answers, newest hour first; owned
    int code;               // of its last step
} tally_t;

static bool is_text(slice_t slice, const char *text) { return strncmp(text, slice.data, slice.len) == 0 && !text[slice.len]; }

static void forget_groups(tally_t *tally) {
    for (size_t i = 0; i < tally->count; i++) {
        free(tally->groups[i].queue);
        free(tally->groups[i].reason);
    }
    tally->count = tally->latest = 0;
}

static group_t *add_group(tally_t *tally, slice_t queue, slice_t reason) {
    if (tally->count == tally->room) {
        tally->room = tally->room ? 2 * tally->room : 16;
        group_t *larger = mem_array(tally->room, sizeof *larger);
        if (tally->count) memcpy(larger, tally->groups, tally->count * sizeof *larger);
        free(tally->groups);
        tally->groups = larger;
    }
    group_t *group = &tally->groups[tally->count++];
    *group = (group_t){.queue = mem_printf("%.*s", (int)queue.len, queue.data),
                       .reason = mem_printf("%.*s", (int)reason.len, reason.data)};
    return group;
}

static group_t *group_of(tally_t *tally, slice_t queue, slice_t reason) {
    for (size_t n = 0; n < tally->count; n++) {
        size_t i = (tally->latest + n) % tally->count;
        group_t *group = &tally->groups[i];
        if (!is_text(queue, group->queue) || !is_text(reason, group->reason)) continue;
        tally->latest = i;
        return group;
    }
    return add_group(tally, queue, reason);
}

static int in_order(const void *a, const void *b) {
    const group_t *one = a, *other = b;
    int by_queue = strcmp(one->queue, other->queue);
    if (by_queue) return by_queue;
    if (one->failures != other->failures) return one->failures < other->failures ? 1 : -1;
    return strcmp(one->reason, other->reason);
}

// The answers of this hour, added to its counts. Each hour of answers has failures too: those that they answer.
static void add_answers(tally_t *tally, audit_count_t *counts) {
    for (; tally->code == SQLITE_ROW && sqlite3_column_int64(tally->answered, 0) >= tally->hour;
         tally->code = sqlite3_step(tally->answered)) {
        slice_t queue = question_bytes(tally->answered, 1), reason = question_bytes(tally->answered, 2);
        for (size_t i = 0; i < tally->count; i++) {
            if (!slice_equal(counts[i].queue, queue) || !slice_equal(counts[i].reason, reason)) continue;
            counts[i].requeued = sqlite3_column_int64(tally->answered, 3);
            counts[i].discarded = sqlite3_column_int64(tally->answered, 4);
        }
    }
}

// Tells the hour. False: no more is wanted.
static bool end_hour(tally_t *tally) {
    bool wanted = true;
    size_t known = tally->count;
    audit_count_t *counts = mem_array(known, sizeof *counts);
    if (known) qsort(tally->groups, known, sizeof *tally->groups, in_order);
    for (size_t i = 0; i < known; i++) {
        const group_t *group = &tally->groups[i];
        counts[i] = (audit_count_t){.hour_ms = tally->hour * HOUR_MS,
                                    .queue = slice_text(group->queue),
                                    .reason = slice_text(group->reason),
                                    .failures = group->failures,
                                    .first_ms = group->first_ms,
                                    .last_ms = group->last_ms};
    }
    add_answers(tally, counts);
    for (size_t i = 0; i < known && wanted; i++) wanted = tally->left-- > 0 && tally->take(tally->self, &counts[i]);
    forget_groups(tally);
    free(counts);
    return wanted;
}

// Rounded towards 0, as SQL divides: answers are grouped by SQL.
static bool count(tally_t *tally, int64_t at, slice_t queue, slice_t reason) {
    int64_t hour = at / HOUR_MS;
    if (tally->count && hour != tally->hour && !end_hour(tally)) return false;
    tally->hour = hour;
    group_t *group = group_of(tally, queue, reason);
    if (group->failures++ == 0) group->last_ms = at; // newest first
    group->first_ms = at;
    return true;
}

// Answered failures are few: they are found by the refs that the answers give.
static bool prepare_answered(audit_t *audit, const audit_filter_t *filter, tally_t *tally, buffer_t *why) {
    buffer_t sql = {0};
    buffer_str(&sql, "SELECT at / 3600000 AS hour, queue, reason, sum(state = 'requeued'), sum(state = 'discarded')"
                     " FROM event_states");
    question_where(&sql, filter);
    buffer_str(&sql, " AND (ref, event) IN (SELECT answers_ref, answers FROM events WHERE answers <> '')"
                     " GROUP BY hour, queue, reason ORDER BY hour DESC");
    bool done = question_prepare(audit, buffer_text(&sql), &tally->answered, why);
    buffer_free(&sql);
    if (!done) return false;
    question_bind(tally->answered, filter);
    tally->code = sqlite3_step(tally->answered);
    return true;
}

static bool prepare_failures(audit_t *audit, const audit_filter_t *filter, sqlite3_stmt **of, buffer_t *why) {
    buffer_t sql = {0};
    buffer_str(&sql, "SELECT at, queue, reason FROM events");
    question_where(&sql, filter);
    buffer_str(&sql, " ORDER BY at DESC");
    bool done = question_prepare(audit, buffer_text(&sql), of, why);
    buffer_free(&sql);
    if (done) question_bind(*of, filter);
    return done;
}

bool audit_stats(audit_t *audit, const audit_filter_t *filter, audit_count_fn *take, void *self, buffer_t *why) {
    tally_t tally = {.take = take, .self = self, .left = filter->limit > 0 ? filter->limit : INT64_MAX};
    sqlite3_stmt *of = NULL;
    if (!prepare_failures(audit, filter, &of, why)) return false;
    int code = sqlite3_step(of); // from here on both statements see the log as it is now
    bool done = prepare_answered(audit, filter, &tally, why);
    bool wanted = done;
    for (; wanted && code == SQLITE_ROW; code = sqlite3_step(of)) {
        wanted = count(&tally, sqlite3_column_int64(of, 0), question_bytes(of, 1), question_bytes(of, 2));
        if (!wanted) break;
    }
    if (wanted && code == SQLITE_DONE) end_hour(&tally);
    forget_groups(&tally);
    free(tally.groups);
    if (tally.answered) done = question_end(audit, tally.answered, tally.code, why);
    if (done) return question_end(audit, of, code, why);
    sqlite3_finalize(of);
    return false;
}
