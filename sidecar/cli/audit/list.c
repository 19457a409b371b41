// queue-sidecar audit list: prints the newest events that match.
#include "cli/audit/audit.h"
#include "cli/audit/event_output.h"
#include "cli/terminal.h"

enum { TABLE_ROWS = 50 };

typedef struct list {
    event_output_t output;
    int64_t rows;
    int64_t max_rows; // 0 = all
    bool more;        // there are more than max_rows
} list_t;

// 80 columns have no room for TRIES, or for more than one text; `show` prints everything.
static const event_column_t columns[] = {
    {.cell = CELL_REF, .title = "REF"},
    {.cell = CELL_TIME, .title = "AT"},
    {.cell = CELL_QUEUE, .title = "QUEUE", .wide = {.min = 6}, .narrow = {.min = 6}},
    {.cell = CELL_REASON, .title = "REASON", .wide = {.min = 17}, .narrow = {.min = 8}},
    {.cell = CELL_STATE, .title = "STATE", .wide = {.min = 6, .max = 80}, .layout = ONLY_WIDE},
    {.cell = CELL_TRIES, .title = "TRIES", .layout = ONLY_WIDE},
    {.cell = CELL_JOB, .title = "JOB", .wide = {.min = 6, .max = 20}, .narrow = {.min = 6, .max = 12}},
    {.cell = CELL_ERROR_OR_PAYLOAD, .title = "ERROR, ELSE PAYLOAD", .wide = {.min = 24, .max = 160}, .layout = ONLY_WIDE},
    {.cell = CELL_SUMMARY, .title = "ERROR, PAYLOAD OR ANSWER", .narrow = {.min = 24, .max = 160}, .layout = ONLY_NARROW},
};

static bool list_add_row(void *self, const audit_row_t *row) {
    list_t *list = self;
    list->more = list->max_rows && list->rows == list->max_rows;
    if (list->more) return false;
    list->rows++;
    event_output_add(&list->output, row);
    return records_print(&list->output.records); // false when nobody reads the output: stop
}

static int list_run(audit_args_t *args) {
    list_t list = {.output = {.format = args->format, .utc = args->utc, .narrow = terminal_is_narrow(stdout)}};
    list.output.records.raw = args->raw;
    list.output.group = audit_group(args);
    bool failures = !args->filter.all_kinds && (!args->filter.kind || strcmp(args->filter.kind, "failed") == 0);
    list.output.failures = failures && !list.output.narrow;
    list.max_rows = args->has_limit ? args->filter.limit : args->format == FORMAT_TABLE ? TABLE_ROWS : 0;
    buffer_t why = {0};
    audit_filter_t filter = args->filter;
    filter.limit = list.max_rows ? list.max_rows + 1 : 0; // one row more shows that there are more
    event_output_begin(&list.output, columns, COUNT(columns), args->filter.queue ? 1U << CELL_QUEUE : 0, stdout);
    bool done = audit_list(args->audit, &filter, list_add_row, &list, &why);
    event_output_end(&list.output);
    fflush(stdout);
    if (!done) return audit_print_error(&why);
    if (list.rows == 0) audit_print_no_match(args->audit, &args->filter);
    if (list.more)
        fprintf(stderr,
                "queue-sidecar: these are the newest %" PRId64 "; there are more: use --limit N, or --limit 0 for all of them\n",
                list.max_rows);
    return CLI_OK;
}

static const cli_option_t options[] = {
    AUDIT_OPTIONS_LOG,
    AUDIT_OPTIONS_FILTERS,
    AUDIT_OPTION_UTC,
    AUDIT_OPTIONS_KIND("failed"),
    AUDIT_OPTION_FORMAT,
    AUDIT_OPTION_RAW,
    AUDIT_OPTION_LIMIT("at most N rows; default: 50 in a table, else all; 0 = all"),
};

const audit_command_t audit_list_command = {
    .about = {.name = "list",
              .summary = "List final failures, newest first",
              .examples = "queue-sidecar audit list --since 2h --queue email\n"
                          "queue-sidecar audit list --reason reported --grep 'no such mailbox' -o csv >mailboxes.csv\n",
              .usage = "audit list [-c FILE | --db PATH] [FILTERS] [--limit N] [-o FORMAT] [--raw] [--utc]",
              CLI_OPTIONS(options),
              .text = AUDIT_TEXT_DATA,
              .exits = AUDIT_EXITS},
    .run = list_run,
};
