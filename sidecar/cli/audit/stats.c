// How many final failures, by queue, reason and hour.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/audit/audit.h"
#include "cli/encode.h"
#include "cli/table.h"
#include "cli/when.h"

enum { TABLE_HOURS = 24, BAR = 40 };

// Sums over hours, for the table.
typedef struct group {
    char *queue, *reason; // owned
    audit_count_t sum;    // its slices are not used
} group_t;

typedef struct hour {
    int64_t ms, failures;
} hour_t;

typedef struct stats {
    const audit_ask_t *ask;
    group_t *groups; // owned
    hour_t *hours;   // owned, newest first
    size_t group_count, hour_count, rows;
} stats_t;

static group_t *group_of(stats_t *stats, const audit_count_t *count) {
    for (size_t i = 0; i < stats->group_count; i++)
        if (slice_is(count->queue, stats->groups[i].queue) && slice_is(count->reason, stats->groups[i].reason))
            return &stats->groups[i];
    stats->groups = mem_grown(stats->groups, stats->group_count, sizeof *stats->groups);
    group_t *group = &stats->groups[stats->group_count++];
    *group = (group_t){.queue = mem_printf("%.*s", (int)count->queue.len, count->queue.data),
                       .reason = mem_printf("%.*s", (int)count->reason.len, count->reason.data),
                       .sum = {.first_ms = INT64_MAX, .last_ms = INT64_MIN}};
    return group;
}

static void add(audit_count_t *sum, const audit_count_t *count) {
    sum->failures += count->failures;
    sum->requeued += count->requeued;
    sum->discarded += count->discarded;
    if (count->first_ms < sum->first_ms) sum->first_ms = count->first_ms;
    if (count->last_ms > sum->last_ms) sum->last_ms = count->last_ms;
}

static void gather(stats_t *stats, const audit_count_t *count) {
    add(&group_of(stats, count)->sum, count);
    if (stats->hour_count == 0 || stats->hours[stats->hour_count - 1].ms != count->hour_ms) {
        stats->hours = mem_grown(stats->hours, stats->hour_count, sizeof *stats->hours);
        stats->hours[stats->hour_count++] = (hour_t){.ms = count->hour_ms};
    }
    stats->hours[stats->hour_count - 1].failures += count->failures;
}

static void print_json(const stats_t *stats, const audit_count_t *count) {
    char hour[WHEN_SIZE], first[WHEN_SIZE], last[WHEN_SIZE];
    buffer_t out = {0};
    when_rfc3339(count->hour_ms, hour);
    when_rfc3339(count->first_ms, first);
    when_rfc3339(count->last_ms, last);
    if (stats->ask->format == FORMAT_JSON_ARRAY) buffer_str(&out, stats->rows ? ",\n " : "[\n ");
    buffer_printf(&out, "{\"hour\":\"%s\",\"queue\":", hour);
    encode_json(&out, count->queue);
    buffer_str(&out, ",\"reason\":");
    encode_json(&out, count->reason);
    buffer_printf(&out,
                  ",\"failures\":%" PRId64 ",\"open\":%" PRId64 ",\"requeued\":%" PRId64 ",\"discarded\":%" PRId64
                  ",\"first_at\":\"%s\",\"last_at\":\"%s\"}%s",
                  count->failures, count->failures - count->requeued - count->discarded, count->requeued, count->discarded, first,
                  last, stats->ask->format == FORMAT_JSON_LINES ? "\n" : "");
    fwrite(out.data, 1, out.len, stdout);
    buffer_free(&out);
}

static void print_csv(const audit_count_t *count) {
    char hour[WHEN_SIZE], first[WHEN_SIZE], last[WHEN_SIZE];
    buffer_t out = {0};
    when_rfc3339(count->hour_ms, hour);
    when_rfc3339(count->first_ms, first);
    when_rfc3339(count->last_ms, last);
    buffer_printf(&out, "%s,", hour);
    encode_csv(&out, count->queue);
    buffer_str(&out, ",");
    encode_csv(&out, count->reason);
    buffer_printf(&out, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%s\r\n", count->failures,
                  count->failures - count->requeued - count->discarded, count->requeued, count->discarded, first, last);
    fwrite(out.data, 1, out.len, stdout);
    buffer_free(&out);
}

static bool take(void *self, const audit_count_t *count) {
    stats_t *stats = self;
    switch (stats->ask->format) {
    case FORMAT_TABLE: gather(stats, count); break;
    case FORMAT_JSON_ARRAY:
    case FORMAT_JSON_LINES: print_json(stats, count); break;
    case FORMAT_CSV: print_csv(count); break;
    }
    stats->rows++;
    return true;
}

static int by_failures(const void *a, const void *b) {
    const group_t *one = a, *other = b;
    int order = strcmp(one->queue, other->queue);
    if (order) return order;
    return (one->sum.failures < other->sum.failures) - (one->sum.failures > other->sum.failures);
}

static void number_cell(table_t *table, int64_t number) {
    char text[NUMBER_SIZE];
    table_cell(table, audit_number_text(number, text));
}

// Where there is little room, without the first one.
static void group_row(table_t *table, const char *queue, const char *reason, const audit_count_t *sum, bool utc, bool narrow) {
    char first[WHEN_SIZE], last[WHEN_SIZE];
    when_text(sum->first_ms, utc, first);
    when_text(sum->last_ms, utc, last);
    table_cell(table, slice_text(queue));
    table_cell(table, slice_text(reason));
    number_cell(table, sum->failures);
    number_cell(table, sum->failures - sum->requeued - sum->discarded);
    number_cell(table, sum->requeued);
    number_cell(table, sum->discarded);
    if (narrow) when_shorten(last);
    if (!narrow) table_cell(table, slice_text(first));
    table_cell(table, slice_text(last));
}

static void print_groups(stats_t *stats) {
    char zone[WHEN_SIZE], time[WHEN_SIZE + 16];
    bool narrow = table_is_narrow(stdout), utc = stats->ask->utc;
    when_zone(when_now(), utc, zone);
    snprintf(time, sizeof time, "%s (%s)", narrow ? "LAST" : "FIRST", zone);
    const table_column_t columns[] = {
        {.title = "QUEUE", .least = 8},
        {.title = "REASON", .least = 12},
        {.title = "FAILURES", .right = true},
        {.title = "OPEN", .right = true},
        {.title = "REQUEUED", .right = true},
        {.title = "DISCARDED", .right = true},
        {.title = time},
        {.title = "LAST"},
    };
    audit_count_t all = {.first_ms = INT64_MAX, .last_ms = INT64_MIN};
    table_t *table = table_begin(columns, sizeof columns / sizeof *columns - narrow, stdout);
    qsort(stats->groups, stats->group_count, sizeof *stats->groups, by_failures);
    for (size_t i = 0; i < stats->group_count; i++) {
        const group_t *group = &stats->groups[i];
        bool same = i && strcmp(stats->groups[i - 1].queue, group->queue) == 0;
        group_row(table, same ? "" : group->queue, group->reason, &group->sum, utc, narrow);
        add(&all, &group->sum);
    }
    if (stats->group_count > 1) group_row(table, "(all)", "", &all, utc, narrow);
    table_end(table);
}

static void print_hours(const stats_t *stats) {
    size_t most = stats->ask->limit_given ? (size_t)stats->ask->filter.limit : TABLE_HOURS, count = stats->hour_count;
    if (most && count > most) count = most;
    const table_column_t columns[] = {{.title = "HOUR FROM"}, {.title = "FAILURES", .right = true}, {.title = ""}};
    int64_t highest = 1;
    char time[WHEN_SIZE], bar[BAR + 1];
    for (size_t i = 0; i < count; i++)
        if (stats->hours[i].failures > highest) highest = stats->hours[i].failures;
    puts("");
    table_t *table = table_begin(columns, sizeof columns / sizeof *columns, stdout);
    for (size_t i = 0; i < count; i++) {
        size_t len = (size_t)((stats->hours[i].failures * BAR + highest - 1) / highest);
        memset(bar, '#', len);
        when_text(stats->hours[i].ms, stats->ask->utc, time);
        time[strlen("2026-11-21 02:00")] = '\0';
        table_cell(table, slice_text(time));
        number_cell(table, stats->hours[i].failures);
        table_cell(table, (slice_t){bar, len});
    }
    table_end(table);
    fflush(stdout);
    if (count < stats->hour_count)
        fprintf(stderr, "queue-sidecar: these are the newest %zu of %zu hours with failures; --limit 0 for all\n", count,
                stats->hour_count);
}

static void print_end(stats_t *stats, bool done) {
    if (stats->ask->format == FORMAT_JSON_ARRAY) fputs(stats->rows ? "\n]\n" : "[]\n", stdout);
    if (stats->rows && stats->ask->format == FORMAT_TABLE) {
        print_groups(stats);
        print_hours(stats);
    }
    fflush(stdout);
    if (stats->rows == 0 && done) audit_explain_nothing(stats->ask->audit, &stats->ask->filter);
}

static int print_stats(audit_ask_t *ask) {
    stats_t stats = {.ask = ask};
    buffer_t why = {0};
    audit_filter_t filter = ask->filter;
    if (ask->format == FORMAT_TABLE) filter.limit = 0; // there it counts hours, and sums are of all
    if (ask->format == FORMAT_CSV) fputs("hour,queue,reason,failures,open,requeued,discarded,first_at,last_at\r\n", stdout);
    bool done = audit_stats(ask->audit, &filter, take, &stats, &why);
    print_end(&stats, done);
    for (size_t i = 0; i < stats.group_count; i++) {
        free(stats.groups[i].queue);
        free(stats.groups[i].reason);
    }
    free(stats.groups);
    free(stats.hours);
    return done ? CLI_OK : audit_complain(&why);
}

static const cli_option_t options[] = {
    AUDIT_OPTIONS_LOG,
    AUDIT_OPTIONS_FILTERS,
    AUDIT_OPTION_UTC,
    AUDIT_OPTION_FORMAT,
    AUDIT_OPTION_LIMIT("24 hours in a table, else rows, all if not told; 0 = all"),
};

const audit_command_t audit_stats_command = {
    .about = {.name = "stats",
              .summary = "How many final failures, by queue, reason and hour",
              .examples = "queue-sidecar audit stats --since 7d\n"
                          "queue-sidecar audit stats --queue email -o csv >email.csv\n",
              .usage = "audit stats [-c FILE | --db PATH] [FILTERS] [--limit N] [-o FORMAT] [--utc]",
              CLI_OPTIONS(options),
              .text = AUDIT_TEXT_DATA,
              .exits = AUDIT_EXITS},
    .opens_log = true,
    .run = print_stats,
};
