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
#include "cli/when.h"

enum { FIRST_ROWS = 10, LOOK_MS = 200, CHUNK = 256 * 1024, KNOWN_MOST = 32768, COLUMNS_MOST = 7 };

// What was printed: a new file may hold it again. Two generations, so that it takes 3 MiB however long this runs; what was
// forgotten is told by its time.
typedef struct known {
    keymap_t recent, older;
    int64_t recent_ms, older_ms; // the latest time in each
    int64_t floor_ms;            // of a new file, nothing before this is news
} known_t;

typedef struct tail {
    const audit_ask_t *ask;
    audit_t *audit; // NULL while it cannot be opened
    struct stat file;
    int64_t after;
    int64_t commits;  // that the log had
    bool again;       // the file is not the first one: it may hold what was printed
    bool first;       // the old ones are being printed
    int64_t skip;     // of these, so many are not
    table_t *table;   // NULL in other formats
    bool narrow;      // the terminal is
    buffer_t text;    // of one page: no read transaction waits for the terminal
    char *complained; // what was said last of why the log cannot be read; owned
    known_t known;
} tail_t;

static atomic_int interrupted; // the signal, or 0

static void on_signal(int number) { atomic_store(&interrupted, number); }

static void key_of(slice_t id, uint8_t key[KEY_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < KEY_BYTES; i++) {
        const char *high = 2 * i < id.len ? strchr(digits, id.data[2 * i]) : NULL;
        const char *low = 2 * i + 1 < id.len ? strchr(digits, id.data[2 * i + 1]) : NULL;
        key[i] = (uint8_t)((high ? high - digits : 0) << 4 | (low ? low - digits : 0));
    }
}

static bool is_news(const known_t *known, const event_t *event) {
    uint8_t key[KEY_BYTES];
    key_of(event->event, key);
    return event->at >= known->floor_ms && !keymap_find(&known->recent, key) && !keymap_find(&known->older, key);
}

static void remember(known_t *known, const event_t *event) {
    uint8_t key[KEY_BYTES];
    if (known->recent.count >= KNOWN_MOST) {
        if (known->older_ms > known->floor_ms) known->floor_ms = known->older_ms;
        keymap_free(&known->older);
        known->older = known->recent;
        known->older_ms = known->recent_ms;
        known->recent = (keymap_t){0};
        known->recent_ms = 0;
    }
    key_of(event->event, key);
    keymap_put(&known->recent, key);
    if (event->at > known->recent_ms) known->recent_ms = event->at;
}

// A narrow terminal leaves out what is the same in each row.
static bool tells_queue(const audit_ask_t *ask, bool narrow) { return !narrow || !ask->filter.queue; }
static bool tells_kind(const audit_ask_t *ask, bool narrow) { return !narrow || ask->filter.all_kinds; }

static void table_row(const tail_t *tail, const audit_row_t *row) {
    char time[WHEN_SIZE];
    when_text(row->event.at, tail->ask->utc, time);
    if (tail->narrow) when_shorten(time);
    table_cell(tail->table, row->ref);
    table_cell(tail->table, slice_text(time));
    if (tells_queue(tail->ask, tail->narrow)) table_cell(tail->table, row->event.queue);
    if (tells_kind(tail->ask, tail->narrow)) table_cell(tail->table, row->event.kind);
    table_cell(tail->table, row->event.reason);
    table_cell(tail->table, row->event.job);
    table_cell(tail->table, row->event.error.len ? row->event.error : row->event.payload);
}

static bool take(void *self, const audit_row_t *row) {
    tail_t *tail = self;
    const event_t *event = &row->event;
    if (tail->again && !is_news(&tail->known, event)) return true;
    if (tail->first && (tail->known.floor_ms == 0 || event->at < tail->known.floor_ms)) tail->known.floor_ms = event->at;
    remember(&tail->known, event);
    if (tail->skip > 0) {
        tail->skip--;
        return true;
    }
    size_t before = tail->text.len;
    switch (tail->ask->format) {
    case FORMAT_TABLE: table_row(tail, row); return true;
    case FORMAT_CSV: event_write_csv(&tail->text, row); break;
    case FORMAT_JSON_ARRAY:
    case FORMAT_JSON_LINES: event_write_json(&tail->text, row); break;
    }
    buffer_str(&tail->text, tail->ask->format == FORMAT_CSV ? "\r\n" : "\n");
    return tail->text.len - before < CHUNK && tail->text.len < CHUNK;
}

static void print_text(tail_t *tail) {
    if (tail->table) table_flush(tail->table);
    fwrite(buffer_text(&tail->text), 1, tail->text.len, stdout);
    fflush(stdout);
    buffer_clear(&tail->text);
}

// What is new. False with *why: the log cannot be read.
static bool print_new(tail_t *tail, buffer_t *why) {
    for (bool more = true; more && !atomic_load(&interrupted);) {
        if (!audit_page(tail->audit, &tail->ask->filter, &tail->after, take, tail, &more, why)) return false;
        print_text(tail);
    }
    tail->first = false;
    return true;
}

static bool open_log(tail_t *tail, buffer_t *why) {
    struct stat before;
    if (stat(tail->ask->path, &before) != 0) memset(&before, 0, sizeof before);
    tail->audit = audit_open(tail->ask->path, AUDIT_READ, why);
    if (!tail->audit) return false;
    tail->file = before;
    return audit_commits(tail->audit, &tail->commits, why);
}

static bool is_replaced(const tail_t *tail) {
    struct stat now;
    return stat(tail->ask->path, &now) == 0 && (now.st_dev != tail->file.st_dev || now.st_ino != tail->file.st_ino);
}

static void start_again(tail_t *tail) {
    fputs("queue-sidecar: the audit log was replaced: following the new one\n", stderr);
    tail->again = true;
    tail->after = INT64_MIN;
}

// An older copy may have been written over the file: then it is of fewer commits. Where only the last rows are gone, which
// retention may have removed, new ones get their numbers.
static bool goes_back(tail_t *tail) {
    int64_t first, last, was = tail->commits;
    buffer_t why = {0};
    bool known = audit_commits(tail->audit, &tail->commits, &why) && audit_bounds(tail->audit, INT64_MIN, &first, &last, &why);
    bool back = known && tail->commits < was;
    if (known && !back && last < tail->after) tail->after = last;
    buffer_free(&why);
    return back;
}

// Takes the reason; says it once.
static void complain(tail_t *tail, buffer_t *why) {
    if (!tail->complained || strcmp(tail->complained, buffer_text(why)) != 0)
        fprintf(stderr, "queue-sidecar: %s: waiting for it\n", buffer_text(why));
    free(tail->complained);
    tail->complained = mem_str(buffer_text(why));
    buffer_free(why);
    audit_close(tail->audit);
    tail->audit = NULL;
}

static void look(tail_t *tail) {
    buffer_t why = {0};
    if (tail->audit && is_replaced(tail)) {
        if (!print_new(tail, &why)) buffer_clear(&why); // the last of the old file, if it can still be read
        audit_close(tail->audit);
        tail->audit = NULL;
    }
    if (!tail->audit) {
        struct stat was = tail->file;
        if (!open_log(tail, &why)) {
            complain(tail, &why);
            return;
        }
        if (was.st_ino != tail->file.st_ino || was.st_dev != tail->file.st_dev) start_again(tail);
    }
    if (goes_back(tail)) start_again(tail);
    if (!print_new(tail, &why)) complain(tail, &why);
    buffer_free(&why);
}

// Waits for the next look. False: an interrupt, or nobody reads any more.
static bool wait_for_look(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    if (!atomic_load(&interrupted)) poll(&out, 1, LOOK_MS);
    return !atomic_load(&interrupted) && !(out.revents & (POLLERR | POLLHUP | POLLNVAL));
}

static int follow(tail_t *tail) {
    buffer_t why = {0};
    const audit_ask_t *ask = tail->ask;
    int64_t wanted = ask->limit_given ? ask->filter.limit : FIRST_ROWS;
    int64_t seen = wanted ? wanted : 1; // one at least tells from when on there is news
    tail->skip = wanted ? 0 : 1;
    if (!open_log(tail, &why) || !audit_find_last(tail->audit, &ask->filter, seen, &tail->after, &why) || !print_new(tail, &why))
        return audit_complain(&why);
    tail->skip = 0;
    while (!ferror(stdout) && wait_for_look()) look(tail); // of a full disk cli_main tells
    return CLI_OK;
}

// Widths are those of the old rows at least: what comes is not known yet.
static table_t *begin_table(const audit_ask_t *ask, bool narrow) {
    static char title[WHEN_SIZE + 8], zone[WHEN_SIZE];
    static table_column_t columns[COLUMNS_MOST];
    size_t count = 0, reason = audit_reason_columns(stdout);
    when_zone(when_now(), ask->utc, zone);
    snprintf(title, sizeof title, "AT (%s)", zone);
    columns[count++] = (table_column_t){.title = "REF", .begins = 12};
    columns[count++] = (table_column_t){.title = title, .begins = narrow ? strlen("11-21 02:14") : 19};
    if (tells_queue(ask, narrow)) columns[count++] = (table_column_t){.title = "QUEUE", .least = 6, .begins = narrow ? 8 : 12};
    if (tells_kind(ask, narrow)) columns[count++] = (table_column_t){.title = "KIND", .begins = 6};
    if (narrow) {
        columns[count++] = (table_column_t){.title = "REASON", .least = 6, .most = reason, .begins = reason};
        columns[count++] = (table_column_t){.title = "JOB", .least = 6, .most = 12, .begins = 12};
    } else {
        columns[count++] = (table_column_t){.title = "REASON", .least = 8, .begins = 17};
        columns[count++] = (table_column_t){.title = "JOB", .least = 8, .most = 20, .begins = 20};
    }
    columns[count++] = (table_column_t){.title = "ERROR, ELSE PAYLOAD", .least = 12, .most = 160, .begins = 60};
    return table_begin(columns, count, stdout);
}

static int run_tail(audit_ask_t *ask) {
    const struct sigaction action = {.sa_handler = on_signal}; // interrupts a wait
    tail_t tail = {.ask = ask, .first = true, .narrow = table_is_narrow(stdout)};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (ask->format == FORMAT_TABLE) tail.table = begin_table(ask, tail.narrow);
    if (ask->format == FORMAT_CSV) {
        event_write_csv_header(&tail.text);
    }
    int status = follow(&tail);
    if (tail.table) table_end(tail.table);
    audit_close(tail.audit);
    buffer_free(&tail.text);
    keymap_free(&tail.known.recent);
    keymap_free(&tail.known.older);
    free(tail.complained);
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
    .run = run_tail,
};
