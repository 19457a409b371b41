// queue-sidecar jobs list: prints what waits or runs.
#include <poll.h>
#include <signal.h>

#include "base/text/time_text.h"
#include "cli/jobs/jobs.h"
#include "cli/table.h"
#include "cli/terminal.h"

enum { TABLE_ROWS = 50 };

typedef struct list {
    const jobs_args_t *args;
    records_t records;
    table_t *table;
    jobs_state_t state;
    int64_t rows;
    bool more; // there are more than max_rows
    int64_t max_rows;
} list_t;

static jobs_state_t list_state(const char *word) {
    if (!word || strcmp(word, "delayed") == 0) return JOBS_DELAYED;
    return strcmp(word, "ready") == 0 ? JOBS_READY : JOBS_IN_PROGRESS;
}

static void list_add_cells(list_t *list, const jobs_item_t *item) {
    int64_t at = list->state == JOBS_DELAYED ? item->due : list->state == JOBS_READY ? item->created : item->since;
    const char *format = terminal_is_narrow(stdout) ? TIME_SHORT : TIME_SECONDS;
    char retries[24] = "-";
    buffer_t payload = {0};
    if (item->retries >= 0) snprintf(retries, sizeof retries, "%" PRId64, item->retries);
    buffer_add(&payload, item->payload.data, item->payload.len);
    if (item->payload_cut) buffer_str(&payload, "…");
    table_cell(list->table, item->job.len ? item->job : slice_text("-"));
    table_cell(list->table, slice_text(at == INT64_MAX ? "never" : time_text(at, list->args->utc, format).text));
    table_cell(list->table, slice_text(retries));
    table_cell(list->table, item->type.len ? item->type : slice_text("-"));
    table_cell(list->table, (slice_t){buffer_text(&payload), payload.len});
    buffer_free(&payload);
}

static bool list_add(void *self, const jobs_item_t *item) {
    list_t *list = self;
    list->more = list->max_rows && list->rows == list->max_rows;
    if (list->more) return false;
    list->rows++;
    if (list->table)
        list_add_cells(list, item);
    else
        records_add(&list->records, item);
    return list->table || terminal_print(&list->records.text, stdout); // false when nobody reads the output: stop
}

static void list_begin(list_t *list, table_column_t columns[5], char title[64]) {
    static const char *const whens[] = {[JOBS_DELAYED] = "DUE", [JOBS_READY] = "CREATED", [JOBS_IN_PROGRESS] = "SINCE"};
    if (list->args->format != FORMAT_TABLE) {
        records_begin(&list->records, list->args->format, jobs_fields, JOBS_FIELDS);
        return;
    }
    snprintf(title, 64, "%s (%s)", whens[list->state], time_zone(time_now_ms(), list->args->utc).text);
    columns[0] = (table_column_t){.title = "JOB", .min_width = 8, .max_width = 36};
    columns[1] = (table_column_t){.title = title};
    columns[2] = (table_column_t){.title = "RETRIES", .align_right = true};
    columns[3] = (table_column_t){.title = "TYPE", .min_width = 4, .max_width = 24};
    columns[4] = (table_column_t){.title = "PAYLOAD", .min_width = 24, .max_width = 160};
    list->table = table_begin(columns, 5, terminal_columns(stdout), stdout);
}

static void list_end(list_t *list) {
    if (list->table) {
        table_end(list->table);
    } else {
        records_end(&list->records);
        terminal_print(&list->records.text, stdout);
    }
    fflush(stdout);
}

// `jobs list | head` ends without a message, as other commands do.
static void list_quit_if_unread(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    if (!ferror(stdout) || poll(&out, 1, 0) != 1 || !(out.revents & POLLERR)) return;
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

static void list_print_notes(const list_t *list, const jobs_reader_t *reader, const char *queue) {
    const jobs_args_t *args = list->args;
    bool filters = args->grep || args->type || args->since || args->until;
    const char *state = list->state == JOBS_IN_PROGRESS ? "in progress" : list->state == JOBS_READY ? "ready" : "delayed";
    if (!jobs_has_state(reader) || (list->rows == 0 && !filters))
        fprintf(stderr, "queue-sidecar: queue `%s` has no jobs that are %s\n", queue, state);
    else if (list->rows == 0)
        fprintf(stderr, "queue-sidecar: no jobs of queue `%s` that are %s match\n", queue, state);
    if (list->more)
        fprintf(stderr,
                "queue-sidecar: these are the first %" PRId64 "; there are more: use --limit N, or --limit 0 for all of them\n",
                list->max_rows);
    if (jobs_missing(reader))
        fputs("queue-sidecar: the list changed so much while it was read that some jobs may be missing, or may be here twice\n",
              stderr);
}

static int list_run(jobs_args_t *args, const config_t *config, size_t queue) {
    jobs_server_t server = {0};
    table_column_t columns[5];
    char title[64];
    redis_error_t error = {0};
    list_t list = {.args = args, .state = list_state(args->state), .records.raw = args->raw};
    if ((args->since || args->until) && list.state != JOBS_DELAYED)
        return cli_usage_error(args->command, "--since and --until select delayed jobs: omit --state %s", args->state);
    list.max_rows = args->max_rows >= 0 ? args->max_rows : args->format == FORMAT_TABLE ? TABLE_ROWS : 0;
    args->query.state = list.state;
    signal(SIGPIPE, SIG_IGN); // a lost connection to Redis must not end the process
    int status = jobs_connect(&server, config, queue);
    if (status == CLI_OK) {
        jobs_reader_t *reader = jobs_open(server.keys, server.queue, &args->query, NULL);
        list_begin(&list, columns, title);
        if (list.state == JOBS_IN_PROGRESS)
            jobs_read_oldest(reader, server.conn, list_add, &list, &error);
        else // one job more shows that there are more
            jobs_read(reader, server.conn, list.max_rows ? list.max_rows + 1 : 0, mono_never(), list_add, &list, &error);
        list_end(&list);
        list_quit_if_unread();
        if (error.outcome == OUTCOME_OK)
            list_print_notes(&list, reader, config->queues[queue].name);
        else
            status = jobs_print_error(&server, &error);
        jobs_close(reader);
    }
    shards_free(server.shards);
    return status;
}

static const cli_option_t options[] = {
    JOBS_OPERANDS("QUEUE", "a queue of the config"),
    JOBS_OPTION_CONFIG,
    JOBS_VALUE('s', "state", "STATE", state, JOBS_STATES, "delayed (the default), ready or in-progress"),
    JOBS_OPTIONS_FILTERS,
    JOBS_OPTION_UTC,
    JOBS_VALUE('n', "limit", "N", limit, NULL, "at most N jobs; default: 50 in a table, else all; 0 = all"),
    JOBS_VALUE('o', "output", "FORMAT", output, "table json jsonl csv",
               "table, json (one array), jsonl (an object a line), csv (RFC 4180)"),
    JOBS_FLAG(
        0, "raw", raw,
        "csv for machines: leave cells as they are; by default a ' before = + - @ keeps spreadsheets from running formulas"),
};

const jobs_command_t jobs_list_command = {
    .about =
        {.name = "list",
         .summary = "List the jobs of a queue that are delayed, ready or in progress",
         .examples = "queue-sidecar jobs list email\n"
                     "queue-sidecar jobs list email --state in-progress -n 10\n"
                     "queue-sidecar jobs list email --grep 'customer\":4711' -o jsonl\n",
         .usage = "jobs list QUEUE [-c FILE] [--state STATE] [FILTERS] [--limit N] [-o FORMAT] [--raw] [--utc]",
         CLI_OPTIONS(options),
         .text =
             "Delayed jobs come in the order in which they are due, ready jobs in the order in which workers take them, jobs in "
             "progress with the longest first (of more than 10,000 only the first 10,000 of the list are sorted). `started_at` "
             "is when this execution began, or when a sidecar first saw it. The "
             "command "
             "reads pages, so that Redis never waits for it longer than redis.slice; jobs that come, go or move meanwhile may "
             "be missing.\n\n"
             "Of a payload the first 4 KiB are shown; payload_cut says so. A payload above 64 KiB is cut in Redis, and its id "
             "and "
             "sha256 are unknown. Text is looked for in the whole payload. json, jsonl and csv have times in UTC (RFC 3339), and "
             "the payload as it is, or in base64 if it is not UTF-8.",
         .exits = "0 ok, also when nothing matches\n1 failed\n2 wrong usage\n69 Redis is unreachable\n78 bad config\n"},
    .run = list_run,
};
