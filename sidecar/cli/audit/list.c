#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/audit/audit.h"
#include "cli/audit/event_fields.h"
#include "cli/audit/event_table.h"
#include "cli/terminal.h"

enum { TABLE_ROWS = 50 };

typedef struct list {
    const audit_args_t *args;
    event_table_t table;
    records_t records; // of other formats
    int64_t rows;
    int64_t max_rows; // 0 = all
    bool more;        // there are more than max_rows
} list_t;

// 80 columns have no room for the tries, nor for more than one text: `show` has all of it.
static const event_column_t narrow_columns[] = {
    {CELL_REF, {.title = "REF"}},
    {CELL_TIME, {.title = "AT"}},
    {CELL_QUEUE, {.title = "QUEUE", .min_width = 6}},
    {CELL_REASON, {.title = "REASON", .min_width = 8}},
    {CELL_JOB, {.title = "JOB", .min_width = 6, .max_width = 12}},
    {CELL_SUMMARY, {.title = "ERROR, PAYLOAD OR ANSWER", .min_width = 24, .max_width = 160}},
};

static const event_column_t wide_columns[] = {
    {CELL_REF, {.title = "REF"}},
    {CELL_TIME, {.title = "AT"}},
    {CELL_QUEUE, {.title = "QUEUE", .min_width = 6}},
    {CELL_REASON, {.title = "REASON", .min_width = 17}},
    {CELL_STATE, {.title = "STATE", .min_width = 6, .max_width = 80}},
    {CELL_TRIES, {.title = "TRIES", .align_right = true}},
    {CELL_JOB, {.title = "JOB", .min_width = 6, .max_width = 20}},
    {CELL_ERROR_OR_PAYLOAD, {.title = "ERROR, ELSE PAYLOAD", .min_width = 24, .max_width = 160}},
};

static bool list_add_row(void *self, const audit_row_t *row) {
    list_t *list = self;
    if (list->max_rows && list->rows == list->max_rows) {
        list->more = true;
        return false;
    }
    list->rows++;
    if (list->args->format == FORMAT_TABLE) {
        event_table_add(&list->table, row);
        return true;
    }
    event_records_add(&list->records, row);
    return records_print(&list->records); // stops when nobody reads
}

static void list_begin(list_t *list) {
    event_table_t *table = &list->table;
    if (list->args->format != FORMAT_TABLE)
        records_begin(&list->records);
    else if (table->narrow)
        event_table_begin(table, narrow_columns, COUNT(narrow_columns), list->args->filter.queue ? 1U << CELL_QUEUE : 0, stdout);
    else
        event_table_begin(table, wide_columns, COUNT(wide_columns), 0, stdout);
}

static void list_end(list_t *list) {
    if (list->args->format == FORMAT_TABLE) {
        table_end(list->table.table);
    } else {
        records_end(&list->records);
        records_print(&list->records);
    }
    buffer_free(&list->records.text);
    fflush(stdout);
}

static int list_run(audit_args_t *args) {
    list_t list = {.args = args, .table.utc = args->utc, .records = event_records(args->format)};
    bool failures = !args->filter.all_kinds && (!args->filter.kind || strcmp(args->filter.kind, "failed") == 0);
    list.table.narrow = terminal_is_narrow(stdout);
    list.table.failures = failures && !list.table.narrow;
    list.max_rows = args->has_limit ? args->filter.limit : args->format == FORMAT_TABLE ? TABLE_ROWS : 0;
    buffer_t why = {0};
    audit_filter_t filter = args->filter;
    filter.limit = list.max_rows ? list.max_rows + 1 : 0; // one more tells that there are more
    list_begin(&list);
    bool done = audit_list(args->audit, &filter, list_add_row, &list, &why);
    list_end(&list);
    if (!done) return audit_print_error(&why);
    if (list.rows == 0) audit_print_no_match(args->audit, &args->filter);
    if (list.more)
        fprintf(stderr,
                "queue-sidecar: these are the newest %" PRId64 "; there are more: use --limit N, or --limit 0 for all of them\n",
                list.max_rows);
    return CLI_OK;
}

static const cli_option_t options[] = {
    AUDIT_OPTIONS_LOG,  AUDIT_OPTIONS_FILTERS, AUDIT_OPTION_UTC,
    AUDIT_OPTIONS_KIND, AUDIT_OPTION_FORMAT,   AUDIT_OPTION_LIMIT("rows: in a table 50 by default, else all; 0 = all"),
};

const audit_command_t audit_list_command = {
    .about = {.name = "list",
              .summary = "List final failures, newest first",
              .examples = "queue-sidecar audit list --since 2h --queue email\n"
                          "queue-sidecar audit list --reason reported --grep 'no such mailbox' -o csv >mailboxes.csv\n",
              .usage = "audit list [-c FILE | --db PATH] [FILTERS] [--limit N] [-o FORMAT] [--utc]",
              CLI_OPTIONS(options),
              .text = AUDIT_TEXT_DATA,
              .exits = AUDIT_EXITS},
    .opens_log = true,
    .run = list_run,
};
