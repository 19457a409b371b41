// queue-sidecar audit stats --by: counts final failures by one thing.
#include "base/text/time_text.h"
#include "base/text/units.h"
#include "cli/audit/audit.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "operate/events/groups.h"

enum { TABLE_ROWS = 50 };

static slice_t by_key(const audit_count_t *group, audit_by_t by, time_text_t hour) {
    switch (by) {
    case AUDIT_BY_ERROR: return group->error.len ? group->error : slice_text("(no text)");
    case AUDIT_BY_QUEUE: return group->queue;
    case AUDIT_BY_REASON: return group->reason;
    case AUDIT_BY_HOUR: break;
    }
    return (slice_t){hour.text, strlen(hour.text)};
}

static void by_print_table(const audit_count_t *groups, size_t count, audit_by_t by, bool utc) {
    bool narrow = terminal_is_narrow(stdout);
    char time[sizeof(time_text_t) + 16];
    static const char *const titles[] = {"ERROR", "QUEUE", "REASON", "HOUR FROM"};
    snprintf(time, sizeof time, "LAST (%s)", time_zone(time_now_ms(), utc).text);
    const table_column_t columns[] = {
        {.title = "FAILURES", .align_right = true},
        {.title = "OPEN", .align_right = true},
        {.title = "REQUEUED", .align_right = true},
        {.title = "DISCARDED", .align_right = true},
        {.title = time},
        {.title = titles[by], .min_width = 24},
    };
    table_t *table = table_begin(columns, COUNT(columns), terminal_columns(stdout), stdout);
    for (size_t i = 0; i < count; i++) {
        const int64_t numbers[] = {groups[i].failures, groups[i].open, groups[i].requeued, groups[i].discarded};
        for (size_t j = 0; j < COUNT(numbers); j++) table_cell(table, slice_text(number_text(numbers[j]).text));
        table_cell(table, slice_text(time_text(groups[i].last_ms, utc, narrow ? TIME_SHORT : TIME_SECONDS).text));
        table_cell(table, by_key(&groups[i], by, time_text(groups[i].hour_ms, utc, TIME_MINUTES)));
    }
    table_end(table);
}

static void by_print_records(const audit_args_t *args, const audit_count_t *groups, size_t count, audit_by_t by) {
    records_t records = {.raw = args->raw};
    records_begin(&records, args->format, group_fields(by), GROUP_FIELDS);
    for (size_t i = 0; i < count && terminal_print(&records.text, stdout); i++) records_add(&records, &groups[i]);
    records_end(&records);
    terminal_print(&records.text, stdout);
    buffer_free(&records.text);
}

static void by_print_dropped(audit_dropped_t dropped) {
    if (!dropped.failures) return;
    fprintf(stderr, "queue-sidecar: there are more than %s groups: %s failures of rare ones are not counted here, ",
            number_text(AUDIT_GROUPS_MAX).text, number_text(dropped.failures).text);
    fprintf(stderr, "and a count may be too low by up to %s; narrow it by --since or --queue\n",
            number_text(dropped.too_low).text);
}

static void by_print(const audit_args_t *args, audit_groups_t *groups, audit_by_t by) {
    size_t count, most = args->has_limit ? (size_t)args->filter.limit : args->format == FORMAT_TABLE ? TABLE_ROWS : 0;
    const audit_count_t *all = audit_groups_sorted(groups, &count);
    size_t shown = most && most < count ? most : count;
    if (args->format == FORMAT_TABLE)
        by_print_table(all, shown, by, args->utc);
    else
        by_print_records(args, all, shown, by);
    fflush(stdout);
    by_print_dropped(audit_groups_dropped(groups));
    if (shown < count)
        fprintf(stderr, "queue-sidecar: these are the %s %zu of %zu; use --limit 0 for all of them\n",
                by == AUDIT_BY_HOUR ? "newest" : "most frequent", shown, count);
    if (count == 0) audit_print_no_match(args->audit, &args->filter);
}

int stats_by_run(const audit_args_t *args) {
    audit_by_t by = AUDIT_BY_ERROR;
    buffer_t why = {0};
    group_read_by(args->text.by, &by); // the parser has checked the word
    audit_groups_t *groups = audit_groups_new(by);
    bool done = audit_groups_read(groups, args->audit, &args->filter, &(audit_place_t){0}, 0, &why);
    if (done) by_print(args, groups, by);
    audit_groups_free(groups);
    return done ? CLI_OK : audit_print_error(&why);
}
