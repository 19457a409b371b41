// queue-sidecar status: the leader, the state of each queue, and findings.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/suggest.h"
#include "base/text/units.h"
#include "cli/status/status.h"
#include "cli/table.h"
#include "cli/terminal.h"

enum { INTERVAL_MS = 2000, INTERVAL_MIN_MS = 200, INTERVAL_MAX_MS = 3600000, WIDTH = 100 };

typedef struct status_options {
    const char *config, *output;
    bool watch, utc;
    cli_operands_t interval;
    cli_values_t queues;
} status_options_t;

typedef struct status_run {
    status_reader_t *reader;
    bool *wanted; // owned; NULL = all queues
    bool json, utc;
    int exit; // of the last look
} status_run_t;

// "2s", "500ms" or seconds.
static bool status_parse_interval(const status_options_t *options, int64_t *ms) {
    const char *text = options->interval.count ? options->interval.all[0] : NULL;
    char *end = NULL;
    *ms = INTERVAL_MS;
    if (!text) return true;
    double seconds = strtod(text, &end);
    if (*text >= '0' && *text <= '9' && !*end && seconds < 1e6)
        *ms = (int64_t)(seconds * 1000);
    else if (!duration_parse(text, ms))
        *ms = 0;
    if (!options->watch)
        fprintf(stderr, "queue-sidecar status: unexpected argument `%s`: an interval needs --watch\n", text);
    else if (*ms < INTERVAL_MIN_MS || *ms > INTERVAL_MAX_MS)
        fprintf(stderr, "queue-sidecar status: invalid interval `%s`: use 200ms to 1h\n", text);
    else
        return true;
    return false;
}

static bool status_parse_output(const status_options_t *options, bool *json) {
    *json = options->output && strcmp(options->output, "json") == 0;
    if (!options->output || *json || strcmp(options->output, "table") == 0) return true;
    fprintf(stderr, "queue-sidecar status: unknown output `%s`: use table or json\n", options->output);
    return false;
}

// *wanted is owned; NULL = no --queue. False: a queue is not in the config.
static bool status_find_queues(const status_options_t *options, const config_t *config, bool **wanted) {
    const char **names = mem_array(config->queue_count, sizeof *names);
    bool good = true;
    for (size_t i = 0; i < config->queue_count; i++) names[i] = config->queues[i].name;
    *wanted = options->queues.count ? mem_array(config->queue_count, sizeof **wanted) : NULL;
    for (size_t q = 0; q < options->queues.count; q++) {
        size_t i = 0;
        while (i < config->queue_count && strcmp(names[i], options->queues.all[q]) != 0) i++;
        if (i < config->queue_count) {
            (*wanted)[i] = true;
            continue;
        }
        const char *nearest = suggest_nearest(options->queues.all[q], names, config->queue_count);
        fprintf(stderr, "queue-sidecar status: no queue `%s` in %s", options->queues.all[q], config->path);
        if (nearest) fprintf(stderr, ": did you mean `%s`?", nearest);
        fputs("\n", stderr);
        good = false;
    }
    free(names);
    return good;
}

static void status_draw(void *self, size_t width, size_t rows, bool colour, buffer_t *out) {
    status_run_t *run = self;
    const status_t *status = status_read(run->reader);
    status_findings_t findings = status_diagnose(status, run->wanted);
    const status_view_t view = {.wanted = run->wanted, .width = width, .rows = rows, .colour = colour, .utc = run->utc};
    run->exit = status_exit(status, &findings);
    if (run->json)
        status_json(status, &findings, run->wanted, out);
    else
        status_text(status, &findings, &view, out);
    status_findings_free(&findings);
}

// A terminal that can draw in place.
static bool status_is_terminal(void) {
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

// See no-color.org.
static bool status_wants_colour(void) {
    const char *no = getenv("NO_COLOR");
    return status_is_terminal() && !(no && *no);
}

static void status_print_once(status_run_t *run) {
    buffer_t out = {0};
    size_t room = terminal_columns(stdout);
    status_draw(run, room ? room : WIDTH, 0, status_wants_colour(), &out);
    fwrite(out.data, 1, out.len, stdout);
    buffer_free(&out);
}

// With a refused config Redis and the queues are unknown. The instance here may run with its previous config, so show its checks.
static int status_print_refused(const char *path) {
    local_instance_t here = {0};
    buffer_t out = {0};
    config_t *config = config_load_refused(path);
    if (config) local_instance_read(config, &here);
    if (here.state == LOCAL_ANSWERED)
        buffer_str(&out,
                   "The config is refused, so Redis was not asked. The instance here continues with its previous config:\n");
    for (size_t i = 0; i < here.count; i++) {
        const local_check_t *check = &here.checks[i];
        buffer_printf(&out, "%-8s %s%s%s\n", check->name, *check->why ? check->why : "ok", *check->state ? ", " : "",
                      check->state);
    }
    buffer_t plain = {0};
    terminal_escape(&plain, (slice_t){buffer_text(&out), out.len}, true);
    fputs(buffer_text(&plain), stdout);
    buffer_free(&plain);
    buffer_free(&out);
    config_free(config);
    return CLI_BAD_CONFIG;
}

static int status_command(int argc, char **argv) {
    static atomic_bool stop; // ends a wait for Redis when a watch is interrupted
    status_options_t options = {.interval = {.max = 1}};
    status_run_t run = {0};
    int64_t interval_ms;
    int code = args_parse(argc, argv, &cli_status_command, &options);
    if (code != CLI_OK) return code;
    if (!status_parse_interval(&options, &interval_ms) || !status_parse_output(&options, &run.json)) return CLI_USAGE;
    config_t *config = cli_load_config(cli_config_path(options.config));
    if (!config) return run.json ? CLI_BAD_CONFIG : status_print_refused(cli_config_path(options.config));
    run.utc = options.utc;
    if (!status_find_queues(&options, config, &run.wanted)) {
        code = CLI_USAGE;
    } else {
        run.reader = status_reader_new(config, &stop);
        if (options.watch) {
            code = status_watch(&(status_watch_t){interval_ms, !run.json && status_is_terminal(), status_wants_colour()}, &stop,
                                status_draw, &run);
        } else {
            status_print_once(&run);
            code = run.exit;
        }
        status_reader_free(run.reader);
    }
    free(run.wanted);
    config_free(config);
    return code;
}

static const cli_option_t status_table[] = {
    CLI_OPTION_CONFIG(status_options_t),
    {.letter = 'w',
     .name = "watch",
     .at = offsetof(status_options_t, watch),
     .help = "repeat until interrupted; on a terminal redraw in place"},
    {.argument = "INTERVAL",
     .at = offsetof(status_options_t, interval),
     .help = "interval of --watch: 500ms, 2s, 1m, or a number of seconds; default 2s, from 200ms to 1h"},
    {.letter = 'o',
     .name = "output",
     .argument = "FORMAT",
     .at = offsetof(status_options_t, output),
     .values = "table json",
     .help = "table (default), or json: one object on one line"},
    {.letter = 'q',
     .name = "queue",
     .argument = "NAME",
     .at = offsetof(status_options_t, queues),
     .values = CLI_QUEUES,
     .many = true,
     .help = "only this queue; may be repeated"},
    {.name = "utc", .at = offsetof(status_options_t, utc), .help = "print times in UTC instead of local time"},
};

const cli_command_t cli_status_command = {
    .name = "status",
    .summary = "Show the leader, the state of each queue, and what is wrong",
    .examples = "queue-sidecar status\teverything, once\n"
                "queue-sidecar status --watch\tevery 2 s, until Ctrl-C\n"
                "queue-sidecar status --queue email -w 500ms\tone queue, more often\n"
                "queue-sidecar status -o json | jq '.findings[].what'\tfor programs\n",
    .usage = "status [-c FILE] [--watch [INTERVAL]] [-o FORMAT] [--queue NAME]... [--utc]",
    CLI_OPTIONS(status_table),
    .text =
        "Reads locks, queues and failure streams from Redis, the last hour from the audit log at audit.path (otherwise from the "
        "failure streams), and the checks of the instance that serves http on this machine. Writes nothing.\n"
        "\n"
        "A fault keeps jobs from being done or recorded. A warning may become a fault. A note is worth knowing. Each finding "
        "says what to do next. docs/status.md describes the JSON.",
    .exits = "0 no fault and no warning, or --watch was interrupted\n1 there is a fault or a warning\n2 wrong usage\n"
             "69 Redis is unreachable\n78 bad config\n",
    .run = status_command,
};
