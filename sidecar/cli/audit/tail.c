#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/condition.h"
#include "cli/audit/audit.h"
#include "cli/audit/event_output.h"
#include "cli/terminal.h"
#include "operate/events/ref.h"

enum { FIRST_ROWS = 10, POLL_MS = 200, PAGE_BYTES = 256 * 1024, UNFINISHED_POLLS = 5000 / POLL_MS };

typedef struct tail {
    const audit_args_t *args;
    audit_t *audit;        // NULL while the log cannot be opened
    struct stat file;      // at args->path, at the last poll
    audit_cursor_t cursor; // the last row that was read
    int64_t commits;       // of the log, when it was read last; 0 = it is new here
    int64_t newest_ms;     // the latest time of the events so far
    int64_t printed_ms;    // a new file may hold printed events again: skip events up to this time; 0 = the first file
    int64_t skip_rows;     // how many of the next rows not to print
    event_output_t output; // of one page, so that no read transaction waits for the terminal
    condition_t error;
    int status;           // what ends tail; CLI_OK = nothing
    bool awaited;         // --wait: there was no log yet
    int unfinished_polls; // that found a file in the place of the awaited log, and could not open it
} tail_t;

static volatile sig_atomic_t interrupted; // the number of the signal; 0 = none

static void tail_on_signal(int number) { interrupted = number; }

static bool tail_add_row(void *self, const audit_row_t *row) {
    tail_t *tail = self;
    int64_t at = row->event.at;
    if (at <= tail->printed_ms) return true;
    if (at > tail->newest_ms) tail->newest_ms = at;
    if (tail->skip_rows > 0) {
        tail->skip_rows--;
        return true;
    }
    event_output_add(&tail->output, row);
    return tail->output.records.text.len < PAGE_BYTES;
}

// False with *why: the log cannot be read.
static bool tail_print_new(tail_t *tail, buffer_t *why) {
    for (tail->cursor.more = true; tail->cursor.more && !interrupted;) {
        if (!audit_page(tail->audit, &tail->args->filter, &tail->cursor, tail_add_row, tail, why)) return false;
        if (tail->output.table) table_flush(tail->output.table);
        event_output_print(&tail->output);
        fflush(stdout);
    }
    return true;
}

static bool tail_open_log(tail_t *tail, buffer_t *why) {
    tail->audit = audit_open(tail->args->path, AUDIT_READ, why);
    return tail->audit && (tail->commits || audit_commits(tail->audit, &tail->commits, why));
}

static void tail_close_log(tail_t *tail) {
    audit_close(tail->audit);
    tail->audit = NULL;
    tail->commits = 0;
}

// The directory is read-only here, but a sidecar in another container may write there. A file that was opened as one that nobody
// writes to would show its old rows for ever.
static void tail_close_immutable(tail_t *tail) {
    if (!tail->audit || !audit_is_immutable(tail->audit)) return;
    audit_close(tail->audit);
    tail->audit = NULL;
}

// Moves the cursor behind the event of --after. Without such an event all events are new, so that no reader misses one.
static bool tail_find_after(tail_t *tail, buffer_t *why) {
    const char *ref = tail->args->text.after;
    ref_event_t found;
    tail->cursor.after = INT64_MIN;
    if (!ref || !*ref) return true;
    ref_result_t result = ref_find(tail->audit, ref, NULL, NULL, &found, why);
    if (result == REF_FOUND) tail->cursor.after = found.seq;
    if (result == REF_MALFORMED) tail->status = CLI_USAGE;
    if (result == REF_AMBIGUOUS) tail->status = CLI_FAILED;
    if (result == REF_UNKNOWN) {
        fprintf(stderr, "queue-sidecar: this log has no event %s; printing it from its first event on\n", ref);
        buffer_clear(why);
    }
    return result == REF_FOUND || result == REF_UNKNOWN;
}

// True: an older copy, with fewer commits, was written over the file. If only the last rows are gone (retention may have removed
// them), moves `after` back, because new rows reuse their seqs.
static bool tail_went_back(tail_t *tail) {
    int64_t first, last, before = tail->commits;
    buffer_t why = {0};
    bool read = audit_commits(tail->audit, &tail->commits, &why) && audit_bounds(tail->audit, INT64_MIN, &first, &last, &why);
    bool back = read && tail->commits < before;
    if (read && !back && last < tail->cursor.after) tail->cursor.after = last;
    buffer_free(&why);
    return back;
}

// Frees *why after printing it, unless the last error was the same. Closes the log.
static void tail_print_error(tail_t *tail, buffer_t *why) {
    if (condition_update_reason(&tail->error, buffer_text(why)) == CONDITION_BEGAN)
        fprintf(stderr, "queue-sidecar: %s; waiting for the log\n", buffer_text(why));
    buffer_free(why);
    tail_close_log(tail);
}

// A log that is being made cannot be opened for a moment.
static bool tail_is_unfinished(tail_t *tail, const struct stat *file) {
    return tail->awaited && file->st_ino && ++tail->unfinished_polls < UNFINISHED_POLLS;
}

// Calls stat before it opens the log, so that the next poll finds a file that came between the two.
static void tail_poll(tail_t *tail) {
    buffer_t why = {0};
    struct stat now = tail->file;
    stat(tail->args->path, &now);
    bool replaced = now.st_dev != tail->file.st_dev || now.st_ino != tail->file.st_ino;
    if (tail->audit && replaced) {
        if (!tail_print_new(tail, &why)) buffer_clear(&why); // the last rows of the old file, if they can still be read
        tail_close_log(tail);
    }
    tail_close_immutable(tail);
    if (!tail->audit && !tail_open_log(tail, &why)) {
        if (!tail_is_unfinished(tail, &now)) tail_print_error(tail, &why);
        tail_close_log(tail);
        buffer_free(&why);
        return;
    }
    tail->file = now;
    if (tail->awaited) { // no former log was replaced
        if (!tail_find_after(tail, &why)) {
            if (tail->status)
                audit_print_error(&why);
            else
                tail_print_error(tail, &why);
            return;
        }
        tail->awaited = false;
    } else if (replaced || tail_went_back(tail)) {
        fputs("queue-sidecar: the audit log was replaced; following the new file\n", stderr);
        tail->printed_ms = tail->args->text.after ? 0 : tail->newest_ms;
        tail->cursor.after = INT64_MIN;
    }
    if (!tail_print_new(tail, &why)) tail_print_error(tail, &why);
    buffer_free(&why);
}

// False: tail was interrupted, or nobody reads its output any more.
static bool tail_wait(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    if (!interrupted) poll(&out, 1, POLL_MS);
    return !interrupted && !(out.revents & (POLLERR | POLLHUP | POLLNVAL));
}

static bool tail_find_first(tail_t *tail, int64_t count, buffer_t *why) {
    if (tail->args->text.after) return tail_find_after(tail, why);
    return audit_find_last(tail->audit, &tail->args->filter, count, &tail->cursor.after, why);
}

// Prints the last rows, or those after an event.
static bool tail_begin(tail_t *tail, buffer_t *why) {
    const audit_args_t *args = tail->args;
    int64_t wanted = args->has_limit ? args->filter.limit : FIRST_ROWS;
    int64_t seen = wanted ? wanted : 1; // one row is needed to know which rows are new
    tail->skip_rows = wanted || args->text.after ? 0 : 1;
    stat(args->path, &tail->file);
    if (!tail_open_log(tail, why)) {
        tail->awaited = args->wait;
        return false;
    }
    bool printed = tail_find_first(tail, seen, why) && tail_print_new(tail, why);
    tail->skip_rows = 0;
    return printed;
}

static int tail_follow(tail_t *tail) {
    buffer_t why = {0};
    bool begun = tail_begin(tail, &why);
    if (!begun && !tail->awaited) {
        int failed = audit_print_error(&why);
        return tail->status ? tail->status : failed;
    }
    if (!begun) { // all events of a log that comes now are new
        tail_close_log(tail);
        if (!tail->file.st_ino) tail_print_error(tail, &why);
        tail->file = (struct stat){0};
        tail->cursor.after = INT64_MIN;
        buffer_free(&why);
    }
    while (!tail->status && !ferror(stdout) && tail_wait()) tail_poll(tail); // cli_main reports a full disk
    return tail->status;
}

// Later rows are unknown, so each column begins with the width that most rows need.
static const event_column_t columns[] = {
    {.cell = CELL_REF, .title = "REF", .wide = {.initial = 12}, .narrow = {.initial = 12}},
    {.cell = CELL_TIME, .title = "AT", .wide = {.initial = 19}, .narrow = {.initial = 11}},
    {.cell = CELL_QUEUE, .title = "QUEUE", .wide = {.min = 6, .initial = 12}, .narrow = {.min = 6, .initial = 8}},
    {.cell = CELL_KIND, .title = "KIND", .wide = {.initial = 6}, .narrow = {.initial = 6}},
    {.cell = CELL_REASON, .title = "REASON", .wide = {.min = 17, .initial = 17}, .narrow = {.min = 8, .initial = 8}},
    {.cell = CELL_JOB,
     .title = "JOB",
     .wide = {.min = 8, .max = 20, .initial = 20},
     .narrow = {.min = 6, .max = 12, .initial = 12}},
    {.cell = CELL_ERROR_OR_PAYLOAD,
     .title = "ERROR, ELSE PAYLOAD",
     .wide = {.min = 24, .max = 160, .initial = 60},
     .narrow = {.min = 16, .max = 160, .initial = 60}},
};

static int tail_run(audit_args_t *args) {
    const struct sigaction action = {.sa_handler = tail_on_signal}; // without SA_RESTART: a signal interrupts poll
    const char *state = args->filter.state;
    if (state && strcmp(state, "failed") != 0)
        return cli_usage_error(args->command, "a new failure is not %s yet: use --kind %s", state, state);
    if (args->text.after && args->has_limit)
        return cli_usage_error(args->command, "--after and -n exclude each other: specify one of them");
    const unsigned same = (args->filter.queue ? 1U << CELL_QUEUE : 0) | (args->filter.all_kinds ? 0 : 1U << CELL_KIND);
    tail_t tail = {.args = args, .output = {.format = args->format, .utc = args->utc, .narrow = terminal_is_narrow(stdout)}};
    tail.output.records.raw = args->raw;
    tail.output.group = audit_group(args);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    event_output_begin(&tail.output, columns, COUNT(columns), same, stdout);
    int status = tail_follow(&tail);
    event_output_end(&tail.output);
    audit_close(tail.audit);
    condition_free(&tail.error);
    if (interrupted) { // end by the signal, so that a shell ends its script too
        signal(interrupted, SIG_DFL);
        raise(interrupted);
    }
    return status;
}

static const cli_option_t options[] = {
    AUDIT_OPTIONS_LOG,
    AUDIT_OPTIONS_FILTERS,
    AUDIT_OPTION_UTC,
    AUDIT_OPTIONS_KIND("failed"),
    AUDIT_OPTION_OUTPUT("table jsonl csv", "table, jsonl (an object a line) or csv (RFC 4180)"),
    AUDIT_OPTION_RAW,
    AUDIT_OPTION_LIMIT("print the last N events first; default 10"),
    AUDIT_VALUE(0, "after", "REF", text.after, NULL,
                "print first all events that reached this log after this one; '', or an event that the log does not have: all of "
                "the log"),
    AUDIT_FLAG(0, "wait", wait, "wait for a log that is not there yet, and print it from its first event on"),
};

const audit_command_t audit_tail_command = {
    .about =
        {.name = "tail",
         .summary = "Print the last final failures, and new ones as they come, until interrupted",
         .examples = "queue-sidecar audit tail --queue email\n"
                     "queue-sidecar audit tail -n 0 --all-kinds -o jsonl | jq .error\n"
                     "queue-sidecar audit tail --after k3vq7m2zt4pa -o jsonl\twhere an earlier run ended\n",
         .usage = "audit tail [-c FILE | --db PATH] [FILTERS] [-n N | --after REF] [--wait] [-o FORMAT] [--raw] [--utc]",
         CLI_OPTIONS(options),
         .text = AUDIT_TEXT_DATA
         "\n\n"
         "Events come in the order in which they reached this log. When the file is replaced, tail follows the new "
         "one, and prints only events that are newer than those before; with --after all of its events, so that a program which "
         "takes each event once misses none.",
         .exits = AUDIT_EXITS},
    .opens_log_itself = true,
    .run = tail_run,
};
