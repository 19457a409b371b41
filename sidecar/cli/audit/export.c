// queue-sidecar audit export: writes events to a file or to standard output, page by page.
#include "base/failpoint.h"
#include "cli/atomic_file.h"
#include "cli/audit/audit.h"
#include "cli/audit/event_output.h"
#include "cli/terminal.h"

enum { PAGE_BYTES = 1024 * 1024 };

typedef struct export {
    const audit_args_t *args;
    const char *name;      // of the output, for messages
    event_output_t output; // holds one page, so that no read transaction waits for the reader of the file
    int64_t events;        // written so far
    progress_t progress;
}
export_t;

static bool export_add_row(void *self, const audit_row_t *row) {
    export_t *export = self;
    event_output_add(&export->output, row);
    export->events++;
    return export->output.records.text.len < PAGE_BYTES;
}

// The last line looks like an event and counts the events before it. A truncated file has no such line.
static void export_add_end(export_t *export) {
    const audit_row_t end = {
        .event = {.kind = slice_text(EXPORT_END_KIND), .size = export->events}, .error_is_text = true, .payload_is_text = true};
    event_output_add(&export->output, &end);
}

static bool export_flush(export_t *export, buffer_t *why) {
    bool written = event_output_print(&export->output) && fflush(export->output.out) == 0;
    if (!written) buffer_printf(why, "%s: %s", export->name, strerror(errno));
    return written;
}

// Leaves out events that come during the export, or an export beside a busy sidecar would never end.
static bool export_write_pages(export_t *export, buffer_t *why) {
    int64_t first, last;
    if (!audit_bounds(export->args->audit, INT64_MIN, &first, &last, why)) return false;
    audit_cursor_t cursor = {.after = first - 1, .more = true};
    while (cursor.more && cursor.after < last) {
        if (!audit_page(export->args->audit, &export->args->filter, &cursor, export_add_row, export, why) ||
            !export_flush(export, why))
            return false;
        progress_show(&export->progress, cursor.after - first, last - first);
    }
    return true;
}

static bool export_write(export_t *export, buffer_t *why) {
    event_output_begin(&export->output, NULL, 0, 0, NULL);
    bool done = export_write_pages(export, why);
    if (done) export_add_end(export);
    done = done && export_flush(export, why);
    progress_end(&export->progress);
    buffer_free(&export->output.records.text);
    return done;
}

static int export_run(audit_args_t *args) {
    const char *name = args->operands.count && strcmp(args->operands.all[0], "-") != 0 ? args->operands.all[0] : NULL;
    buffer_t why = {0};
    atomic_file_t file;
    if (!args->filter.kind) args->filter.all_kinds = true;
    export_t export = {.args = args,
                       .name = name ? name : "standard output",
                       .output = {.format = args->format, .out = stdout, .records.raw = args->raw},
                       .progress = progress_begin("exporting")};
    if (!name && isatty(STDOUT_FILENO)) export.progress.enabled = false; // progress would mix with the rows
    if (!name) return export_write(&export, &why) ? CLI_OK : audit_print_error(&why);
    if (!atomic_file_create(&file, name, args->path, cli_config_path(args->text.config), args->force, &why))
        return audit_print_error(&why);
    export.output.out = file.out;
    bool done = export_write(&export, &why);
    failpoint("export_before_rename");
    return atomic_file_end(&file, done, &why) ? CLI_OK : audit_print_error(&why);
}

static const cli_option_t options[] = {
    AUDIT_OPERAND("FILE", "a new file, which appears when complete and on disk; - or no FILE: standard output", CLI_FILES),
    AUDIT_OPTIONS_LOG,
    AUDIT_OPTIONS_FILTERS,
    AUDIT_OPTION_UTC,
    AUDIT_OPTIONS_KIND("all kinds"),
    AUDIT_OPTION_OUTPUT("jsonl csv", "jsonl (an object a line; the default) or csv (RFC 4180)"),
    AUDIT_OPTION_RAW,
    AUDIT_OPTION_FORCE,
};

const audit_command_t audit_export_command = {
    .about =
        {.name = "export",
         .summary = "Write all events with all fields, oldest first",
         .examples = "queue-sidecar audit export failures-2026-11.jsonl --since 2026-11-01\n"
                     "queue-sidecar audit export --kind failed --queue email -o csv | gzip >email.csv.gz\n",
         .usage = "audit export [FILE] [-c FILE | --db PATH] [FILTERS] [-o jsonl|csv] [--raw] [--force]",
         CLI_OPTIONS(options),
         .text = "Events are final failures, retries, requeues, discards and gaps, in the order in which they reached the "
                 "log.\n\n" AUDIT_TEXT_DATA "\n\n"
                 "`audit import` reads a jsonl file back, byte for byte; csv is for spreadsheets. A long export does not block "
                 "the sidecar. The last line is not an event: its kind is `end`, and its size is the number of events before it. "
                 "A file without this line is truncated.",
         .exits = AUDIT_EXITS},
    .default_format = FORMAT_JSON_LINES,
    .run = export_run,
};
