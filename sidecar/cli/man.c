// queue-sidecar(1): every command with its options comes from the table of commands, every metric from that of the metrics.
#include "cli/man.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/help.h"
#include "cli/load_config.h"
#include "cli/roff.h"
#include "http/metrics_text.h"

static const char description[] =
    "Teams run job queues on Redis lists and zsets, with workers in any language. Two roles of such a queue are hard to build "
    "into a "
    "worker, and `queue-sidecar` owns exactly these two: the dispatcher moves delayed jobs to the ready list when they fall due, "
    "and the monitor finds jobs whose worker died and gives them back, or ends them as a final failure. Final failures go to an "
    "audit log, an SQLite database that `queue-sidecar audit` and plain SQL can read.\n\n"
    "One instance runs beside each worker. Instances of the same `group` share one lock: one leads, the others stand by and take "
    "over. Workers need no library: they take jobs with BLMOVE, remove them with LREM when done, and report failures with "
    "HSET.\n\n"
    "It is configured by a file, see `queue-sidecar.cfg`(5), which is read again while it runs.";

// What a manual page lists: a tag, and a text below it.
typedef struct item {
    const char *tag, *text;
} item_t;

static const item_t signals[] = {
    {"`SIGTERM`, `SIGINT`",
     "`run` ends what is in flight, gives the lock back and exits with 0; a second one ends the process at once."},
    {"`SIGHUP`", "`run` reads the config again. All of it is taken or nothing; the log says what changes, or what is wrong."},
    {"`SIGUSR1`", "`run` writes what was counted so far into the log."},
};

static const item_t environment[] = {
    {"`QUEUE_SIDECAR_CONFIG`", "The config, where no -c names one."},
    {"`QUEUE_SIDECAR_`SECTION`_`KEY",
     "The value of a key of the config outside `queues` and `defaults`, before that in the file: QUEUE_SIDECAR_REDIS_HOST, "
     "QUEUE_SIDECAR_GROUP. `queue-sidecar.cfg`(5) has all of them."},
    {"`NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`", "Set by a service manager: `run` tells it when the roles run, when it "
                                                         "reloads and stops, and feeds its watchdog as long as every "
                                                         "role turns. See sd_notify(3)."},
    {"`COLUMNS`", "How wide tables and help may be, where it is not the width of the terminal."},
    {"`NO_COLOR`, `TERM`", "`status` has no colours where the first is set, and writes in place only on a terminal that can."},
    {"`SQLITE_TMPDIR`, `TMPDIR`",
     "Where SQLite sorts what does not fit into memory; otherwise a usual place, or beside the log."},
    {"`TZ`", "The zone of local times, where --utc does not ask for UTC."},
    {"`SUDO_USER`, `USER`", "Who asks, in the records of `audit requeue` and `audit discard`, without --by."},
};

static const item_t files[] = {
    {"`" CLI_DEFAULT_CONFIG "`", "The config, where nothing else names one."},
    {"`/var/lib/queue-sidecar/audit.db`", "The audit log (`audit.path`), with `audit.db-wal` and `audit.db-shm` while it is "
                                          "open, and `audit.db.lock`, which the sidecar "
                                          "that writes it holds. Do not copy it with cp: see `audit backup`."},
};

static void add_items(buffer_t *out, const char *title, const item_t *items, size_t count) {
    roff_section(out, title);
    for (size_t i = 0; i < count; i++) {
        roff_tag(out, items[i].tag);
        roff_text(out, items[i].text);
    }
}

static void add_usage(buffer_t *out, const cli_command_t *command) {
    for (const char *line = command->usage; *line;) {
        size_t len = strcspn(line, "\n");
        roff_usage(out, line, len);
        line += len + (line[len] == '\n');
    }
}

// "CODE MEANING" a line.
static void add_exits(buffer_t *out, const char *exits) {
    for (const char *line = exits; *line;) {
        size_t len = strcspn(line, "\n"), code = strcspn(line, " ");
        char *tag = mem_printf("`%.*s`", (int)code, line), *text = mem_printf("%.*s", (int)(len - code - 1), line + code + 1);
        roff_tag(out, tag);
        roff_text(out, text);
        free(tag);
        free(text);
        line += len + (line[len] == '\n');
    }
}

static void add_exit_line(buffer_t *out, const char *exits) {
    buffer_t line = {0};
    buffer_str(&line, "Exit status: ");
    for (const char *at = exits; *at; at++) {
        if (*at != 0x0a)
            buffer_add(&line, at, 1);
        else if (at[1])
            buffer_str(&line, "; ");
    }
    buffer_str(&line, ".");
    roff_paragraph(out);
    roff_text(out, buffer_text(&line));
    buffer_free(&line);
}

// What it does, then what to type.
static void add_example(buffer_t *out, const char *line, size_t len, bool first) {
    size_t typed = strcspn(line, "\t\n");
    char *command = mem_printf("%.*s", (int)typed, line);
    if (typed < len) {
        char *comment = mem_printf("%.*s:", (int)(len - typed - 1), line + typed + 1);
        if (!first) roff_paragraph(out);
        roff_text(out, comment);
        free(comment);
    }
    roff_example(out, command);
    free(command);
}

static void add_title(buffer_t *out, const cli_command_t *command, const cli_command_t *parent) {
    char *title = mem_printf("%s%s%s", parent ? parent->name : "", parent ? " " : "", command->name);
    roff_subsection(out, title);
    free(title);
}

static void add_examples(buffer_t *out, const cli_command_t *command, const cli_command_t *parent) {
    if (!command->examples) return;
    add_title(out, command, parent);
    for (const char *line = command->examples; *line;) {
        size_t len = strcspn(line, "\n");
        add_example(out, line, len, line == command->examples);
        line += len + (line[len] == '\n');
    }
}

static void add_command(buffer_t *out, const cli_command_t *command, const cli_command_t *parent) {
    add_title(out, command, parent);
    add_usage(out, command);
    char *summary = mem_printf("%s.", command->summary);
    roff_paragraph(out);
    roff_text(out, summary);
    free(summary);
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option_t *option = &command->options[i];
        if (!option->help) continue;
        if (option->heading) {
            roff_paragraph(out);
            roff_text(out, option->heading);
        }
        roff_option(out, option->letter, option->name, option->argument);
        roff_text(out, option->help);
    }
    if (command->text) {
        roff_paragraph(out);
        roff_text(out, command->text);
    }
    add_exit_line(out, command->exits);
}

// The table of http_metrics_list: name, type, labels, help, with tabs between.
static void add_metrics(buffer_t *out) {
    buffer_t table = {0};
    http_metrics_list(&table);
    roff_section(out, "METRICS");
    roff_text(out, "Prometheus reads them from /metrics, at `http.listen` and `http.port`. Labels stand in braces.");
    char *rest = table.data;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line;) {
        const char *name = strsep(&line, "\t"), *type = strsep(&line, "\t"), *labels = strsep(&line, "\t");
        bool bare = !*labels;
        char *tag = mem_printf("`%s`%s%s%s (%s)", name, bare ? "" : "{", labels, bare ? "" : "}", type);
        roff_tag(out, tag);
        roff_text(out, line);
        free(tag);
    }
    buffer_free(&table);
}

static void add_commands(buffer_t *out) {
    roff_section(out, "COMMANDS");
    for (const cli_command_t *const *command = cli_commands; *command; command++) {
        add_command(out, *command, NULL);
        for (const cli_command_t *const *part = (*command)->parts; part && *part; part++) add_command(out, *part, *command);
    }
}

static void add_all_examples(buffer_t *out) {
    roff_section(out, "EXAMPLES");
    for (const cli_command_t *const *command = cli_commands; *command; command++) {
        add_examples(out, *command, NULL);
        for (const cli_command_t *const *part = (*command)->parts; part && *part; part++) add_examples(out, *part, *command);
    }
}

void man_program(buffer_t *out) {
    roff_begin(out, "QUEUE\\-SIDECAR", "1");
    roff_section(out, "NAME");
    buffer_str(out, "queue\\-sidecar \\- sees to delayed and stalled jobs of Redis queues\n");
    roff_section(out, "SYNOPSIS");
    roff_close(out, true);
    for (const cli_command_t *const *command = cli_commands; *command; command++) {
        if (!(*command)->parts) add_usage(out, *command);
        for (const cli_command_t *const *part = (*command)->parts; part && *part; part++) add_usage(out, *part);
    }
    roff_close(out, false);
    roff_section(out, "DESCRIPTION");
    roff_text(out, description);
    add_commands(out);
    roff_section(out, "EXIT STATUS");
    add_exits(out, help_exits);
    add_items(out, "SIGNALS", signals, sizeof signals / sizeof *signals);
    add_items(out, "ENVIRONMENT", environment, sizeof environment / sizeof *environment);
    add_items(out, "FILES", files, sizeof files / sizeof *files);
    add_metrics(out);
    add_all_examples(out);
    roff_section(out, "SEE ALSO");
    roff_text(out, "`queue-sidecar.cfg`(5), `redis-cli`(1), `sqlite3`(1)");
}
