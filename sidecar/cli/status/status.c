// queue-sidecar status: the leader, the state of each queue, and findings.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/text/units.h"
#include "cli/args.h"
#include "cli/status/view.h"
#include "cli/terminal.h"
#include "dialects/registry.h"

enum { INTERVAL_MS = 2000, INTERVAL_MIN_MS = 200, INTERVAL_MAX_MS = 3600000, SLICE_MS = 100, WIDTH = 100 };

typedef struct status_run {
    status_t *status;
    bool *wanted; // owned; NULL = all queues
    bool json, utc;
    int exit; // the code for the last frame
} status_run_t;

// Reads "2s", "500ms" or seconds. 0 = refused, after a message.
static int64_t status_parse_interval(const cli_args_t *args) {
    if (args->operands.count == 0) return INTERVAL_MS;
    const char *text = args->operands.all[0];
    char *end = NULL;
    int64_t ms = 0;
    double seconds = strtod(text, &end);
    if (*text >= '0' && *text <= '9' && !*end && seconds < 1e6)
        ms = (int64_t)(seconds * 1000);
    else
        duration_parse(text, &ms);
    if (!args->watch)
        fprintf(stderr, "queue-sidecar status: unexpected argument `%s`: an interval needs --watch\n", text);
    else if (ms < INTERVAL_MIN_MS || ms > INTERVAL_MAX_MS)
        fprintf(stderr, "queue-sidecar status: invalid interval `%s`: use 200ms to 1h\n", text);
    else
        return ms;
    return 0;
}

// *wanted is owned; NULL = no --queue. False: a queue is not in the config.
static bool status_find_queues(const cli_args_t *args, const config_t *config, bool **wanted) {
    bool good = true;
    *wanted = args->queues.count ? mem_array(config->queue_count, sizeof **wanted) : NULL;
    for (size_t q = 0; q < args->queues.count; q++) {
        size_t index;
        if (cli_find_queue("status", config, args->queues.all[q], &index))
            (*wanted)[index] = true;
        else
            good = false;
    }
    return good;
}

// ---- Drawing.

// Whether standard output is a terminal that can redraw in place.
static bool status_is_terminal(void) {
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

// Appends one frame, of `columns` (0 = WIDTH) and at most `rows` lines (0 = any).
static void status_draw(status_run_t *run, size_t columns, size_t rows, buffer_t *out) {
    status_read(run->status);
    status_findings_t findings = status_diagnose(run->status, run->wanted);
    const status_view_t view = {.wanted = run->wanted,
                                .width = columns ? columns : WIDTH,
                                .piped = !isatty(STDOUT_FILENO),
                                .rows = rows,
                                .colour = terminal_takes_colours(STDOUT_FILENO),
                                .utc = run->utc};
    run->exit = status_exit(run->status, &findings);
    if (run->json)
        status_json(run->status, &findings, run->wanted, out);
    else
        status_text(run->status, &findings, &view, out);
    status_findings_free(&findings);
}

// Prints a frame and frees it.
static void status_print(const status_run_t *run, buffer_t *out) {
    if (run->json)
        terminal_print(out, stdout);
    else
        fputs(buffer_text(out), stdout);
    fflush(stdout);
    buffer_free(out);
}

static void status_print_once(status_run_t *run) {
    buffer_t out = {0};
    status_draw(run, terminal_columns(stdout), 0, &out);
    status_print(run, &out);
}

// ---- Watching.

// The alternate screen without a cursor: leaving it restores the old screen (xterm, ctlseqs: DECSET 1049, DECTCEM).
static const char ENTER[] = "\x1b[?1049h\x1b[?25l", LEAVE[] = "\x1b[?25h\x1b[?1049l";

static atomic_bool interrupted; // also ends a wait for Redis
static atomic_bool resized, suspended;

static void watch_on_signal(int number) {
    atomic_store(number == SIGWINCH ? &resized : number == SIGTSTP ? &suspended : &interrupted, true);
}

static void watch_handle(int number, void (*handler)(int)) {
    const struct sigaction action = {.sa_handler = handler}; // without SA_RESTART: a signal interrupts poll
    sigaction(number, &action, NULL);
}

static void watch_print(const char *text) {
    fputs(text, stdout);
    fflush(stdout);
}

// At Ctrl-Z restores the screen of the shell and stops; after fg, goes back to the alternate screen.
static void watch_suspend(void) {
    watch_print(LEAVE);
    watch_handle(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    watch_handle(SIGTSTP, watch_on_signal);
    watch_print(ENTER);
    atomic_store(&suspended, false);
}

// Frees the frame. Clears the rest of each line instead of the screen, which would flicker.
static void watch_show(buffer_t *frame) {
    buffer_t out = {0};
    buffer_str(&out, "\x1b[H");
    for (const char *at = buffer_text(frame); *at; at++)
        if (*at != '\n')
            buffer_add(&out, at, 1);
        else
            buffer_str(&out, at[1] ? "\x1b[K\r\n" : "\x1b[K"); // on the last line of the screen a line feed would scroll
    buffer_str(&out, "\x1b[J");
    watch_print(buffer_text(&out));
    buffer_free(&out);
    buffer_free(frame);
}

// False: stop watching, because of a signal or because nobody reads the output any more.
static bool watch_wait(mono_t next, bool in_place) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    while (!atomic_load(&interrupted) && !ferror(stdout)) {
        if (atomic_load(&suspended)) {
            watch_suspend();
            return true;
        }
        if (in_place && atomic_exchange(&resized, false)) return true;
        int64_t left_ms = mono_diff(next, mono_now()) / NS_PER_MS;
        if (left_ms <= 0) return true;
        poll(&out, 1, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS);
        if (out.revents & (POLLERR | POLLHUP | POLLNVAL)) return false;
    }
    return false;
}

static void watch_handle_signals(bool in_place) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP}; // the last two only in place
    for (size_t i = 0; i < (in_place ? 5 : 3); i++) watch_handle(numbers[i], watch_on_signal);
    if (in_place) watch_handle(SIGPIPE, SIG_IGN); // SIGPIPE would end the process before it restores the screen
}

// Redraws until a signal comes: in place on a terminal, else as one block after another.
static void status_watch(status_run_t *run, int64_t interval_ms) {
    const bool in_place = !run->json && status_is_terminal();
    buffer_t frame = {0};
    watch_handle_signals(in_place);
    if (in_place) watch_print(ENTER);
    for (bool go_on = true; go_on;) {
        mono_t next = mono_add(mono_now(), interval_ms * NS_PER_MS);
        struct winsize size = {.ws_col = 0};
        if (in_place) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        status_draw(run, size.ws_col, size.ws_row, &frame);
        if (atomic_load(&interrupted)) break; // the last reading may be incomplete
        if (in_place)
            watch_show(&frame);
        else
            status_print(run, &frame);
        go_on = watch_wait(next, in_place);
    }
    if (in_place) watch_print(LEAVE);
    buffer_free(&frame);
}

// ---- The command.

// With a refused config, Redis and the queues are unknown. The local instance may run with its previous config, so show its
// checks.
static int status_print_refused(const char *path) {
    local_instance_t instance = {0};
    buffer_t out = {0};
    config_t *config = config_load_refused(path, dialect_settings);
    if (config) local_instance_read(config, &instance);
    if (instance.state == LOCAL_ANSWERED)
        buffer_str(&out,
                   "The config is refused, so Redis was not asked. The local instance continues with its previous config:\n");
    for (size_t i = 0; i < instance.count; i++) {
        const local_check_t *check = &instance.checks[i];
        buffer_printf(&out, "%-8s %s%s%s\n", check->name, *check->why ? check->why : "ok", *check->state ? ", " : "",
                      check->state);
    }
    if (config)
        buffer_printf(&out, "The audit log can be read all the same: queue-sidecar audit list --db %s\n",
                      *config->audit.path ? config->audit.path : "PATH");
    buffer_t plain = {0};
    terminal_escape(&plain, (slice_t){buffer_text(&out), out.len}, true);
    fputs(buffer_text(&plain), stdout);
    buffer_free(&plain);
    buffer_free(&out);
    config_free(config);
    return CLI_BAD_CONFIG;
}

int status_exit(const status_t *status, const status_findings_t *findings) {
    if (!status->reached) return status->error.outcome == OUTCOME_REFUSED ? CLI_FAILED : CLI_REDIS_UNREACHABLE;
    return findings->of[STATUS_FAULT] + findings->of[STATUS_WARNING] ? CLI_FAILED : CLI_OK;
}

static int status_command(const cli_args_t *args) {
    status_run_t run = {.utc = args->utc, .json = args->output && strcmp(args->output, "json") == 0};
    int64_t interval_ms = status_parse_interval(args);
    int code = CLI_USAGE;
    if (interval_ms == 0) return CLI_USAGE;
    config_t *config = cli_load_config(args->config);
    if (!config) return run.json ? CLI_BAD_CONFIG : status_print_refused(args->config);
    if (status_find_queues(args, config, &run.wanted)) {
        cli_find_mode(config);
        run.status = status_new(config, &interrupted);
        if (args->watch)
            status_watch(&run, interval_ms);
        else
            status_print_once(&run);
        code = args->watch ? CLI_OK : run.exit;
        status_free(run.status);
    }
    free(run.wanted);
    config_free(config);
    return code;
}

static const cli_option_t status_table[] = {
    CLI_OPTION_CONFIG,
    CLI_FLAG(cli_args_t, 'w', "watch", watch, "repeat until interrupted; on a terminal redraw in place"),
    CLI_VALUE(cli_args_t, 0, NULL, "INTERVAL", operands, NULL,
              "interval of --watch: 500ms, 2s, 1m, or a number of seconds; default 2s, from 200ms to 1h"),
    CLI_VALUE(cli_args_t, 'o', "output", "FORMAT", output, "table json", "table (default), or json: one object on one line"),
    {.letter = 'q',
     .name = "queue",
     .argument = "NAME",
     .at = offsetof(cli_args_t, queues),
     .values = CLI_QUEUES,
     .many = true,
     .help = "only this queue; may be repeated"},
    CLI_FLAG(cli_args_t, 0, "utc", utc, "print times in UTC instead of local time"),
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
        "failure streams), and the checks of the instance that serves http on this machine. Writes nothing. While the config is "
        "refused, takes the config in effect, of which the running instance keeps a copy beside its log, and warns.\n"
        "\n"
        "A fault keeps jobs from being done or recorded. A warning may become a fault. A note is worth knowing. Each finding "
        "says what to do next. docs/status.md describes the JSON.",
    .exits = "0 no fault and no warning, or --watch was interrupted\n1 there is a fault or a warning\n2 wrong usage\n"
             "69 Redis is unreachable\n78 bad config\n",
    .run = status_command,
};
