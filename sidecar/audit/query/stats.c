// Counts final failures by hour, queue and reason.

#include "audit/query/query.h"
#include "audit/query/statement.h"

enum { HOUR_MS = 3600000 };

// Few failures have an answer. Find those by the refs that the answers name.
static const char select_answered[] = "SELECT at / 3600000 AS hour, queue, reason, sum(state = 'requeued'),"
                                      " sum(state = 'discarded') FROM event_states";
static const char group_answered[] = " AND (ref, event) IN (SELECT answers_ref, answers FROM events WHERE answers <> '')"
                                     " GROUP BY hour, queue, reason ORDER BY hour DESC";

typedef struct stats_group {
    char *queue, *reason; // owned
    audit_count_t count;  // borrows queue and reason
} stats_group_t;

// The counts of one hour. An index returns failures by time. So an hour is complete when the next one begins, and only the few
// groups of one hour are sorted.
typedef struct stats {
    audit_count_fn *take;
    void *self;
    int64_t left;          // rows that may still be reported
    int64_t hour;          // since 1970
    stats_group_t *groups; // owned; used again for the next hour
    size_t count;
    size_t latest;          // index of the group of the last failure; the next one is often in the same group
    sqlite3_stmt *answered; // counts of answers, newest hour first; owned
    int code;               // result of the statement's last step
} stats_t;

static void stats_clear_groups(stats_t *stats) {
    for (size_t i = 0; i < stats->count; i++) {
        free(stats->groups[i].queue);
        free(stats->groups[i].reason);
    }
    stats->count = stats->latest = 0;
}

static stats_group_t *stats_add_group(stats_t *stats, slice_t queue, slice_t reason) {
    stats->groups = mem_grown(stats->groups, stats->count, sizeof *stats->groups);
    stats_group_t *group = &stats->groups[stats->count++];
    group->queue = mem_printf("%.*s", (int)queue.len, queue.data);
    group->reason = mem_printf("%.*s", (int)reason.len, reason.data);
    group->count =
        (audit_count_t){.hour_ms = stats->hour * HOUR_MS, .queue = slice_text(group->queue), .reason = slice_text(group->reason)};
    return group;
}

static stats_group_t *stats_find_group(stats_t *stats, slice_t queue, slice_t reason) {
    for (size_t n = 0; n < stats->count; n++) {
        size_t i = (stats->latest + n) % stats->count;
        stats_group_t *group = &stats->groups[i];
        if (!slice_is(queue, group->queue) || !slice_is(reason, group->reason)) continue;
        stats->latest = i;
        return group;
    }
    return stats_add_group(stats, queue, reason);
}

static int stats_compare_groups(const void *a, const void *b) {
    const stats_group_t *one = a, *other = b;
    int by_queue = strcmp(one->queue, other->queue);
    if (by_queue) return by_queue;
    if (one->count.failures != other->count.failures) return one->count.failures < other->count.failures ? 1 : -1;
    return strcmp(one->reason, other->reason);
}

// Adds the answers of this hour to its groups. Answers are grouped by the hour of their failures, so no hour has answers only.
static void stats_add_answers(stats_t *stats) {
    for (; stats->code == SQLITE_ROW && sqlite3_column_int64(stats->answered, 0) >= stats->hour;
         stats->code = sqlite3_step(stats->answered)) {
        slice_t queue = statement_bytes(stats->answered, 1), reason = statement_bytes(stats->answered, 2);
        for (size_t i = 0; i < stats->count; i++) {
            audit_count_t *count = &stats->groups[i].count;
            if (!slice_equal(count->queue, queue) || !slice_equal(count->reason, reason)) continue;
            count->requeued = sqlite3_column_int64(stats->answered, 3);
            count->discarded = sqlite3_column_int64(stats->answered, 4);
            count->open -= count->requeued + count->discarded;
        }
    }
}

// Reports the hour. False: no further row is wanted.
static bool stats_finish_hour(stats_t *stats) {
    bool wanted = true;
    if (stats->count) qsort(stats->groups, stats->count, sizeof *stats->groups, stats_compare_groups);
    stats_add_answers(stats);
    for (size_t i = 0; i < stats->count && wanted; i++)
        wanted = stats->left-- > 0 && stats->take(stats->self, &stats->groups[i].count);
    stats_clear_groups(stats);
    return wanted;
}

// The hour is rounded towards 0, as SQL does in select_answered.
static bool stats_count_failure(stats_t *stats, int64_t at, slice_t queue, slice_t reason) {
    int64_t hour = at / HOUR_MS;
    if (stats->count && hour != stats->hour && !stats_finish_hour(stats)) return false;
    stats->hour = hour;
    audit_count_t *count = &stats_find_group(stats, queue, reason)->count;
    if (count->failures++ == 0) count->last_ms = at; // failures come newest first
    count->open++;
    count->first_ms = at;
    return true;
}

bool audit_stats(audit_t *audit, const audit_filter_t *filter, audit_count_fn *take, void *self, buffer_t *why) {
    stats_t stats = {.take = take, .self = self, .left = filter->limit > 0 ? filter->limit : INT64_MAX};
    sqlite3_stmt *stmt =
        statement_prepare_filtered(audit, "SELECT at, queue, reason FROM events", filter, " ORDER BY at DESC", why);
    if (!stmt) return false;
    int code = sqlite3_step(stmt); // from here on both statements read the same state of the log
    stats.answered = statement_prepare_filtered(audit, select_answered, filter, group_answered, why);
    bool done = stats.answered != NULL;
    if (done) stats.code = sqlite3_step(stats.answered);
    bool wanted = done;
    for (; wanted && code == SQLITE_ROW; code = sqlite3_step(stmt)) {
        wanted = stats_count_failure(&stats, sqlite3_column_int64(stmt, 0), statement_bytes(stmt, 1), statement_bytes(stmt, 2));
        if (!wanted) break;
    }
    if (wanted && code == SQLITE_DONE) stats_finish_hour(&stats);
    stats_clear_groups(&stats);
    free(stats.groups);
    if (stats.answered) done = statement_finish(audit, stats.answered, stats.code, why);
    if (done) return statement_finish(audit, stmt, code, why);
    sqlite3_finalize(stmt);
    return false;
}
