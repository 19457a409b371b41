#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/keyset.h"
#include "cli/audit/audit.h"
#include "cli/audit/event_output.h"
#include "cli/terminal.h"

enum { FIRST_ROWS = 10, POLL_MS = 200, PAGE_BYTES = 256 * 1024, MAX_PRINTED = 32768 };

// The events that were printed, as a new file may hold them again. Two generations take 3 MiB at most; older events are told by
// their time.
typedef struct tail_printed {
    keymap_t recent, older;
    int64_t recent_ms, older_ms; // the latest time in each
    int64_t floor_ms;            // a new file has nothing new before it
} tail_printed_t;

typedef struct tail {
    const audit_args_t *args;
    audit_t *audit; // NULL while it cannot be opened
    struct stat file;
    int64_t after;         // the seq that was read last
    int64_t commits;       // of the log, when it was read last
    bool check_printed;    // the file was replaced
    bool printing_old;     // the first rows
    int64_t skip_rows;     // so many of them are not printed
    event_output_t output; // of one page, so that no read transaction waits for the terminal
    char *last_error;      // owned
    tail_printed_t printed;
} tail_t;

static atomic_int interrupted; // the signal, or 0

static void tail_on_signal(int number) { atomic_store(&interrupted, number); }

static void tail_key(slice_t id, uint8_t key[KEY_BYTES]) {
    digest_t digest = digest_of(id.data, id.len);
    memcpy(key, digest.bytes, KEY_BYTES);
}

static bool tail_is_new(const tail_printed_t *printed, const event_t *event) {
    uint8_t key[KEY_BYTES];
    tail_key(event->event, key);
    return event->at >= printed->floor_ms && !keymap_find(&printed->recent, key) && !keymap_find(&printed->older, key);
}

static void tail_remember(tail_printed_t *printed, const event_t *event) {
    uint8_t key[KEY_BYTES];
    if (printed->recent.count >= MAX_PRINTED) {
        if (printed->older_ms > printed->floor_ms) printed->floor_ms = printed->older_ms;
        keymap_free(&printed->older);
        printed->older = printed->recent;
        printed->older_ms = printed->recent_ms;
        printed->recent = (keymap_t){0};
        printed->recent_ms = 0;
    }
    tail_key(event->event, key);
    keymap_put(&printed->recent, key);
    if (event->at > printed->recent_ms) printed->recent_ms = event->at;
}

static bool tail_add_row(void *self, const audit_row_t *row) {
    tail_t *tail = self;
    const event_t *event = &row->event;
    if (tail->check_printed && !tail_is_new(&tail->printed, event)) return true;
    if (tail->printing_old && (tail->printed.floor_ms == 0 || event->at < tail->printed.floor_ms))
        tail->printed.floor_ms = event->at;
    tail_remember(&tail->printed, event);
    if (tail->skip_rows > 0) {
        tail->skip_rows--;
        return true;
    }
    event_output_add(&tail->output, row);
    return tail->output.records.text.len < PAGE_BYTES;
}

static void tail_flush(tail_t *tail) {
    if (tail->output.table) table_flush(tail->output.table);
    records_print(&tail->output.records);
    fflush(stdout);
}

// False with *why: the log cannot be read.
static bool tail_print_new(tail_t *tail, buffer_t *why) {
    for (bool more = true; more && !atomic_load(&interrupted);) {
        if (!audit_page(tail->audit, &tail->args->filter, &tail->after, tail_add_row, tail, &more, why)) return false;
        tail_flush(tail);
    }
    tail->printing_old = false;
    return true;
}

static bool tail_open_log(tail_t *tail, buffer_t *why) {
    struct stat before;
    if (stat(tail->args->path, &before) != 0) memset(&before, 0, sizeof before);
    tail->audit = audit_open(tail->args->path, AUDIT_READ, why);
    if (!tail->audit) return false;
    tail->file = before;
    return audit_commits(tail->audit, &tail->commits, why);
}

static bool tail_is_replaced(const tail_t *tail) {
    struct stat now;
    return stat(tail->args->path, &now) == 0 && (now.st_dev != tail->file.st_dev || now.st_ino != tail->file.st_ino);
}

static void tail_restart(tail_t *tail) {
    fputs("queue-sidecar: the audit log was replaced; following the new file\n", stderr);
    tail->check_printed = true;
    tail->after = INT64_MIN;
}

// True: an older copy, of fewer commits, was written over the file. If only the last rows are gone, which retention may have
// removed, new rows get their seqs.
static bool tail_went_back(tail_t *tail) {
    int64_t first, last, before = tail->commits;
    buffer_t why = {0};
    bool read = audit_commits(tail->audit, &tail->commits, &why) && audit_bounds(tail->audit, INT64_MIN, &first, &last, &why);
    bool back = read && tail->commits < before;
    if (read && !back && last < tail->after) tail->after = last;
    buffer_free(&why);
    return back;
}

// Takes the error and prints it, unless it is the same as before. Closes the log.
static void tail_print_error(tail_t *tail, buffer_t *why) {
    if (!tail->last_error || strcmp(tail->last_error, buffer_text(why)) != 0)
        fprintf(stderr, "queue-sidecar: %s; waiting for the log\n", buffer_text(why));
    free(tail->last_error);
    tail->last_error = mem_str(buffer_text(why));
    buffer_free(why);
    audit_close(tail->audit);
    tail->audit = NULL;
}

static void tail_poll(tail_t *tail) {
    buffer_t why = {0};
    if (tail->audit && tail_is_replaced(tail)) {
        if (!tail_print_new(tail, &why)) buffer_clear(&why); // the last rows of the old file, if they can still be read
        audit_close(tail->audit);
        tail->audit = NULL;
    }
    if (!tail->audit) {
        struct stat was = tail->file;
        if (!tail_open_log(tail, &why)) {
            tail_print_error(tail, &why);
            return;
        }
        if (was.st_ino != tail->file.st_ino || was.st_dev != tail->file.st_dev) tail_restart(tail);
    }
    if (tail_went_back(tail)) tail_restart(tail);
    if (!tail_print_new(tail, &why)) tail_print_error(tail, &why);
    buffer_free(&why);
}

// False: it was interrupted, or nobody reads any more.
static bool tail_wait(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    if (!atomic_load(&interrupted)) poll(&out, 1, POLL_MS);
    return !atomic_load(&interrupted) && !(out.revents & (POLLERR | POLLHUP | POLLNVAL));
}

static int tail_follow(tail_t *tail) {
    buffer_t why = {0};
    const audit_args_t *args = tail->args;
    int64_t wanted = args->has_limit ? args->filter.limit : FIRST_ROWS;
    int64_t seen = wanted ? wanted : 1; // at least one row tells which rows are new
    tail->skip_rows = wanted ? 0 : 1;
    if (!tail_open_log(tail, &why) || !audit_find_last(tail->audit, &args->filter, seen, &tail->after, &why) ||
        !tail_print_new(tail, &why))
        return audit_print_error(&why);
    tail->skip_rows = 0;
    while (!ferror(stdout) && tail_wait()) tail_poll(tail); // cli_main reports a full disk
    return CLI_OK;
}

// Rows to come are unknown, so columns begin with the width that most of them need.
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
    const struct sigaction action = {.sa_handler = tail_on_signal}; // interrupts a wait
    const unsigned same = (args->filter.queue ? 1U << CELL_QUEUE : 0) | (args->filter.all_kinds ? 0 : 1U << CELL_KIND);
    tail_t tail = {.args = args,
                   .printing_old = true,
                   .output = {.format = args->format, .utc = args->utc, .narrow = terminal_is_narrow(stdout)}};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    event_output_begin(&tail.output, columns, COUNT(columns), same, stdout);
    int status = tail_follow(&tail);
    event_output_end(&tail.output);
    audit_close(tail.audit);
    keymap_free(&tail.printed.recent);
    keymap_free(&tail.printed.older);
    free(tail.last_error);
    int number = atomic_load(&interrupted);
    if (number) { // end by the signal, so that a shell ends its script too
        signal(number, SIG_DFL);
        raise(number);
    }
    return status;
}

static const cli_option_t options[] = {
    AUDIT_OPTIONS_LOG,
    AUDIT_OPTIONS_FILTERS,
    AUDIT_OPTION_UTC,
    AUDIT_OPTIONS_KIND,
    AUDIT_OPTION_OUTPUT("table jsonl csv", "table, jsonl (an object a line) or csv (RFC 4180)"),
    AUDIT_OPTION_LIMIT("print so many old events first, 10 by default"),
};

const audit_command_t audit_tail_command = {
    .about = {.name = "tail",
              .summary = "Print the last final failures, and new ones as they come, until interrupted",
              .examples = "queue-sidecar audit tail --queue email\n"
                          "queue-sidecar audit tail -n 0 --all-kinds -o jsonl | jq .error\n",
              .usage = "audit tail [-c FILE | --db PATH] [FILTERS] [-n N] [-o FORMAT] [--utc]",
              CLI_OPTIONS(options),
              .text = AUDIT_TEXT_DATA
              "\n\n"
              "Events come in the order in which they reached this log. When the file is replaced, tail follows the new "
              "one and prints nothing twice.",
              .exits = AUDIT_EXITS},
    .opens_log_itself = true,
    .run = tail_run,
};
