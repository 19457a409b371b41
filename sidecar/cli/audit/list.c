#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/audit/audit.h"
#include "cli/audit/event_fields.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/time_text.h"

enum { TABLE_LIMIT = 50, MAX_COLUMNS = 8 };

typedef struct list {
    const audit_args_t *args;
    table_t *table; // NULL in other formats
    buffer_t line;
    int64_t rows, max_rows;               // 0 = all
    bool more;                            // there are more than `most`
    bool narrow;                          // the terminal is
    char time_title[TIME_TEXT_SIZE + 16]; // title of the time
    table_column_t columns[MAX_COLUMNS];
} list_t;

static bool list_is_answer(const audit_row_t *row) {
    return slice_is(row->event.kind, "requeued") || slice_is(row->event.kind, "discarded");
}

// "failed", or "requeued 2026-11-21 12:05:03 by ann@host: the relay is back"; of an answer "requeued by ann@host", and why where
// there is no whole column for it; of another event that has no state its kind.
static void list_add_state(buffer_t *text, const list_t *list, const audit_row_t *row) {
    char time[TIME_TEXT_SIZE];
    slice_t state = row->state.len ? row->state : row->event.kind;
    buffer_add(text, state.data, state.len);
    slice_t why = list->narrow ? row->event.reason : (slice_t){0};
    if (list_is_answer(row))
        buffer_printf(text, " by %.*s%s%.*s", (int)row->event.worker.len, row->event.worker.data, why.len ? ": " : "",
                      (int)why.len, why.data);
    if (!row->answered_at) return;
    time_format(row->answered_at, list->args->utc, time);
    if (list->narrow) time_shorten(time);
    buffer_printf(text, " %s by %.*s%s%.*s", time, (int)row->answered_by.len, row->answered_by.data,
                  row->answer_reason.len ? ": " : "", (int)row->answer_reason.len, row->answer_reason.data);
}

static void list_add_state_cell(const list_t *list, const audit_row_t *row) {
    buffer_t text = {0};
    list_add_state(&text, list, row);
    table_cell(list->table, (slice_t){buffer_text(&text), text.len});
    buffer_free(&text);
}

// The one text that a narrow terminal has room for: what became of it, where something did, else why it failed.
static void list_add_text_cell(const list_t *list, const audit_row_t *row) {
    buffer_t text = {0};
    slice_t what = row->event.error.len ? row->event.error : row->event.payload;
    bool failed = slice_is(row->state, "failed");
    if (!failed) list_add_state(&text, list, row);
    if (!failed && !row->answered_at && what.len) buffer_str(&text, ": ");
    if (failed || !row->answered_at) buffer_add(&text, what.data, what.len);
    table_cell(list->table, (slice_t){buffer_text(&text), text.len});
    buffer_free(&text);
}

static void list_add_table_row(const list_t *list, const audit_row_t *row) {
    char time[TIME_TEXT_SIZE], attempts[COUNT_TEXT_SIZE];
    time_format(row->event.at, list->args->utc, time);
    if (list->narrow) time_shorten(time);
    snprintf(attempts, sizeof attempts, "%" PRId64, row->event.attempts);
    table_cell(list->table, row->ref);
    table_cell(list->table, slice_text(time));
    if (!list->narrow || !list->args->filter.queue) table_cell(list->table, row->event.queue);
    table_cell(list->table, row->event.reason);
    if (!list->narrow) list_add_state_cell(list, row);
    if (!list->narrow) table_cell(list->table, slice_text(attempts));
    table_cell(list->table, row->event.job);
    if (list->narrow)
        list_add_text_cell(list, row);
    else
        table_cell(list->table, row->event.error.len ? row->event.error : row->event.payload);
}

// For 80 columns: neither the queue that was asked for nor tries, and one column of text. `show` has all of it.
static size_t list_set_narrow_columns(list_t *list) {
    table_column_t *columns = list->columns;
    size_t count = 0;
    columns[count++] = (table_column_t){.title = "REF"};
    columns[count++] = (table_column_t){.title = list->time_title};
    if (!list->args->filter.queue) columns[count++] = (table_column_t){.title = "QUEUE", .min_width = 6};
    columns[count++] = (table_column_t){.title = "REASON", .min_width = 6, .max_width = audit_reason_width(stdout)};
    columns[count++] = (table_column_t){.title = "JOB", .min_width = 6, .max_width = 12};
    columns[count++] = (table_column_t){.title = "ERROR, PAYLOAD OR ANSWER", .min_width = 16, .max_width = 160};
    return count;
}

static size_t list_set_wide_columns(list_t *list) {
    const table_column_t columns[MAX_COLUMNS] = {
        {.title = "REF"},
        {.title = list->time_title},
        {.title = "QUEUE", .min_width = 6},
        {.title = "REASON", .min_width = 8},
        {.title = "STATE", .min_width = 6, .max_width = 80},
        {.title = "TRIES", .align_right = true},
        {.title = "JOB", .min_width = 6, .max_width = 20}, // digests and UUIDs are longer: `show` has all of it
        {.title = "ERROR, ELSE PAYLOAD", .min_width = 12, .max_width = 160},
    };
    memcpy(list->columns, columns, sizeof columns);
    return MAX_COLUMNS;
}

static bool list_add_row(void *self, const audit_row_t *row) {
    list_t *list = self;
    if (list->max_rows && list->rows == list->max_rows) {
        list->more = true;
        return false;
    }
    bool first = list->rows++ == 0;
    buffer_clear(&list->line);
    switch (list->args->format) {
    case FORMAT_TABLE: list_add_table_row(list, row); return true;
    case FORMAT_JSON_ARRAY: buffer_str(&list->line, first ? "[\n " : ",\n "); break;
    case FORMAT_JSON_LINES:
    case FORMAT_CSV: break;
    }
    if (list->args->format == FORMAT_CSV)
        event_write_csv(&list->line, row);
    else
        event_write_json(&list->line, row);
    if (list->args->format == FORMAT_CSV) buffer_str(&list->line, "\r\n");
    if (list->args->format == FORMAT_JSON_LINES) buffer_str(&list->line, "\n");
    return fwrite(list->line.data, 1, list->line.len, stdout) == list->line.len; // nobody reads: no need to go on
}

static void list_print_header(const audit_args_t *args) {
    buffer_t titles = {0};
    if (args->format != FORMAT_CSV) return;
    event_write_csv_header(&titles);
    fputs(buffer_text(&titles), stdout);
    buffer_free(&titles);
}

static void list_finish(const list_t *list, bool done) {
    if (list->args->format == FORMAT_JSON_ARRAY) fputs(list->rows ? "\n]\n" : "[]\n", stdout);
    if (list->table) table_end(list->table);
    fflush(stdout);
    if (list->rows == 0 && done) audit_print_no_match(list->args->audit, &list->args->filter);
    if (list->more)
        fprintf(stderr, "queue-sidecar: these are the newest %" PRId64 "; there are more: --limit N, or --limit 0 for all\n",
                list->max_rows);
}

static int list_run(audit_args_t *args) {
    char zone[TIME_TEXT_SIZE];
    time_zone_name(time_now_ms(), args->utc, zone);
    bool narrow = terminal_is_narrow(stdout);
    bool failures = !args->filter.all_kinds && (!args->filter.kind || strcmp(args->filter.kind, "failed") == 0);
    list_t list = {.args = args,
                   .narrow = narrow,
                   .max_rows = args->has_limit                ? args->filter.limit
                               : args->format == FORMAT_TABLE ? TABLE_LIMIT
                                                              : 0};
    snprintf(list.time_title, sizeof list.time_title, failures && !narrow ? "FAILED AT (%s)" : "AT (%s)", zone);
    buffer_t why = {0};
    audit_filter_t filter = args->filter;
    filter.limit = list.max_rows ? list.max_rows + 1 : 0; // one more tells that there are more
    if (args->format == FORMAT_TABLE)
        list.table = table_begin(list.columns, narrow ? list_set_narrow_columns(&list) : list_set_wide_columns(&list), stdout);
    list_print_header(args);
    bool done = audit_list(args->audit, &filter, list_add_row, &list, &why);
    list_finish(&list, done);
    buffer_free(&list.line);
    if (!done) return audit_print_error(&why);
    return CLI_OK;
}

static const cli_option_t options[] = {
    AUDIT_OPTIONS_LOG,  AUDIT_OPTIONS_FILTERS, AUDIT_OPTION_UTC,
    AUDIT_OPTIONS_KIND, AUDIT_OPTION_FORMAT,   AUDIT_OPTION_LIMIT("rows: 50 in a table, else all; 0 = all"),
};

const audit_command_t audit_list_command = {
    .about = {.name = "list",
              .summary = "Final failures, newest first",
              .examples = "queue-sidecar audit list --since 2h --queue email\n"
                          "queue-sidecar audit list --reason reported --grep 'no such mailbox' -o csv >mailboxes.csv\n",
              .usage = "audit list [-c FILE | --db PATH] [FILTERS] [--limit N] [-o FORMAT] [--utc]",
              CLI_OPTIONS(options),
              .text = AUDIT_TEXT_DATA,
              .exits = AUDIT_EXITS},
    .opens_log = true,
    .run = list_run,
};
