// queue-sidecar audit import: adds events of other logs and of exports to this log.

#include "audit/import/import.h"
#include "base/text/time_text.h"
#include "base/text/units.h"
#include "cli/audit/audit.h"
#include "cli/audit/event_output.h"
#include "cli/terminal.h"

enum {
    LINES_PER_PROGRESS = 256,
    BUSY_TIMEOUT_MS = 300000, // for the lock of a sidecar that writes all the time, or rewrites the log after an erasure
    MAX_NAMED = 100,          // skipped lines named per file; in a wrong file every line is skipped
};

// One file that is imported.
typedef struct import_file {
    import_t *import;
    const char *name;
    const char *log;  // target of the import
    const char *unit; // of positions in the file: "line", or "row" of an audit log
    int64_t events;   // of an export: since its beginning, or since the last end line
    int64_t missing;  // events counted by end lines, but not in the file
    bool complete;    // the last line was an end line
    int64_t named;    // lines that were reported as skipped
    line_reader_t reader;
    buffer_t text; // of the event in the line that was read last
    progress_t progress;
} import_file_t;

// `reason` is free of control bytes.
static void import_report_skipped(void *self, int64_t from, int64_t to, const char *reason) {
    import_file_t *file = self;
    if (file->named++ >= MAX_NAMED) return;
    progress_end(&file->progress);
    fprintf(stderr, "queue-sidecar: %s: %s %" PRId64, file->name, file->unit, from);
    if (to > from) fprintf(stderr, " to %" PRId64, to);
    fprintf(stderr, ": skipped: %s\n", reason);
}

static void import_report_filled(void *self, const event_t *gap) {
    import_file_t *file = self;
    char ref[EVENT_REF_SIZE];
    buffer_t queue = {0};
    if (!event_ref(gap->event, ref)) return;
    terminal_escape(&queue, gap->queue, false);
    progress_end(&file->progress);
    printf("%s: fills the gap %s of queue %s (records %.*s, up to %s)\n", file->name, ref, buffer_text(&queue), (int)gap->job.len,
           gap->job.data, time_rfc3339(gap->at).text);
    buffer_free(&queue);
}

static void import_report_progress(void *self, int64_t done, int64_t total) {
    progress_show(&((import_file_t *)self)->progress, done, total);
}

static bool import_fail(buffer_t *why, const char *name, const char *text) {
    buffer_printf(why, "%s: %s", name, text);
    return false;
}

static void import_skip_line(import_file_t *file, const char *reason) {
    int64_t line = file->reader.number;
    file->events++;
    file->complete = false;
    import_count_refused(file->import);
    import_report_skipped(file, line, line, reason);
}

// Begins to count again: a file may hold several exports.
static void import_end_line(import_file_t *file, const event_t *end) {
    if (end->size > file->events) file->missing += end->size - file->events;
    file->events = 0;
    file->complete = true;
}

// False: the event could not be added to the log.
static bool import_line(import_file_t *file, slice_t line, buffer_t *why) {
    buffer_t reason = {0};
    event_t event;
    bool added = true, read = event_read_json(line, &file->text, &event, &reason);
    if (read && slice_is(event.kind, EXPORT_END_KIND)) {
        import_end_line(file, &event);
    } else if (!read || !event_check(&event, time_now_ms(), &reason) || !import_answer_fits(file->import, &event, &reason)) {
        import_skip_line(file, buffer_text(&reason));
    } else {
        file->events++;
        file->complete = false;
        added = import_add(file->import, &event, why);
    }
    buffer_free(&reason);
    return added;
}

static bool import_is_sqlite(slice_t start) {
    static const char magic[] = "SQLite format 3";
    return start.len >= sizeof magic - 1 && memcmp(start.data, magic, sizeof magic - 1) == 0;
}

static bool import_is_csv(slice_t line) { return memmem(line.data, line.len, "event", 5) && memchr(line.data, ',', line.len); }

// Why a file that begins with this line is no export; NULL = it may be one.
static const char *import_refuse_start(slice_t line) {
    if (line.len && *line.data == '{') return NULL;
    if (line.len && *line.data == '[') return "is one JSON array: export it again with -o jsonl";
    if (import_is_csv(line)) return "is a CSV file, which import does not read: export it again with -o jsonl";
    return "is neither an audit log nor an export (-o jsonl) of one";
}

// Imports an export. The caller has read its first line: `result` and `line`.
static bool import_export(import_file_t *file, line_result_t result, slice_t line, buffer_t *why) {
    const char *refusal = file->reader.number ? import_refuse_start(line) : NULL;
    if (refusal) return import_fail(why, file->name, refusal);
    for (;; result = line_reader_next(&file->reader, &line)) {
        switch (result) {
        case LINE_END: return import_flush(file->import, why);
        case LINE_FAILED: return import_fail(why, file->name, strerror(errno));
        case LINE_FOREIGN: return import_fail(why, file->name, "has a line without an end: it is no export (-o jsonl)");
        case LINE_TOO_LONG: import_skip_line(file, "is longer than any event"); break;
        case LINE_READ:
            if (!import_line(file, line, why)) return false;
        }
        if (file->reader.number % LINES_PER_PROGRESS == 0) progress_show(&file->progress, file->reader.number, 0);
    }
}

// Closing a descriptor of a log drops the locks that SQLite holds on it in this process (sqlite.org/howtocorrupt.html). So never
// open the target log here, and close any other log before SQLite opens it.
static bool import_open(import_file_t *file, buffer_t *why) {
    const import_listener_t listener = {file, import_report_skipped, import_report_filled, import_report_progress};
    bool is_input = strcmp(file->name, "-") == 0;
    if (!is_input && audit_is_same_file(file->name, file->log))
        return import_fail(why, file->name, "is the audit log itself: name another one");
    FILE *in = is_input ? stdin : fopen(file->name, "re");
    if (!in) return import_fail(why, file->name, strerror(errno));
    slice_t line;
    file->reader = (line_reader_t){.in = in, .max_bytes = LINE_MAX_BYTES};
    line_result_t result = line_reader_next(&file->reader, &line);
    bool is_log = import_is_sqlite(line);
    bool done = !is_log && import_export(file, result, line, why);
    buffer_free(&file->reader.buffer);
    buffer_free(&file->text);
    if (!is_input) fclose(in);
    if (!is_log) return done;
    if (is_input) return import_fail(why, "standard input", "is an audit log: give the name of its file");
    file->unit = "row";
    return import_log(file->import, file->name, &listener, why);
}

static void import_print_counts(const char *name, const import_counts_t *counts) {
    int64_t skipped = counts->gaps_skipped, filled = counts->gaps_filled;
    printf("%s: %s added, %s known, %s skipped", name, number_text(counts->added).text, number_text(counts->known).text,
           number_text(counts->refused).text);
    if (skipped) printf(", %s %s of that log not needed here", number_text(skipped).text, skipped == 1 ? "gap" : "gaps");
    if (filled) printf(", %s %s filled", number_text(filled).text, filled == 1 ? "gap" : "gaps");
    puts("");
}

// False: the end lines of the exports count more events than came.
static bool import_check_complete(const import_file_t *file) {
    if (file->missing)
        fprintf(stderr, "queue-sidecar: %s: %s exported events are missing: get the file again\n", file->name,
                number_text(file->missing).text);
    else if (file->events && !file->complete)
        fprintf(
            stderr,
            "queue-sidecar: %s: the line that ends an export is missing: the file was cut short, or an older version wrote it; "
            "its events were imported\n",
            file->name);
    return file->missing == 0;
}

static bool import_one(audit_t *audit, const char *log, const char *name) {
    import_file_t file = {
        .import = import_begin(audit), .name = name, .log = log, .unit = "line", .progress = progress_begin("importing")};
    buffer_t why = {0};
    bool done = import_open(&file, &why);
    const import_counts_t *counts = import_counted(file.import);
    progress_end(&file.progress);
    if (file.named > MAX_NAMED)
        fprintf(stderr, "queue-sidecar: %s: these are the first %d skipped lines; the others are only counted\n", name,
                MAX_NAMED);
    import_print_counts(name, counts);
    if (!done) audit_print_error(&why);
    bool good = done && import_check_complete(&file) && counts->refused == 0;
    import_free(file.import);
    return good;
}

static int import_run(audit_args_t *args) {
    buffer_t why = {0};
    int status = CLI_OK;
    bool exists = access(args->path, F_OK) == 0;
    audit_t *audit = audit_open(args->path, AUDIT_IMPORT, &why);
    if (!audit) return audit_print_error(&why);
    audit_set_busy_timeout(audit, BUSY_TIMEOUT_MS);
    if (!exists) fprintf(stderr, "queue-sidecar: created a new audit log: %s\n", args->path);
    for (size_t i = 0; i < args->operands.count; i++)
        if (!import_one(audit, args->path, args->operands.all[i])) status = CLI_FAILED;
    audit_close(audit);
    return status;
}

static const cli_option_t options[] = {
    AUDIT_OPERANDS(
        "FILE",
        "an audit log (SQLite, of this version or an older one; it is only read), a jsonl file that `audit export` wrote, "
        "or - for standard input",
        CLI_FILES),
    AUDIT_OPTIONS_LOG,
};

const audit_command_t audit_import_command = {
    .about =
        {.name = "import",
         .summary = "Add events of another instance's log, or of an export, that this log lacks",
         .examples = "queue-sidecar audit import /backup/audit-of-pod-2.db\n"
                     "kubectl exec pod-2 -c queue-sidecar -- queue-sidecar audit export | queue-sidecar audit import -\n",
         .usage = "audit import FILE... [-c FILE | --db PATH]",
         CLI_OPTIONS(options),
         .text =
             "Creates the log if there is none. Events are identified by their ids, so you may interrupt an import and run it "
             "again, also while a sidecar writes to the log. Lines that are not events are skipped; the first 100 of each "
             "file are named by line number (of a log: by row). A FILE that is a log also fills the gaps that it covers; "
             "`audit list --kind gap` lists open and filled gaps. CSV files are not read: export with `-o "
             "jsonl`. Run this command as the user of the sidecar.",
         .exits = "0 ok\n1 failed, or events were skipped or are missing\n2 wrong usage\n78 bad config\n"},
    .opens_log_itself = true,
    .missing_operand = "specify a FILE to import",
    .run = import_run,
};
