#include <inttypes.h>
#include <stdio.h>

#include "cli/audit.h"
#include "cli/encode.h"
#include "cli/table.h"
#include "cli/when.h"

enum { TABLE_LIMIT = 50 };

typedef struct list {
    const audit_ask_t *ask;
    table_t *table; // NULL in other formats
    buffer_t line;
    int64_t rows, most; // 0 = all
    bool more;          // there are more than `most`
    bool narrow;        // the terminal is
} list_t;

// "failed", or "requeued 2026-11-21 12:05:03 by ann@host: the relay is back".
static void state_cell(const list_t *list, const audit_row_t *row) {
    char time[WHEN_SIZE];
    buffer_t text = {0};
    buffer_add(&text, row->state.data, row->state.len);
    if (row->answered_at) {
        when_text(row->answered_at, list->ask->utc, time);
        buffer_printf(&text, " %s by %.*s%s%.*s", time, (int)row->answered_by.len, row->answered_by.data,
                      row->answer_reason.len ? ": " : "", (int)row->answer_reason.len, row->answer_reason.data);
    }
    table_cell(list->table, (slice_t){buffer_text(&text), text.len});
    buffer_free(&text);
}

static void table_row(const list_t *list, const audit_row_t *row) {
    char time[WHEN_SIZE], attempts[NUMBER_SIZE];
    when_text(row->event.at, list->ask->utc, time);
    if (list->narrow) when_shorten(time);
    snprintf(attempts, sizeof attempts, "%" PRId64, row->event.attempts);
    table_cell(list->table, row->ref);
    table_cell(list->table, slice_text(time));
    table_cell(list->table, row->event.queue);
    table_cell(list->table, row->event.reason);
    state_cell(list, row);
    table_cell(list->table, slice_text(attempts));
    table_cell(list->table, row->event.job);
    table_cell(list->table, row->event.error.len ? row->event.error : row->event.payload);
}

static bool take(void *self, const audit_row_t *row) {
    list_t *list = self;
    if (list->most && list->rows == list->most) {
        list->more = true;
        return false;
    }
    bool first = list->rows++ == 0;
    buffer_clear(&list->line);
    switch (list->ask->format) {
    case FORMAT_TABLE: table_row(list, row); return true;
    case FORMAT_JSON_ARRAY: buffer_str(&list->line, first ? "[\n " : ",\n "); break;
    case FORMAT_JSON_LINES:
    case FORMAT_CSV: break;
    }
    if (list->ask->format == FORMAT_CSV)
        audit_row_csv(&list->line, row);
    else
        audit_row_json(&list->line, row);
    if (list->ask->format == FORMAT_CSV) buffer_str(&list->line, "\r\n");
    if (list->ask->format == FORMAT_JSON_LINES) buffer_str(&list->line, "\n");
    return fwrite(list->line.data, 1, list->line.len, stdout) == list->line.len; // nobody reads: no need to go on
}

static void print_head(const audit_ask_t *ask) {
    buffer_t titles = {0};
    if (ask->format != FORMAT_CSV) return;
    audit_csv_titles(&titles);
    printf("%s\r\n", buffer_text(&titles));
    buffer_free(&titles);
}

static void print_tail(const list_t *list, bool done) {
    if (list->ask->format == FORMAT_JSON_ARRAY) fputs(list->rows ? "\n]\n" : "[]\n", stdout);
    if (list->table) table_end(list->table);
    fflush(stdout);
    if (list->rows == 0 && done) audit_explain_nothing(list->ask->audit, &list->ask->filter);
    if (list->more)
        fprintf(stderr, "queue-sidecar: these are the newest %" PRId64 "; there are more: --limit N, or --limit 0 for all\n",
                list->most);
}

static int print_list(audit_ask_t *ask) {
    char zone[WHEN_SIZE], title[WHEN_SIZE + 16];
    when_zone(when_now(), ask->utc, zone);
    bool narrow = table_is_narrow(stdout);
    snprintf(title, sizeof title, narrow ? "AT (%s)" : "FAILED AT (%s)", zone);
    const table_column_t columns[] = {
        {.title = "REF"},
        {.title = title},
        {.title = "QUEUE", .least = 6},
        {.title = "REASON", .least = 8},
        {.title = "STATE", .least = 6, .most = 80},
        {.title = "TRIES", .right = true},
        {.title = "JOB", .least = 6, .most = 20}, // digests and UUIDs are longer: `show` has all of it
        {.title = "ERROR, ELSE PAYLOAD", .least = 12, .most = 160},
    };
    list_t list = {.ask = ask,
                   .narrow = narrow,
                   .most = ask->limit_given              ? ask->filter.limit
                           : ask->format == FORMAT_TABLE ? TABLE_LIMIT
                                                         : 0};
    buffer_t why = {0};
    audit_filter_t filter = ask->filter;
    filter.limit = list.most ? list.most + 1 : 0; // one more tells that there are more
    if (ask->format == FORMAT_TABLE) list.table = table_begin(columns, sizeof columns / sizeof *columns, stdout);
    print_head(ask);
    bool done = audit_list(ask->audit, &filter, take, &list, &why);
    print_tail(&list, done);
    buffer_free(&list.line);
    if (!done) return audit_complain(&why);
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
    .run = print_list,
};
