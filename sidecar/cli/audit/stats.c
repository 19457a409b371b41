// How many final failures, by queue, reason and hour.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json/write.h"
#include "cli/audit/audit.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/time_text.h"

enum { TABLE_HOURS = 24, BAR_WIDTH = 40 };

// Sums over hours, for the table.
typedef struct group {
    char *queue, *reason; // owned
    audit_count_t sum;    // its slices are not used
} stats_group_t;

typedef struct hour {
    int64_t ms, failures;
} stats_hour_t;

typedef struct stats {
    const audit_args_t *args;
    stats_group_t *groups; // owned
    stats_hour_t *hours;   // owned, newest first
    size_t group_count, hour_count, rows;
} stats_t;

static stats_group_t *stats_group(stats_t *stats, const audit_count_t *count) {
    for (size_t i = 0; i < stats->group_count; i++)
        if (slice_is(count->queue, stats->groups[i].queue) && slice_is(count->reason, stats->groups[i].reason))
            return &stats->groups[i];
    stats->groups = mem_grown(stats->groups, stats->group_count, sizeof *stats->groups);
    stats_group_t *group = &stats->groups[stats->group_count++];
    *group = (stats_group_t){.queue = mem_printf("%.*s", (int)count->queue.len, count->queue.data),
                             .reason = mem_printf("%.*s", (int)count->reason.len, count->reason.data),
                             .sum = {.first_ms = INT64_MAX, .last_ms = INT64_MIN}};
    return group;
}

static void stats_add_count(audit_count_t *sum, const audit_count_t *count) {
    sum->failures += count->failures;
    sum->requeued += count->requeued;
    sum->discarded += count->discarded;
    if (count->first_ms < sum->first_ms) sum->first_ms = count->first_ms;
    if (count->last_ms > sum->last_ms) sum->last_ms = count->last_ms;
}

static void stats_add(stats_t *stats, const audit_count_t *count) {
    stats_add_count(&stats_group(stats, count)->sum, count);
    if (stats->hour_count == 0 || stats->hours[stats->hour_count - 1].ms != count->hour_ms) {
        stats->hours = mem_grown(stats->hours, stats->hour_count, sizeof *stats->hours);
        stats->hours[stats->hour_count++] = (stats_hour_t){.ms = count->hour_ms};
    }
    stats->hours[stats->hour_count - 1].failures += count->failures;
}

static void stats_print_json(const stats_t *stats, const audit_count_t *count) {
    char hour[TIME_TEXT_SIZE], first[TIME_TEXT_SIZE], last[TIME_TEXT_SIZE];
    buffer_t out = {0};
    time_format_rfc3339(count->hour_ms, hour);
    time_format_rfc3339(count->first_ms, first);
    time_format_rfc3339(count->last_ms, last);
    if (stats->args->format == FORMAT_JSON_ARRAY) buffer_str(&out, stats->rows ? ",\n " : "[\n ");
    buffer_printf(&out, "{\"hour\":\"%s\",\"queue\":", hour);
    json_write_string(&out, count->queue);
    buffer_str(&out, ",\"reason\":");
    json_write_string(&out, count->reason);
    buffer_printf(&out,
                  ",\"failures\":%" PRId64 ",\"open\":%" PRId64 ",\"requeued\":%" PRId64 ",\"discarded\":%" PRId64
                  ",\"first_at\":\"%s\",\"last_at\":\"%s\"}%s",
                  count->failures, count->failures - count->requeued - count->discarded, count->requeued, count->discarded, first,
                  last, stats->args->format == FORMAT_JSON_LINES ? "\n" : "");
    fwrite(out.data, 1, out.len, stdout);
    buffer_free(&out);
}

static void stats_print_csv(const audit_count_t *count) {
    char hour[TIME_TEXT_SIZE], first[TIME_TEXT_SIZE], last[TIME_TEXT_SIZE];
    buffer_t out = {0};
    time_format_rfc3339(count->hour_ms, hour);
    time_format_rfc3339(count->first_ms, first);
    time_format_rfc3339(count->last_ms, last);
    buffer_printf(&out, "%s,", hour);
    csv_write_field(&out, count->queue);
    buffer_str(&out, ",");
    csv_write_field(&out, count->reason);
    buffer_printf(&out, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%s\r\n", count->failures,
                  count->failures - count->requeued - count->discarded, count->requeued, count->discarded, first, last);
    fwrite(out.data, 1, out.len, stdout);
    buffer_free(&out);
}

static bool stats_add_row(void *self, const audit_count_t *count) {
    stats_t *stats = self;
    switch (stats->args->format) {
    case FORMAT_TABLE: stats_add(stats, count); break;
    case FORMAT_JSON_ARRAY:
    case FORMAT_JSON_LINES: stats_print_json(stats, count); break;
    case FORMAT_CSV: stats_print_csv(count); break;
    }
    stats->rows++;
    return true;
}

static int stats_compare_groups(const void *a, const void *b) {
    const stats_group_t *one = a, *other = b;
    int order = strcmp(one->queue, other->queue);
    if (order) return order;
    return (one->sum.failures < other->sum.failures) - (one->sum.failures > other->sum.failures);
}

static void stats_number_cell(table_t *table, int64_t number) {
    char text[COUNT_TEXT_SIZE];
    table_cell(table, count_format(number, text));
}

// Where there is little room, without the first one.
static void stats_group_row(table_t *table, const char *queue, const char *reason, const audit_count_t *sum, bool utc,
                            bool narrow) {
    char first[TIME_TEXT_SIZE], last[TIME_TEXT_SIZE];
    time_format(sum->first_ms, utc, first);
    time_format(sum->last_ms, utc, last);
    table_cell(table, slice_text(queue));
    table_cell(table, slice_text(reason));
    stats_number_cell(table, sum->failures);
    stats_number_cell(table, sum->failures - sum->requeued - sum->discarded);
    stats_number_cell(table, sum->requeued);
    stats_number_cell(table, sum->discarded);
    if (narrow) time_shorten(last);
    if (!narrow) table_cell(table, slice_text(first));
    table_cell(table, slice_text(last));
}

static void stats_print_groups(stats_t *stats) {
    char zone[TIME_TEXT_SIZE], time[TIME_TEXT_SIZE + 16];
    bool narrow = terminal_is_narrow(stdout), utc = stats->args->utc;
    time_zone_name(time_now_ms(), utc, zone);
    snprintf(time, sizeof time, "%s (%s)", narrow ? "LAST" : "FIRST", zone);
    const table_column_t columns[] = {
        {.title = "QUEUE", .min_width = 8},
        {.title = "REASON", .min_width = 12},
        {.title = "FAILURES", .align_right = true},
        {.title = "OPEN", .align_right = true},
        {.title = "REQUEUED", .align_right = true},
        {.title = "DISCARDED", .align_right = true},
        {.title = time},
        {.title = "LAST"},
    };
    audit_count_t all = {.first_ms = INT64_MAX, .last_ms = INT64_MIN};
    table_t *table = table_begin(columns, sizeof columns / sizeof *columns - narrow, stdout);
    qsort(stats->groups, stats->group_count, sizeof *stats->groups, stats_compare_groups);
    for (size_t i = 0; i < stats->group_count; i++) {
        const stats_group_t *group = &stats->groups[i];
        bool same = i && strcmp(stats->groups[i - 1].queue, group->queue) == 0;
        stats_group_row(table, same ? "" : group->queue, group->reason, &group->sum, utc, narrow);
        stats_add_count(&all, &group->sum);
    }
    if (stats->group_count > 1) stats_group_row(table, "(all)", "", &all, utc, narrow);
    table_end(table);
}

static void stats_print_hours(const stats_t *stats) {
    size_t most = stats->args->has_limit ? (size_t)stats->args->filter.limit : TABLE_HOURS, count = stats->hour_count;
    if (most && count > most) count = most;
    const table_column_t columns[] = {{.title = "HOUR FROM"}, {.title = "FAILURES", .align_right = true}, {.title = ""}};
    int64_t highest = 1;
    char time[TIME_TEXT_SIZE], bar[BAR_WIDTH + 1];
    for (size_t i = 0; i < count; i++)
        if (stats->hours[i].failures > highest) highest = stats->hours[i].failures;
    puts("");
    table_t *table = table_begin(columns, sizeof columns / sizeof *columns, stdout);
    for (size_t i = 0; i < count; i++) {
        size_t len = (size_t)((stats->hours[i].failures * BAR_WIDTH + highest - 1) / highest);
        memset(bar, '#', len);
        time_format(stats->hours[i].ms, stats->args->utc, time);
        time[strlen("2026-11-21 02:00")] = '\0';
        table_cell(table, slice_text(time));
        stats_number_cell(table, stats->hours[i].failures);
        table_cell(table, (slice_t){bar, len});
    }
    table_end(table);
    fflush(stdout);
    if (count < stats->hour_count)
        fprintf(stderr, "queue-sidecar: these are the newest %zu of %zu hours with failures; --limit 0 for all\n", count,
                stats->hour_count);
}

static void stats_print_end(stats_t *stats, bool done) {
    if (stats->args->format == FORMAT_JSON_ARRAY) fputs(stats->rows ? "\n]\n" : "[]\n", stdout);
    if (stats->rows && stats->args->format == FORMAT_TABLE) {
        stats_print_groups(stats);
        stats_print_hours(stats);
    }
    fflush(stdout);
    if (stats->rows == 0 && done) audit_print_no_match(stats->args->audit, &stats->args->filter);
}

static int stats_run(audit_args_t *args) {
    stats_t stats = {.args = args};
    buffer_t why = {0};
    audit_filter_t filter = args->filter;
    if (args->format == FORMAT_TABLE) filter.limit = 0; // there it counts hours, and sums are of all
    if (args->format == FORMAT_CSV) fputs("hour,queue,reason,failures,open,requeued,discarded,first_at,last_at\r\n", stdout);
    bool done = audit_stats(args->audit, &filter, stats_add_row, &stats, &why);
    stats_print_end(&stats, done);
    for (size_t i = 0; i < stats.group_count; i++) {
        free(stats.groups[i].queue);
        free(stats.groups[i].reason);
    }
    free(stats.groups);
    free(stats.hours);
    return done ? CLI_OK : audit_print_error(&why);
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
    .run = stats_run,
};
