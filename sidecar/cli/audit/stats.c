// queue-sidecar audit stats: counts final failures by queue, reason and hour.
#include "base/text/time_text.h"
#include "base/text/units.h"
#include "cli/audit/audit.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "operate/events/groups.h"

enum { TABLE_HOURS = 24, BAR_WIDTH = 40 };

typedef struct stats {
    const audit_args_t *args;
    audit_count_t *groups; // sums over hours, for a table; owned, with their texts
    audit_count_t *hours;  // sums over groups, for a table, newest first; owned
    size_t group_count, hour_count, rows;
    records_t records; // for formats other than table
} stats_t;

static const field_t fields[] = {
    FIELD("hour", TIME, audit_count_t, hour_ms),          FIELD("queue", TEXT, audit_count_t, queue),
    FIELD("reason", TEXT, audit_count_t, reason),         FIELD("failures", NUMBER, audit_count_t, failures),
    FIELD("open", NUMBER, audit_count_t, open),           FIELD("requeued", NUMBER, audit_count_t, requeued),
    FIELD("discarded", NUMBER, audit_count_t, discarded), FIELD("first_at", TIME, audit_count_t, first_ms),
    FIELD("last_at", TIME, audit_count_t, last_ms),
};

static void stats_add_count(audit_count_t *sum, const audit_count_t *count) {
    sum->failures += count->failures;
    sum->open += count->open;
    sum->requeued += count->requeued;
    sum->discarded += count->discarded;
    if (!sum->first_ms || count->first_ms < sum->first_ms) sum->first_ms = count->first_ms;
    if (count->last_ms > sum->last_ms) sum->last_ms = count->last_ms;
}

static void stats_add_to_group(stats_t *stats, const audit_count_t *count) {
    size_t i = 0;
    while (i < stats->group_count &&
           !(slice_equal(count->queue, stats->groups[i].queue) && slice_equal(count->reason, stats->groups[i].reason)))
        i++;
    if (i == stats->group_count) {
        stats->groups = mem_grown(stats->groups, stats->group_count++, sizeof *stats->groups);
        stats->groups[i].queue = slice_text(mem_printf("%.*s", (int)count->queue.len, count->queue.data));
        stats->groups[i].reason = slice_text(mem_printf("%.*s", (int)count->reason.len, count->reason.data));
    }
    stats_add_count(&stats->groups[i], count);
}

static bool stats_add_row(void *self, const audit_count_t *count) {
    stats_t *stats = self;
    stats->rows++;
    if (stats->args->format != FORMAT_TABLE) {
        records_add(&stats->records, count);
        return terminal_print(&stats->records.text, stdout);
    }
    stats_add_to_group(stats, count);
    if (stats->hour_count == 0 || stats->hours[stats->hour_count - 1].hour_ms != count->hour_ms) {
        stats->hours = mem_grown(stats->hours, stats->hour_count, sizeof *stats->hours);
        stats->hours[stats->hour_count++].hour_ms = count->hour_ms;
    }
    stats_add_count(&stats->hours[stats->hour_count - 1], count);
    return true;
}

static int stats_compare_groups(const void *a, const void *b) {
    const audit_count_t *one = a, *other = b;
    int order = strcmp(one->queue.data, other->queue.data);
    if (order) return order;
    return (one->failures < other->failures) - (one->failures > other->failures);
}

static void stats_number_cell(table_t *table, int64_t number) { table_cell(table, slice_text(number_text(number).text)); }

// A narrow table omits the time of the first failure.
static void stats_group_row(table_t *table, slice_t queue, const audit_count_t *sum, bool utc, bool narrow) {
    table_cell(table, queue);
    table_cell(table, sum->reason);
    stats_number_cell(table, sum->failures);
    stats_number_cell(table, sum->open);
    stats_number_cell(table, sum->requeued);
    stats_number_cell(table, sum->discarded);
    if (!narrow) table_cell(table, slice_text(time_text(sum->first_ms, utc, TIME_SECONDS).text));
    table_cell(table, slice_text(time_text(sum->last_ms, utc, narrow ? TIME_SHORT : TIME_SECONDS).text));
}

static void stats_print_groups(stats_t *stats) {
    char time[sizeof(time_text_t) + 16];
    bool narrow = terminal_is_narrow(stdout), utc = stats->args->utc;
    snprintf(time, sizeof time, "%s (%s)", narrow ? "LAST" : "FIRST", time_zone(time_now_ms(), utc).text);
    const table_column_t columns[] = {
        {.title = "QUEUE", .min_width = 8},
        {.title = "REASON", .min_width = 17},
        {.title = "FAILURES", .align_right = true},
        {.title = "OPEN", .align_right = true},
        {.title = "REQUEUED", .align_right = true},
        {.title = "DISCARDED", .align_right = true},
        {.title = time},
        {.title = "LAST"},
    };
    audit_count_t all = {0};
    table_t *table = table_begin(columns, COUNT(columns) - narrow, terminal_columns(stdout), stdout);
    qsort(stats->groups, stats->group_count, sizeof *stats->groups, stats_compare_groups);
    for (size_t i = 0; i < stats->group_count; i++) {
        const audit_count_t *group = &stats->groups[i];
        bool same = i && slice_equal(stats->groups[i - 1].queue, group->queue);
        stats_group_row(table, same ? slice_text("") : group->queue, group, utc, narrow);
        stats_add_count(&all, group);
    }
    if (stats->group_count > 1) stats_group_row(table, slice_text("(all)"), &all, utc, narrow);
    table_end(table);
}

static void stats_print_hours(const stats_t *stats) {
    size_t most = stats->args->has_limit ? (size_t)stats->args->filter.limit : TABLE_HOURS, count = stats->hour_count;
    if (most && count > most) count = most;
    const table_column_t columns[] = {{.title = "HOUR FROM"}, {.title = "FAILURES", .align_right = true}, {.title = ""}};
    int64_t highest = 1;
    char bar[BAR_WIDTH + 1];
    for (size_t i = 0; i < count; i++)
        if (stats->hours[i].failures > highest) highest = stats->hours[i].failures;
    puts("");
    table_t *table = table_begin(columns, COUNT(columns), terminal_columns(stdout), stdout);
    for (size_t i = 0; i < count; i++) {
        size_t len = (size_t)((stats->hours[i].failures * BAR_WIDTH + highest - 1) / highest);
        memset(bar, '#', len);
        table_cell(table, slice_text(time_text(stats->hours[i].hour_ms, stats->args->utc, TIME_MINUTES).text));
        stats_number_cell(table, stats->hours[i].failures);
        table_cell(table, (slice_t){bar, len});
    }
    table_end(table);
    fflush(stdout);
    if (count < stats->hour_count)
        fprintf(stderr, "queue-sidecar: these are the newest %zu of %zu hours with failures; use --limit 0 for all of them\n",
                count, stats->hour_count);
}

static void stats_end(stats_t *stats) {
    if (stats->args->format != FORMAT_TABLE) {
        records_end(&stats->records);
        terminal_print(&stats->records.text, stdout);
    } else if (stats->rows) {
        stats_print_groups(stats);
        stats_print_hours(stats);
    }
    for (size_t i = 0; i < stats->group_count; i++) {
        free((char *)stats->groups[i].queue.data);
        free((char *)stats->groups[i].reason.data);
    }
    free(stats->groups);
    free(stats->hours);
    fflush(stdout);
}

static int stats_run(audit_args_t *args) {
    stats_t stats = {.args = args, .records.raw = args->raw};
    buffer_t why = {0};
    audit_filter_t filter = args->filter;
    if (args->text.by) return stats_by_run(args);
    if (args->format == FORMAT_TABLE)
        filter.limit = 0; // in a table --limit counts hours, and the sums cover all hours
    else
        records_begin(&stats.records, args->format, fields, COUNT(fields));
    bool done = audit_stats(args->audit, &filter, stats_add_row, &stats, &why);
    stats_end(&stats);
    if (!done) return audit_print_error(&why);
    if (stats.rows == 0) audit_print_no_match(args->audit, &args->filter);
    return CLI_OK;
}

static const cli_option_t options[] = {
    AUDIT_OPTIONS_LOG,
    AUDIT_OPTIONS_FILTERS,
    AUDIT_OPTION_UTC,
    AUDIT_OPTION_FORMAT,
    AUDIT_OPTION_RAW,
    AUDIT_VALUE(
        0, "by", "WHAT", text.by, AUDIT_BY_WORDS,
        "count by error, queue, reason or hour alone; an error is its first line, with # for each number, cut at 160 bytes"),
    AUDIT_OPTION_LIMIT("at most N hours in a table, default 24 (with --by: N rows, default 50); at most N rows in other formats, "
                       "default all; 0 = all"),
};

const audit_command_t audit_stats_command = {
    .about = {.name = "stats",
              .summary = "Count final failures by queue, reason and hour",
              .examples = "queue-sidecar audit stats --since 7d\n"
                          "queue-sidecar audit stats --by error --since yesterday --state open\n"
                          "queue-sidecar audit stats --queue email -o csv >email.csv\n",
              .usage = "audit stats [-c FILE | --db PATH] [FILTERS] [--by WHAT] [--limit N] [-o FORMAT] [--raw] [--utc]",
              CLI_OPTIONS(options),
              .text = "--by keeps at most 10,000 groups. If there are more, rare ones are left out, and a message says how many "
                      "failures they had.\n\n" AUDIT_TEXT_DATA,
              .exits = AUDIT_EXITS},
    .run = stats_run,
};
