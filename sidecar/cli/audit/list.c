// queue-sidecar audit list: prints the newest events that match.
#include "cli/audit/audit.h"
#include "cli/audit/event_output.h"
#include "cli/terminal.h"

enum { TABLE_ROWS = 50 };

typedef struct list {
    event_output_t output;
    int64_t rows;
    char last[EVENT_REF_SIZE]; // ref of the last row
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
    list->rows++;
    snprintf(list->last, sizeof list->last, "%.*s", (int)row->ref.len, row->ref.data);
    event_output_add(&list->output, row);
    return event_output_print(&list->output); // false when nobody reads the output: stop
}

static void list_print_more(const list_t *list, bool older) {
    if (older)
        fprintf(stderr, "queue-sidecar: there are older ones: --before %s\n", list->last);
    else
        fprintf(stderr,
                "queue-sidecar: these are the newest %" PRId64
                "; there are more: use --before %s for the next ones, --limit N, or "
                "--limit 0 for all of them\n",
                list->rows, list->last);
}

static int list_run(audit_args_t *args) {
    audit_place_t place = {0};
    ref_event_t before;
    if (args->text.before) {
        int status = audit_find_event(args, args->text.before, &before);
        if (status != CLI_OK) return status;
        place = (audit_place_t){.at = before.at, .seq = before.seq};
    }
    list_t list = {.output = {.format = args->format, .utc = args->utc, .narrow = terminal_is_narrow(stdout)}};
    list.output.records.raw = args->raw;
    list.output.group = audit_group(args);
    bool failures = !args->filter.all_kinds && (!args->filter.kind || strcmp(args->filter.kind, "failed") == 0);
    list.output.failures = failures && !list.output.narrow;
    buffer_t why = {0};
    audit_filter_t filter = args->filter;
    if (!args->has_limit && args->format == FORMAT_TABLE) filter.limit = TABLE_ROWS;
    event_output_begin(&list.output, columns, COUNT(columns), args->filter.queue ? 1U << CELL_QUEUE : 0, stdout);
    bool done = audit_search(args->audit, &filter, &place, 0, list_add_row, &list, &why);
    event_output_end(&list.output);
    fflush(stdout);
    if (!done) return audit_print_error(&why);
    if (list.rows == 0) audit_print_no_match(args->audit, &args->filter);
    if (place.more && filter.limit && list.rows == filter.limit) list_print_more(&list, args->text.before);
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
    AUDIT_VALUE(0, "before", "REF", text.before, NULL,
                "only what is older than this event; with the ref of the last row, this is the next page"),
};

const audit_command_t audit_list_command = {
    .about = {.name = "list",
              .summary = "List final failures, newest first",
              .examples = "queue-sidecar audit list --since 2h --queue email\n"
                          "queue-sidecar audit list --reason reported --grep 'no such mailbox' -o csv >mailboxes.csv\n",
              .usage = "audit list [-c FILE | --db PATH] [FILTERS] [--limit N] [--before REF] [-o FORMAT] [--raw] [--utc]",
              CLI_OPTIONS(options),
              .text = AUDIT_TEXT_COST "\n\n" AUDIT_TEXT_DATA,
              .exits = AUDIT_EXITS},
    .run = list_run,
};
