// queue-sidecar status: who leads, how each queue stands, what is wrong and how to mend it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suggest.h"
#include "base/units.h"
#include "cli/status/status.h"
#include "cli/table.h"
#include "cli/terminal.h"

enum { INTERVAL_MS = 2000, INTERVAL_LEAST_MS = 200, INTERVAL_MOST_MS = 3600000, WIDTH = 100 };

typedef struct given {
    const char *config, *output;
    bool watch, utc;
    cli_operands_t interval;
    cli_values_t queues;
} given_t;

typedef struct asked {
    status_reader_t *reader;
    bool *wanted; // owned; NULL = all queues
    bool json, utc;
    int exit; // of the last look
} asked_t;

// "2s", "500ms" or seconds.
static bool read_interval(const given_t *given, int64_t *ms) {
    const char *text = given->interval.count ? given->interval.all[0] : NULL;
    char *end = NULL;
    *ms = INTERVAL_MS;
    if (!text) return true;
    double seconds = strtod(text, &end);
    if (*text >= '0' && *text <= '9' && !*end && seconds < 1e6)
        *ms = (int64_t)(seconds * 1000);
    else if (!duration_parse(text, ms))
        *ms = 0;
    if (!given->watch)
        fprintf(stderr, "queue-sidecar status: unexpected argument `%s`: an interval goes with --watch\n", text);
    else if (*ms < INTERVAL_LEAST_MS || *ms > INTERVAL_MOST_MS)
        fprintf(stderr, "queue-sidecar status: `%s` is no interval from 200ms to 1h\n", text);
    else
        return true;
    return false;
}

static bool read_output(const given_t *given, bool *json) {
    *json = given->output && strcmp(given->output, "json") == 0;
    if (!given->output || *json || strcmp(given->output, "table") == 0) return true;
    fprintf(stderr, "queue-sidecar status: `%s` is no output: table or json\n", given->output);
    return false;
}

// *wanted is owned, NULL where no queue was named. False: a name is not in the config.
static bool find_queues(const given_t *given, const config_t *config, bool **wanted) {
    const char **names = mem_array(config->queue_count, sizeof *names);
    bool good = true;
    for (size_t i = 0; i < config->queue_count; i++) names[i] = config->queues[i].name;
    *wanted = given->queues.count ? mem_array(config->queue_count, sizeof **wanted) : NULL;
    for (size_t q = 0; q < given->queues.count; q++) {
        size_t i = 0;
        while (i < config->queue_count && strcmp(names[i], given->queues.all[q]) != 0) i++;
        if (i < config->queue_count) {
            (*wanted)[i] = true;
            continue;
        }
        const char *nearest = suggest_nearest(given->queues.all[q], names, config->queue_count);
        fprintf(stderr, "queue-sidecar status: no queue `%s` in %s", given->queues.all[q], config->path);
        if (nearest) fprintf(stderr, ": did you mean `%s`?", nearest);
        fputs("\n", stderr);
        good = false;
    }
    free(names);
    return good;
}

static void draw(void *self, size_t width, size_t rows, bool colour, buffer_t *out) {
    asked_t *asked = self;
    const status_t *status = status_read(asked->reader);
    status_findings_t findings = status_judge(status, asked->wanted);
    const status_view_t view = {.wanted = asked->wanted, .width = width, .rows = rows, .colour = colour, .utc = asked->utc};
    asked->exit = status_exit(status, &findings);
    if (asked->json)
        status_json(status, &findings, asked->wanted, out);
    else
        status_text(status, &findings, &view, out);
    status_findings_free(&findings);
}

// A terminal that obeys.
static bool is_screen(void) {
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

// See no-color.org.
static bool wants_colour(void) {
    const char *no = getenv("NO_COLOR");
    return is_screen() && !(no && *no);
}

static void print_once(asked_t *asked) {
    buffer_t out = {0};
    size_t room = terminal_columns(stdout);
    draw(asked, room ? room : WIDTH, 0, wants_colour(), &out);
    fwrite(out.data, 1, out.len, stdout);
    buffer_free(&out);
}

// Of a config that is refused neither Redis nor queues are known: only the instance here, which goes on with an earlier one.
static int tell_refused(const char *path) {
    status_here_t here = {0};
    buffer_t out = {0};
    config_t *config = config_load_refused(path);
    if (config) status_read_here(config, &here);
    if (here.answered)
        buffer_str(&out, "The config is refused, and Redis not asked. The instance here goes on with the one that it has:\n");
    for (size_t i = 0; i < here.count; i++) {
        const status_check_t *check = &here.checks[i];
        buffer_printf(&out, "%-8s %s%s%s\n", check->name, check->ok ? "ok" : check->why, *check->state ? ", " : "", check->state);
    }
    buffer_t plain = {0};
    terminal_escape(&plain, (slice_t){buffer_text(&out), out.len}, true);
    fputs(buffer_text(&plain), stdout);
    buffer_free(&plain);
    buffer_free(&out);
    config_free(config);
    return CLI_BAD_CONFIG;
}

static int status(int argc, char **argv) {
    static atomic_bool stop; // of a wait for Redis, when a watch is interrupted
    given_t given = {.interval = {.max = 1}};
    asked_t asked = {0};
    int64_t interval_ms;
    int code = args_parse(argc, argv, &cli_status_command, &given);
    if (code != CLI_OK) return code;
    if (!read_interval(&given, &interval_ms) || !read_output(&given, &asked.json)) return CLI_USAGE;
    config_t *config = cli_load_config(cli_config_path(given.config));
    if (!config) return asked.json ? CLI_BAD_CONFIG : tell_refused(cli_config_path(given.config));
    asked.utc = given.utc;
    if (!find_queues(&given, config, &asked.wanted)) {
        code = CLI_USAGE;
    } else {
        asked.reader = status_reader_new(config, &stop);
        if (given.watch) {
            code = status_watch(&(status_watch_t){interval_ms, !asked.json && is_screen(), wants_colour()}, &stop, draw, &asked);
        } else {
            print_once(&asked);
            code = asked.exit;
        }
        status_reader_free(asked.reader);
    }
    free(asked.wanted);
    config_free(config);
    return code;
}

static const cli_option_t options[] = {
    CLI_OPTION_CONFIG(given_t),
    {.letter = 'w',
     .name = "watch",
     .at = offsetof(given_t, watch),
     .help = "again and again, until it is interrupted: in place on a terminal, one after the other elsewhere"},
    {.argument = "INTERVAL",
     .at = offsetof(given_t, interval),
     .help = "between two looks of --watch, as 2s, 500ms, 1m, or in seconds: 2s if not told, 200ms to 1h"},
    {.letter = 'o',
     .name = "output",
     .argument = "FORMAT",
     .at = offsetof(given_t, output),
     .values = "table json",
     .help = "table, or json: one object on a line"},
    {.letter = 'q',
     .name = "queue",
     .argument = "NAME",
     .at = offsetof(given_t, queues),
     .values = CLI_QUEUES,
     .many = true,
     .help = "this queue alone; several may be given"},
    {.name = "utc", .at = offsetof(given_t, utc), .help = "times are UTC instead of local time"},
};

const cli_command_t cli_status_command = {
    .name = "status",
    .summary = "Show who leads, how each queue stands, and what is wrong",
    .examples = "queue-sidecar status\teverything, once\n"
                "queue-sidecar status --watch\tagain every 2 s, until Ctrl-C\n"
                "queue-sidecar status --queue email -w 500ms\tone queue, more often\n"
                "queue-sidecar status -o json | jq '.findings[].what'\tfor programs\n",
    .usage = "status [-c FILE] [--watch [INTERVAL]] [-o FORMAT] [--queue NAME]... [--utc]",
    CLI_OPTIONS(options),
    .text = "Asks Redis for locks, queues and failure streams, the audit log at audit.path for the last hour (else the failure "
            "streams), and the instance that serves http here for its checks. Writes nothing anywhere.\n"
            "\n"
            "A fault keeps jobs from being done or recorded; a warning may become one; a note is worth knowing. Each says what "
            "to do next. docs/status.md describes the JSON.",
    .exits =
        "0 all is well, apart from notes; also where --watch was interrupted\n1 there is a fault or a warning\n2 wrong usage\n"
        "69 Redis is unreachable\n78 bad config\n",
    .run = status,
};
