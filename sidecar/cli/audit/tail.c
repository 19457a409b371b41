// The last events, and new ones as they come.
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/keyset.h"
#include "cli/audit/audit.h"
#include "cli/audit/event_fields.h"
#include "cli/table.h"
#include "cli/time_text.h"

enum { FIRST_ROWS = 10, POLL_MS = 200, CHUNK = 256 * 1024, MAX_PRINTED = 32768, MAX_COLUMNS = 7 };

// What was printed: a new file may hold it again. Two generations, so that it takes 3 MiB however long this runs; what was
// forgotten is told by its time.
typedef struct known {
    keymap_t recent, older;
    int64_t recent_ms, older_ms; // the latest time in each
    int64_t floor_ms;            // of a new file, nothing before this is news
} tail_printed_t;

typedef struct tail {
    const audit_args_t *args;
    audit_t *audit; // NULL while it cannot be opened
    struct stat file;
    int64_t after;
    int64_t commits;    // that the log had
    bool check_printed; // the file is not the first one: it may hold what was printed
    bool printing_old;  // the old ones are being printed
    int64_t skip_rows;  // of these, so many are not
    table_t *table;     // NULL in other formats
    bool narrow;        // the terminal is
    buffer_t text;      // of one page: no read transaction waits for the terminal
    char *last_error;   // what was said last of why the log cannot be read; owned
    tail_printed_t printed;
} tail_t;

static atomic_int interrupted; // the signal, or 0

static void tail_on_signal(int number) { atomic_store(&interrupted, number); }

static void tail_key(slice_t id, uint8_t key[KEY_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < KEY_BYTES; i++) {
        const char *high = 2 * i < id.len ? strchr(digits, id.data[2 * i]) : NULL;
        const char *low = 2 * i + 1 < id.len ? strchr(digits, id.data[2 * i + 1]) : NULL;
        key[i] = (uint8_t)((high ? high - digits : 0) << 4 | (low ? low - digits : 0));
    }
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

// A narrow terminal leaves out what is the same in each row.
static bool tail_has_queue_column(const audit_args_t *args, bool narrow) { return !narrow || !args->filter.queue; }
static bool tail_has_kind_column(const audit_args_t *args, bool narrow) { return !narrow || args->filter.all_kinds; }

static void tail_add_table_row(const tail_t *tail, const audit_row_t *row) {
    char time[TIME_TEXT_SIZE];
    time_format(row->event.at, tail->args->utc, time);
    if (tail->narrow) time_shorten(time);
    table_cell(tail->table, row->ref);
    table_cell(tail->table, slice_text(time));
    if (tail_has_queue_column(tail->args, tail->narrow)) table_cell(tail->table, row->event.queue);
    if (tail_has_kind_column(tail->args, tail->narrow)) table_cell(tail->table, row->event.kind);
    table_cell(tail->table, row->event.reason);
    table_cell(tail->table, row->event.job);
    table_cell(tail->table, row->event.error.len ? row->event.error : row->event.payload);
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
    size_t before = tail->text.len;
    switch (tail->args->format) {
    case FORMAT_TABLE: tail_add_table_row(tail, row); return true;
    case FORMAT_CSV: event_write_csv(&tail->text, row); break;
    case FORMAT_JSON_ARRAY:
    case FORMAT_JSON_LINES: event_write_json(&tail->text, row); break;
    }
    buffer_str(&tail->text, tail->args->format == FORMAT_CSV ? "\r\n" : "\n");
    return tail->text.len - before < CHUNK && tail->text.len < CHUNK;
}

static void tail_flush(tail_t *tail) {
    if (tail->table) table_flush(tail->table);
    fwrite(buffer_text(&tail->text), 1, tail->text.len, stdout);
    fflush(stdout);
    buffer_clear(&tail->text);
}

// What is new. False with *why: the log cannot be read.
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
    fputs("queue-sidecar: the audit log was replaced: following the new one\n", stderr);
    tail->check_printed = true;
    tail->after = INT64_MIN;
}

// An older copy may have been written over the file: then it is of fewer commits. Where only the last rows are gone, which
// retention may have removed, new ones get their numbers.
static bool tail_went_back(tail_t *tail) {
    int64_t first, last, was = tail->commits;
    buffer_t why = {0};
    bool known = audit_commits(tail->audit, &tail->commits, &why) && audit_bounds(tail->audit, INT64_MIN, &first, &last, &why);
    bool back = known && tail->commits < was;
    if (known && !back && last < tail->after) tail->after = last;
    buffer_free(&why);
    return back;
}

// Takes the reason; says it once.
static void tail_print_error(tail_t *tail, buffer_t *why) {
    if (!tail->last_error || strcmp(tail->last_error, buffer_text(why)) != 0)
        fprintf(stderr, "queue-sidecar: %s: waiting for it\n", buffer_text(why));
    free(tail->last_error);
    tail->last_error = mem_str(buffer_text(why));
    buffer_free(why);
    audit_close(tail->audit);
    tail->audit = NULL;
}

static void tail_poll(tail_t *tail) {
    buffer_t why = {0};
    if (tail->audit && tail_is_replaced(tail)) {
        if (!tail_print_new(tail, &why)) buffer_clear(&why); // the last of the old file, if it can still be read
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

// Waits for the next look. False: an interrupt, or nobody reads any more.
static bool tail_wait(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    if (!atomic_load(&interrupted)) poll(&out, 1, POLL_MS);
    return !atomic_load(&interrupted) && !(out.revents & (POLLERR | POLLHUP | POLLNVAL));
}

static int tail_follow(tail_t *tail) {
    buffer_t why = {0};
    const audit_args_t *args = tail->args;
    int64_t wanted = args->has_limit ? args->filter.limit : FIRST_ROWS;
    int64_t seen = wanted ? wanted : 1; // one at least tells from when on there is news
    tail->skip_rows = wanted ? 0 : 1;
    if (!tail_open_log(tail, &why) || !audit_find_last(tail->audit, &args->filter, seen, &tail->after, &why) ||
        !tail_print_new(tail, &why))
        return audit_print_error(&why);
    tail->skip_rows = 0;
    while (!ferror(stdout) && tail_wait()) tail_poll(tail); // of a full disk cli_main tells
    return CLI_OK;
}

// Widths are those of the old rows at least: what comes is not known yet.
static table_t *tail_begin_table(const audit_args_t *args, bool narrow) {
    static char title[TIME_TEXT_SIZE + 8], zone[TIME_TEXT_SIZE];
    static table_column_t columns[MAX_COLUMNS];
    size_t count = 0, reason = audit_reason_width(stdout);
    time_zone_name(time_now_ms(), args->utc, zone);
    snprintf(title, sizeof title, "AT (%s)", zone);
    columns[count++] = (table_column_t){.title = "REF", .initial_width = 12};
    columns[count++] = (table_column_t){.title = title, .initial_width = narrow ? strlen("11-21 02:14") : 19};
    if (tail_has_queue_column(args, narrow))
        columns[count++] = (table_column_t){.title = "QUEUE", .min_width = 6, .initial_width = narrow ? 8 : 12};
    if (tail_has_kind_column(args, narrow)) columns[count++] = (table_column_t){.title = "KIND", .initial_width = 6};
    if (narrow) {
        columns[count++] = (table_column_t){.title = "REASON", .min_width = 6, .max_width = reason, .initial_width = reason};
        columns[count++] = (table_column_t){.title = "JOB", .min_width = 6, .max_width = 12, .initial_width = 12};
    } else {
        columns[count++] = (table_column_t){.title = "REASON", .min_width = 8, .initial_width = 17};
        columns[count++] = (table_column_t){.title = "JOB", .min_width = 8, .max_width = 20, .initial_width = 20};
    }
    columns[count++] = (table_column_t){.title = "ERROR, ELSE PAYLOAD", .min_width = 12, .max_width = 160, .initial_width = 60};
    return table_begin(columns, count, stdout);
}

static int tail_run(audit_args_t *args) {
    const struct sigaction action = {.sa_handler = tail_on_signal}; // interrupts a wait
    tail_t tail = {.args = args, .printing_old = true, .narrow = terminal_is_narrow(stdout)};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (args->format == FORMAT_TABLE) tail.table = tail_begin_table(args, tail.narrow);
    if (args->format == FORMAT_CSV) {
        event_write_csv_header(&tail.text);
    }
    int status = tail_follow(&tail);
    if (tail.table) table_end(tail.table);
    audit_close(tail.audit);
    buffer_free(&tail.text);
    keymap_free(&tail.printed.recent);
    keymap_free(&tail.printed.older);
    free(tail.last_error);
    int number = atomic_load(&interrupted);
    if (number) { // ends as others do that are interrupted: a shell sees it, and its script ends too
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
    AUDIT_OPTION_LIMIT("how many old ones come first: 10 if not told"),
};

const audit_command_t audit_tail_command = {
    .about = {.name = "tail",
              .summary = "The last final failures, and new ones as they come, until it is interrupted",
              .examples = "queue-sidecar audit tail --queue email\n"
                          "queue-sidecar audit tail -n 0 --all-kinds -o jsonl | jq .error\n",
              .usage = "audit tail [-c FILE | --db PATH] [FILTERS] [-n N] [-o FORMAT] [--utc]",
              CLI_OPTIONS(options),
              .text = AUDIT_TEXT_DATA
              "\n\n"
              "Events stand in the order in which they came into this log. When the file is replaced, the new "
              "one is followed, and what was printed is not printed again.",
              .exits = AUDIT_EXITS},
    .run = tail_run,
};
