// queue-sidecar audit show: prints all fields of one event, and the other events of its job.

#include "base/text/base64.h"
#include "base/text/time_text.h"
#include "base/text/units.h"
#include "cli/audit/audit.h"
#include "cli/audit/event_output.h"
#include "cli/terminal.h"

enum { BASE64_LINE = 76, BASE64_LINE_BYTES = BASE64_LINE / 4 * 3 };
// Bytes of a payload that are shown on a terminal: megabytes would scroll everything else away. Errors of workers fit.
enum { TERMINAL_TEXT = 64 * 1024, TERMINAL_BINARY = 12 * BASE64_LINE_BYTES };

typedef struct show {
    const audit_args_t *args;
    bool found;
    buffer_t why;           // errors of reading
    event_output_t history; // of its job, for a table
    int rows;               // of the history in JSON
    buffer_t out;           // text not yet printed
} show_t;

static void show_add_label(buffer_t *out, const char *name) { buffer_printf(out, "%-10s", name); }

static void show_add_text(buffer_t *out, const char *name, slice_t text) {
    if (text.len == 0) return;
    show_add_label(out, name);
    terminal_escape(out, text, false);
    buffer_str(out, "\n");
}

static void show_add_time(buffer_t *out, const char *name, int64_t ms, bool utc) {
    if (ms == 0) return;
    show_add_label(out, name);
    buffer_printf(out, "%s.%03d %s\n", time_text(ms, utc, TIME_SECONDS).text, (int)(ms % 1000), time_zone(ms, utc).text);
}

static slice_t show_truncate(slice_t bytes, bool is_text) {
    size_t most = is_text ? TERMINAL_TEXT : TERMINAL_BINARY;
    if (bytes.len <= most || !isatty(STDOUT_FILENO)) return bytes;
    while (is_text && ((unsigned char)bytes.data[most] & 0xc0) == 0x80) most--; // keep a UTF-8 sequence whole
    return (slice_t){bytes.data, most};
}

// Text is indented and escaped; other bytes are in base64, in lines that `base64 -d` reads.
static void show_add_bytes(buffer_t *out, const char *name, slice_t bytes, bool is_text) {
    buffer_t plain = {0};
    if (bytes.len == 0) return;
    show_add_label(out, name);
    buffer_printf(out, "%s bytes%s\n", number_text((int64_t)bytes.len).text, is_text ? "" : ", not text: in base64");
    slice_t part = show_truncate(bytes, is_text);
    if (is_text)
        terminal_escape(&plain, part, true);
    else
        base64_encode(&plain, part);
    for (const char *line = buffer_text(&plain); *line;) {
        size_t len = is_text ? strcspn(line, "\n") : strnlen(line, BASE64_LINE);
        buffer_printf(out, "  %.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
    if (part.len < bytes.len)
        buffer_printf(out, "  … and %s bytes more: see them with `-o json`, or in a pipe (`| less`)\n",
                      number_text((int64_t)(bytes.len - part.len)).text);
    buffer_free(&plain);
}

static const event_column_t columns[] = {
    {.cell = CELL_MARK, .title = ""},
    {.cell = CELL_TIME, .title = "HISTORY OF THE JOB", .layout = ONLY_WIDE},
    {.cell = CELL_TIME, .title = "HISTORY", .layout = ONLY_NARROW},
    {.cell = CELL_KIND, .title = "KIND"},
    {.cell = CELL_REASON, .title = "REASON", .wide = {.min = 12, .max = 60}, .narrow = {.min = 12, .max = 60}},
    {.cell = CELL_WORKER, .title = "BY", .wide = {.min = 6, .max = 40}, .narrow = {.min = 6, .max = 40}},
    {.cell = CELL_TRIES, .title = "TRIES"},
    {.cell = CELL_REF, .title = "REF"},
    {.cell = CELL_ERROR, .title = "ERROR", .wide = {.min = 10, .max = 160}, .narrow = {.min = 10, .max = 160}},
};

static bool show_add_history(void *self, const audit_row_t *row) {
    show_t *show = self;
    if (show->args->format == FORMAT_TABLE) {
        event_output_add(&show->history, row);
    } else {
        if (show->rows++) buffer_str(&show->out, ",");
        event_write_json(&show->out, row);
    }
    return true;
}

static void show_read_history(show_t *show, const audit_row_t *row) {
    audit_history(show->args->audit, row->event.queue, row->event.job, show_add_history, show, &show->why);
}

// The log counts erasures that are not complete. It does not know which failures they name.
static void show_add_unscrubbed(show_t *show, const audit_row_t *row) {
    int64_t count = 0;
    if (!row->erased_at || !audit_count_unscrubbed(show->args->audit, &count, &show->why) || count == 0) return;
    show_add_text(&show->out, "left",
                  slice_text("parts may still be in the file of this log; its sidecar rewrites it 5 min after the erasure at the "
                             "latest"));
}

static void show_print_table(show_t *show, const audit_row_t *row) {
    const event_t *event = &row->event;
    buffer_t *out = &show->out;
    bool failed = slice_is(event->kind, "failed"), utc = show->args->utc;
    show_add_text(out, "ref", row->ref);
    if (!failed) show_add_text(out, "kind", event->kind);
    show_add_text(out, "state", row->state);
    show_add_time(out, "since", row->answered_at, utc);
    show_add_text(out, "by", row->answered_by);
    show_add_text(out, "because", row->answer_reason);
    show_add_time(out, "erased", row->erased_at, utc);
    show_add_text(out, "by", row->erased_by);
    show_add_text(out, "because", row->erase_reason);
    show_add_unscrubbed(show, row);
    show_add_text(out, "queue", event->queue);
    show_add_text(out, "group", event->group);
    show_add_text(out, "dialect", event->dialect);
    show_add_text(out, "job", event->job);
    show_add_text(out, "type", event->type);
    show_add_text(out, "worker", event->worker);
    show_add_text(out, "trace", event->traceparent);
    show_add_text(out, "reason", event->reason);
    show_add_label(out, "tries");
    event_add_tries(out, event);
    buffer_str(out, "\n");
    show_add_time(out, "created", event->created, utc);
    show_add_time(out, "started", event->started, utc);
    show_add_time(out, failed ? "failed" : "at", event->at, utc);
    show_add_text(out, "term", event->term);
    show_add_text(out, "event", event->event);
    show_add_text(out, "answers", event->answers);
    show_add_text(out, "sha256", event->sha256);
    show_add_bytes(out, "error", event->error, row->error_is_text);
    show_add_bytes(out, "payload", event->payload, row->payload_is_text);
    if (event->payload.len == 0 && event->size) { // retries, and jobs that were too large, have no payload
        show_add_label(out, "payload");
        buffer_printf(out, "%s bytes, %s\n", number_text(event->size).text,
                      row->erased_at ? "erased" : "not recorded with this event");
    }
    buffer_str(out, "\n");
    terminal_print(&show->out, stdout);
    show->history = (event_output_t){.utc = utc, .narrow = terminal_is_narrow(stdout), .marked = event->event};
    event_output_begin(&show->history, columns, COUNT(columns), 0, stdout);
    show_read_history(show, row);
    event_output_end(&show->history);
}

// Prints one object, with the history inside.
static void show_print_json(show_t *show, const audit_row_t *row) {
    event_write_json(&show->out, row);
    show->out.len--; // the closing brace
    buffer_str(&show->out, ",\"history\":[");
    show_read_history(show, row);
    buffer_str(&show->out, "]}\n");
    terminal_print(&show->out, stdout);
}

static bool show_print_row(void *self, const audit_row_t *row) {
    show_t *show = self;
    event_output_t csv = {.format = FORMAT_CSV, .records.raw = show->args->raw};
    show->found = true;
    switch (show->args->format) {
    case FORMAT_TABLE: show_print_table(show, row); break;
    case FORMAT_CSV:
        event_output_begin(&csv, NULL, 0, 0, NULL);
        event_output_add(&csv, row);
        event_output_end(&csv);
        break;
    default: show_print_json(show, row);
    }
    return false;
}

static int show_run(audit_args_t *args) {
    show_t show = {.args = args};
    ref_event_t found;
    int status = audit_find_event(args, args->operands.all[0], &found);
    if (status != CLI_OK) return status;
    if (!audit_rows(args->audit, &found.seq, 1, show_print_row, &show, &show.why) || show.why.len)
        return audit_print_error(&show.why);
    return show.found ? CLI_OK : CLI_FAILED; // retention has just removed it
}

static const cli_option_t options[] = {
    AUDIT_OPERAND("REF", "from `audit list`, or its first characters, or the 64 hex digits of an event id", NULL),
    AUDIT_OPTIONS_LOG,
    AUDIT_OPTION_FORMAT,
    AUDIT_OPTION_RAW,
    AUDIT_FLAG(0, "utc", utc, "print times in UTC instead of local time"),
};

const audit_command_t audit_show_command = {
    .about = {.name = "show",
              .summary = "Show all that is known of one event, and the history of its job",
              .examples = "queue-sidecar audit show k3vq7m2zt4pa\n"
                          "queue-sidecar audit show k3vq -o json\n",
              .usage = "audit show REF [-c FILE | --db PATH] [-o FORMAT] [--raw] [--utc]",
              CLI_OPTIONS(options),
              .text = "On a terminal a large payload is cut short; -o json and a pipe get all of it.\n\n" AUDIT_TEXT_DATA,
              .exits = "0 ok\n1 failed, or REF names no event or several\n2 wrong usage\n78 bad config\n"},
    .missing_operand = "specify the REF of an event",
    .run = show_run,
};
