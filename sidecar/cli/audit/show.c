// One event with all that is known of it, and what else happened to its job.
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/base64.h"
#include "cli/audit/audit.h"
#include "cli/audit/event_fields.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/time_text.h"

enum { MAX_CANDIDATES = 20, LABEL_WIDTH = 10 };
enum { BASE64_LINE = 76, BASE64_LINE_BYTES = BASE64_LINE / 4 * 3 };
// What a terminal gets of it: a payload may have megabytes, and all that was said before would be gone. Errors of workers fit.
enum { TERMINAL_TEXT = 64 * 1024, TERMINAL_BINARY = 12 * BASE64_LINE_BYTES };

typedef struct search {
    audit_ref_t ref;
    int found;
    char first[EVENT_ID_SIZE]; // id of the first one
    table_t *table;            // of candidates, or NULL
    bool utc;
} show_search_t;

static bool show_add_candidate(void *self, const audit_row_t *row) {
    show_search_t *search = self;
    char time[TIME_TEXT_SIZE];
    if (*search->ref.event && !slice_is(row->event.event, search->ref.event)) return true;
    if (search->found++ == 0)
        snprintf(search->first, sizeof search->first, "%.*s", (int)row->event.event.len, row->event.event.data);
    if (!search->table) return true;
    time_format(row->event.at, search->utc, time);
    table_cell(search->table, row->ref);
    table_cell(search->table, slice_text(time));
    table_cell(search->table, row->event.queue);
    table_cell(search->table, row->event.kind);
    table_cell(search->table, row->event.reason);
    table_cell(search->table, row->event.job);
    return true;
}

static void show_print_label(const char *name) { printf("%-*s", LABEL_WIDTH, name); }

static void show_print_text(const char *name, slice_t text) {
    buffer_t plain = {0};
    if (text.len == 0) return;
    terminal_escape(&plain, text, false);
    show_print_label(name);
    printf("%s\n", buffer_text(&plain));
    buffer_free(&plain);
}

static void show_print_time(const char *name, int64_t ms, bool utc) {
    char text[TIME_TEXT_SIZE], zone[TIME_TEXT_SIZE];
    if (ms == 0) return;
    time_format(ms, utc, text);
    time_zone_name(ms, utc, zone);
    show_print_label(name);
    printf("%s.%03d %s\n", text, (int)(ms % 1000), zone);
}

static bool show_is_utf8_tail(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

static slice_t show_truncate(slice_t bytes, bool is_text) {
    size_t most = is_text ? TERMINAL_TEXT : TERMINAL_BINARY;
    if (bytes.len <= most || !isatty(STDOUT_FILENO)) return bytes;
    while (is_text && show_is_utf8_tail(bytes.data[most])) most--;
    return (slice_t){bytes.data, most};
}

// Text as it is, but indented and safe; other bytes in base64, in lines that `base64 -d` takes. All of it, unless on a terminal.
static void show_print_bytes(const char *name, slice_t bytes, bool is_text) {
    char number[COUNT_TEXT_SIZE];
    buffer_t plain = {0};
    if (bytes.len == 0) return;
    show_print_label(name);
    printf("%s bytes%s\n", count_format((int64_t)bytes.len, number).data, is_text ? "" : ", no text: in base64");
    slice_t part = show_truncate(bytes, is_text);
    if (is_text)
        terminal_escape(&plain, part, true);
    else
        base64_encode(&plain, part);
    for (const char *line = buffer_text(&plain); *line;) {
        size_t len = is_text ? strcspn(line, "\n") : strnlen(line, BASE64_LINE);
        printf("  %.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
    if (part.len < bytes.len)
        printf("  … and %s bytes more: all of it by `-o json`, or in a pipe (`| less`)\n",
               count_format((int64_t)(bytes.len - part.len), number).data);
    buffer_free(&plain);
}

// Of a retry, and of a job that was too large, the log has the size alone.
static void show_print_payload(const audit_row_t *row) {
    char number[COUNT_TEXT_SIZE];
    const event_t *event = &row->event;
    show_print_bytes("payload", event->payload, row->payload_is_text);
    if (event->payload.len > 0 || event->size == 0) return;
    show_print_label("payload");
    printf("%s bytes, not recorded with this event\n", count_format(event->size, number).data);
}

typedef struct history {
    const audit_args_t *args;
    slice_t event; // the one that is shown
    bool narrow;   // the terminal is
    table_t *table;
    buffer_t json;
    int rows;
} show_history_t;

static bool show_add_history_row(void *self, const audit_row_t *row) {
    show_history_t *history = self;
    char time[TIME_TEXT_SIZE], attempts[COUNT_TEXT_SIZE];
    time_format(row->event.at, history->args->utc, time);
    if (history->narrow) time_shorten(time);
    snprintf(attempts, sizeof attempts, "%" PRId64, row->event.attempts);
    history->rows++;
    table_cell(history->table, slice_text(slice_equal(row->event.event, history->event) ? "*" : ""));
    table_cell(history->table, slice_text(time));
    table_cell(history->table, row->event.kind);
    table_cell(history->table, row->event.reason);
    table_cell(history->table, row->event.worker);
    table_cell(history->table, slice_text(row->event.attempts ? attempts : ""));
    table_cell(history->table, row->ref);
    table_cell(history->table, row->event.error);
    return true;
}

static bool show_add_history_json(void *self, const audit_row_t *row) {
    show_history_t *history = self;
    buffer_str(&history->json, history->rows++ ? "," : ",\"history\":[");
    event_write_json(&history->json, row);
    return true;
}

static bool show_print_history(const audit_args_t *args, const audit_row_t *row, buffer_t *why) {
    bool narrow = terminal_is_narrow(stdout);
    const table_column_t columns[] = {{.title = ""},
                                      {.title = narrow ? "HISTORY" : "HISTORY OF THE JOB"},
                                      {.title = "KIND"},
                                      {.title = "REASON", .min_width = 12, .max_width = 60},
                                      {.title = "BY", .min_width = 6, .max_width = 40},
                                      {.title = "TRIES", .align_right = true},
                                      {.title = "REF"},
                                      {.title = "ERROR", .min_width = 10, .max_width = 160}};
    show_history_t history = {.args = args, .event = row->event.event, .narrow = narrow};
    puts("");
    history.table = table_begin(columns, sizeof columns / sizeof *columns, stdout);
    bool done = audit_history(args->audit, row->event.queue, row->event.job, show_add_history_row, &history, why);
    table_end(history.table);
    return done;
}

// Who put it back or discarded it last, when and why.
static void show_print_answer(const audit_args_t *args, const audit_row_t *row) {
    if (!row->answered_at) return;
    show_print_time("since", row->answered_at, args->utc);
    show_print_text("by", row->answered_by);
    show_print_text("because", row->answer_reason);
}

static bool show_print_table(const audit_args_t *args, const audit_row_t *row, buffer_t *why) {
    const event_t *event = &row->event;
    bool failed = slice_is(event->kind, "failed");
    show_print_text("ref", row->ref);
    if (!failed) show_print_text("kind", event->kind);
    show_print_text("state", row->state);
    show_print_answer(args, row);
    show_print_text("queue", event->queue);
    show_print_text("dialect", event->dialect);
    show_print_text("job", event->job);
    show_print_text("type", event->type);
    show_print_text("worker", event->worker);
    show_print_text("reason", event->reason);
    show_print_label("tries");
    printf("%" PRId64 "\n", event->attempts);
    show_print_time("created", event->created, args->utc);
    show_print_time("started", event->started, args->utc);
    show_print_time(failed ? "failed" : "at", event->at, args->utc);
    show_print_text("term", event->term);
    show_print_text("event", event->event);
    show_print_text("answers", event->answers);
    show_print_text("sha256", event->sha256);
    show_print_bytes("error", event->error, row->error_is_text);
    show_print_payload(row);
    return show_print_history(args, row, why);
}

// An object with its history inside; as CSV the row alone.
static bool show_print_data(const audit_args_t *args, const audit_row_t *row, buffer_t *why) {
    buffer_t out = {0};
    show_history_t history = {.args = args};
    bool done = true;
    if (args->format == FORMAT_CSV) {
        event_write_csv_header(&out);
        event_write_csv(&out, row);
        buffer_str(&out, "\r\n");
    } else {
        event_write_json(&out, row);
        out.len--; // the brace: what follows belongs inside
        done = audit_history(args->audit, row->event.queue, row->event.job, show_add_history_json, &history, why);
        buffer_str(&out, history.rows ? buffer_text(&history.json) : ",\"history\":[");
        buffer_str(&out, "]}\n");
    }
    fwrite(out.data, 1, out.len, stdout);
    buffer_free(&history.json);
    buffer_free(&out);
    return done;
}

typedef struct show {
    const audit_args_t *args;
    const char *id;
    buffer_t why;
    bool failed;
} show_t;

static bool show_print_row(void *self, const audit_row_t *row) {
    show_t *show = self;
    if (!slice_is(row->event.event, show->id)) return true;
    bool done = show->args->format == FORMAT_TABLE ? show_print_table(show->args, row, &show->why)
                                                   : show_print_data(show->args, row, &show->why);
    show->failed = !done;
    return false;
}

// Several events begin like that: which ones, on standard error, where messages go.
static int show_list_candidates(const audit_args_t *args, show_search_t *search) {
    const table_column_t columns[] = {{.title = "REF"},  {.title = "AT"},     {.title = "QUEUE", .min_width = 8},
                                      {.title = "KIND"}, {.title = "REASON"}, {.title = "JOB", .min_width = 8, .max_width = 36}};
    buffer_t why = {0};
    fprintf(stderr, "queue-sidecar: several refs begin with `%s`: give more of it\n", search->ref.prefix);
    search->utc = args->utc;
    search->table = table_begin(columns, sizeof columns / sizeof *columns, stderr);
    bool done = audit_find_ref(args->audit, search->ref.prefix, MAX_CANDIDATES, show_add_candidate, search, &why);
    table_end(search->table);
    return done ? CLI_FAILED : audit_print_error(&why);
}

static int show_run(audit_args_t *args) {
    show_search_t search = {0};
    show_t show = {.args = args, .id = search.first};
    buffer_t why = {0};
    if (!audit_ref_parse(args->operands.all[0], &search.ref)) {
        fprintf(stderr, "queue-sidecar audit: `%s` is no ref: " AUDIT_REF_SYNTAX "\n", args->operands.all[0]);
        return CLI_USAGE;
    }
    if (!audit_find_ref(args->audit, search.ref.prefix, MAX_CANDIDATES, show_add_candidate, &search, &why))
        return audit_print_error(&why);
    if (search.found == 0) {
        fprintf(stderr, "queue-sidecar: no event has the ref `%s`: it may be older than what this log keeps\n",
                args->operands.all[0]);
        return CLI_FAILED;
    }
    if (search.found > 1) return show_list_candidates(args, &search);
    if (!audit_find_ref(args->audit, search.ref.prefix, MAX_CANDIDATES, show_print_row, &show, &why))
        return audit_print_error(&why);
    return show.failed ? audit_print_error(&show.why) : CLI_OK;
}

static const cli_option_t options[] = {
    AUDIT_OPERANDS("REF", "what `audit list` shows, the beginning of it, or the 64 hex digits of an event id", NULL),
    AUDIT_OPTIONS_LOG,
    AUDIT_OPTION_FORMAT,
    {.name = "utc", .at = offsetof(audit_args_t, utc), .help = "times are UTC instead of local time"},
};

const audit_command_t audit_show_command = {
    .about = {.name = "show",
              .summary = "All that is known of one event, and the history of its job",
              .examples = "queue-sidecar audit show k3vq7m2zt4pa\n"
                          "queue-sidecar audit show k3vq -o json\n",
              .usage = "audit show REF [-c FILE | --db PATH] [-o FORMAT] [--utc]",
              CLI_OPTIONS(options),
              .text = "A terminal gets the beginning of a large payload, -o json and a pipe all of it.\n\n" AUDIT_TEXT_DATA,
              .exits = "0 ok\n1 failed, no such ref, or several\n2 wrong usage\n78 bad config\n"},
    .opens_log = true,
    .min_operands = 1,
    .max_operands = 1,
    .missing_operand = "a ref is missing: `show REF`",
    .run = show_run,
};
