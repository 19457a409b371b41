// Events to a file or to standard output, so that they can be read by others and imported again.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "cli/atomic_file.h"
#include "cli/audit/audit.h"
#include "cli/audit/event_fields.h"
#include "cli/progress.h"

enum { PAGE_BYTES = 1024 * 1024 };

typedef struct export {
    const audit_args_t *args;
    int fd;
    const char *name; // of what is written, for messages
    buffer_t text;    // of one page: no read transaction waits for whoever reads what we write
    int64_t events;   // that were written
    progress_t progress;
}
export_t;

static bool export_add_row(void *self, const audit_row_t *row) {
    export_t *export = self;
    if (export->args->format == FORMAT_CSV)
        event_write_csv(&export->text, row);
    else
        event_write_json(&export->text, row);
    buffer_str(&export->text, export->args->format == FORMAT_CSV ? "\r\n" : "\n");
    export->events++;
    return export->text.len < PAGE_BYTES;
}

// The last line has the shape of all others, and tells how many they are: a file that was cut short has none.
static void export_add_end(export_t *export) {
    const audit_row_t end = {
        .event = {.kind = slice_text(EXPORT_END_KIND), .size = export->events}, .error_is_text = true, .payload_is_text = true};
    export_add_row(export, &end);
}

static bool export_flush(export_t *export, buffer_t *why) {
    for (size_t at = 0; at < export->text.len;) {
        ssize_t wrote = write(export->fd, export->text.data + at, export->text.len - at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) {
            buffer_printf(why, "%s: %s", export->name, strerror(errno));
            return false;
        }
        at += (size_t)wrote;
    }
    buffer_clear(&export->text);
    return true;
}

// What came while it was written is left out: else an export beside a busy sidecar would not end.
static bool export_write_pages(export_t *export, buffer_t *why) {
    int64_t first, last, after;
    bool more = true;
    if (!audit_bounds(export->args->audit, INT64_MIN, &first, &last, why)) return false;
    after = first - 1;
    while (more && after < last) {
        if (!audit_page(export->args->audit, &export->args->filter, &after, export_add_row, export, &more, why) ||
            !export_flush(export, why))
            return false;
        progress_show(&export->progress, after - first, last - first);
    }
    return true;
}

static bool export_write(export_t *export, buffer_t *why) {
    if (export->args->format == FORMAT_CSV) {
        event_write_csv_header(&export->text);
    }
    bool done = export_flush(export, why) && export_write_pages(export, why);
    if (done) export_add_end(export);
    done = done && export_flush(export, why);
    progress_end(&export->progress);
    buffer_free(&export->text);
    return done;
}

static int export_run(audit_args_t *args) {
    const char *name = args->operands.count && strcmp(args->operands.all[0], "-") != 0 ? args->operands.all[0] : NULL;
    buffer_t why = {0};
    atomic_file_t file;
    if (!args->filter.kind) args->filter.all_kinds = true;
    export_t export = {
        .args = args, .fd = STDOUT_FILENO, .name = name ? name : "standard output", .progress = progress_begin("exporting")};
    if (!name && isatty(STDOUT_FILENO)) export.progress.wanted = false; // it would stand among the rows
    if (!name) return export_write(&export, &why) ? CLI_OK : audit_print_error(&why);
    if (!atomic_file_create(&file, name, args->path, args->force, &why)) return audit_print_error(&why);
    export.fd = file.fd;
    bool done = export_write(&export, &why);
    if (!done) atomic_file_discard(&file);
    failpoint("export_before_rename");
    if (done && atomic_file_commit(&file, &why)) return CLI_OK;
    return audit_print_error(&why);
}

static const cli_option_t options[] = {
    AUDIT_OPERANDS("FILE", "a new file, which appears when it is complete and on disk; without it, or as -, standard output",
                   CLI_FILES),
    AUDIT_OPTIONS_LOG,
    AUDIT_OPTIONS_FILTERS,
    AUDIT_OPTION_UTC,
    AUDIT_OPTIONS_KIND,
    AUDIT_OPTION_OUTPUT("jsonl csv", "jsonl (an object a line; if not told) or csv (RFC 4180)"),
    AUDIT_OPTION_FORCE,
};

const audit_command_t audit_export_command = {
    .about =
        {.name = "export",
         .summary = "All events with all columns, oldest first",
         .examples = "queue-sidecar audit export failures-2026-11.jsonl --since 2026-11-01\n"
                     "queue-sidecar audit export --kind failed --queue email -o csv | gzip >email.csv.gz\n",
         .usage = "audit export [FILE] [-c FILE | --db PATH] [FILTERS] [-o jsonl|csv] [--force]",
         CLI_OPTIONS(options),
         .text = "Events are final failures, retries, what was requeued or discarded, and gaps, in the order in which they came "
                 "into the log.\n\n" AUDIT_TEXT_DATA "\n\n"
                 "`audit import` reads a jsonl file back, byte for byte; csv is for spreadsheets. Long exports do not hold up "
                 "the sidecar that writes. The last "
                 "line is no event: its kind is `end`, its size the number of events before it. A file without it was cut short.",
         .exits = AUDIT_EXITS},
    .default_format = FORMAT_JSON_LINES,
    .opens_log = true,
    .max_operands = 1,
    .run = export_run,
};
