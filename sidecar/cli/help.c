
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "dialects/registry.h"
#include "http/metrics_text.h"

enum {
    WIDTH_MIN = 60,
    WIDTH_MAX = 100,
    OPTION_MAX = 24,  // columns: longer options do not count for the column where help texts begin
    COMMENT_MIN = 30, // columns: if fewer are left beside the examples, comments are printed above them
    INDENT = 2,
    GAP = 2,
    USAGE_INDENT = 21, // of "Usage: queue-sidecar "
};

const char help_exits[] =
    "0 ok\n1 failed\n2 wrong usage\n69 Redis is unreachable\n78 bad config\n130 interrupted before the end\n";

static const char help_intro[] = "queue-sidecar runs beside your workers. It moves delayed jobs to the ready\n"
                                 "list when they fall due, and gives back jobs whose worker died.\n"
                                 "\n"
                                 "Examples:\n"
                                 "  queue-sidecar check -c queue-sidecar.cfg --redis\n"
                                 "  queue-sidecar run -c queue-sidecar.cfg\n"
                                 "  queue-sidecar status\n"
                                 "  queue-sidecar audit list --since 2h\n"
                                 "\n"
                                 "Commands:\n";

// Reads the next line of a text; false at its end.
static bool help_next_line(const char **text, slice_t *line) {
    if (!*text || !**text) return false;
    *line = (slice_t){*text, strcspn(*text, "\n")};
    *text += line->len + ((*text)[line->len] == '\n');
    return true;
}

static void help_add_usage(const cli_command_t *command, size_t width, buffer_t *out) {
    slice_t line;
    const char *label = "Usage:";
    for (const char *rest = command->usage; help_next_line(&rest, &line); label = "") {
        const wrap_t wrap = {.width = width, .indent = USAGE_INDENT, .column = USAGE_INDENT, .brackets = true};
        buffer_printf(out, "%6s queue-sidecar ", label);
        wrap_add(out, line.data, line.len, &wrap);
    }
}

// Adds "  LABEL  text". The lines of the text begin behind column `widest`; behind a wider label, the first one begins later.
static void help_add_item(slice_t label, size_t widest, slice_t text, size_t width, buffer_t *out) {
    const size_t indent = INDENT + widest + GAP, over = label.len > widest ? label.len - widest : 0;
    const wrap_t wrap = {.width = width, .indent = indent, .column = indent + over};
    buffer_printf(out, "  %-*.*s  ", (int)widest, (int)label.len, label.data);
    wrap_add(out, text.data, text.len, &wrap);
}

static void help_add_examples(const cli_command_t *command, size_t width, buffer_t *out) {
    size_t widest = 0; // of the examples with a comment
    slice_t line;
    if (!command->examples) return;
    for (const char *rest = command->examples; help_next_line(&rest, &line);) {
        size_t typed = strcspn(line.data, "\t\n");
        if (typed < line.len && typed > widest) widest = typed;
    }
    bool above = INDENT + widest + GAP + COMMENT_MIN > width;
    buffer_str(out, "Examples:\n");
    for (const char *rest = command->examples; help_next_line(&rest, &line);) {
        const slice_t typed = {line.data, strcspn(line.data, "\t\n")};
        const slice_t comment = {typed.data + typed.len + 1, typed.len < line.len ? line.len - typed.len - 1 : 0};
        if (comment.len && above) buffer_printf(out, "  # %.*s\n", (int)comment.len, comment.data);
        if (comment.len && !above)
            help_add_item(typed, widest, comment, width, out);
        else
            buffer_printf(out, "  %.*s\n", (int)typed.len, typed.data);
    }
    buffer_str(out, "\n");
}

static void help_spell(const cli_option_t *option, buffer_t *out) {
    buffer_clear(out);
    const char letter[] = {'-', option->letter, ',', ' ', '\0'};
    if (option->name) buffer_printf(out, "%4s--%s", option->letter ? letter : "", option->name);
    if (option->argument) buffer_printf(out, "%s%s", option->name ? " " : "", option->argument);
}

static void help_add_options(const cli_command_t *command, size_t width, buffer_t *out) {
    buffer_t spelled = {0};
    size_t widest = 0;
    bool first = true;
    for (size_t i = 0; i < command->option_count; i++) {
        help_spell(&command->options[i], &spelled);
        if (command->options[i].help && spelled.len > widest && spelled.len <= OPTION_MAX) widest = spelled.len;
    }
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option_t *option = &command->options[i];
        if (!option->help) continue;
        if (first || option->heading) buffer_str(out, "\n");
        if (option->heading) wrap_at(out, option->heading, 0, width);
        first = false;
        help_spell(option, &spelled);
        help_add_item((slice_t){buffer_text(&spelled), spelled.len}, widest, slice_text(option->help), width, out);
    }
    buffer_free(&spelled);
}

// One line for each command: its name and its summary.
static void help_add_list(const cli_command_t *const *commands, size_t width, buffer_t *out) {
    size_t widest = 0;
    for (const cli_command_t *const *at = commands; *at; at++)
        if (strlen((*at)->name) > widest) widest = strlen((*at)->name);
    for (const cli_command_t *const *at = commands; *at; at++)
        help_add_item(slice_text((*at)->name), widest, slice_text((*at)->summary), width, out);
}

// "0 good\n78 bad config\n" becomes "Exit codes: 0 good; 78 bad config."
static void help_add_exits(const char *exits, size_t width, buffer_t *out) {
    buffer_t text = {0};
    slice_t line;
    const char *before = "\nExit codes: ";
    for (; help_next_line(&exits, &line); before = "; ") buffer_printf(&text, "%s%.*s", before, (int)line.len, line.data);
    buffer_str(&text, ".");
    wrap_at(out, buffer_text(&text), 0, width);
    buffer_free(&text);
}

void help_command(const cli_command_t *command, size_t width, buffer_t *out) {
    buffer_printf(out, "%s.\n\n", command->summary);
    help_add_examples(command, width, out);
    help_add_usage(command, width, out);
    if (command->parts) {
        buffer_str(out, "\nSubcommands:\n");
        help_add_list(command->parts, width, out);
    }
    help_add_options(command, width, out);
    if (command->text) {
        buffer_str(out, "\n");
        wrap_at(out, command->text, 0, width);
    }
    help_add_exits(command->exits, width, out);
}

// ---- The tables for programs.

// Adds a row for each line of a text: the part before the separator, and the rest.
static void help_add_rows(buffer_t *out, const char *command, const char *kind, const char *text, const char *separator) {
    for (slice_t line; help_next_line(&text, &line);) {
        size_t tag = *separator ? strcspn(line.data, separator) : 0;
        if (tag > line.len) tag = line.len;
        size_t rest = *separator && tag < line.len ? tag + 1 : tag;
        buffer_printf(out, "%s\t%s\t%.*s\t%.*s\n", command, kind, (int)tag, line.data, (int)(line.len - rest), line.data + rest);
    }
}

static void help_list_command(const cli_command_t *command, const char *name, buffer_t *out) {
    buffer_t spelled = {0};
    help_add_rows(out, name, "summary", command->summary, "");
    help_add_rows(out, name, "example", command->examples, "\t");
    help_add_rows(out, name, "usage", command->usage, "\n");
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option_t *option = &command->options[i];
        help_add_rows(out, name, "heading", option->heading, "");
        help_spell(option, &spelled);
        if (option->help) buffer_printf(out, "%s\toption\t%s\t%s\n", name, buffer_text(&spelled), option->help);
    }
    help_add_rows(out, name, "text", command->text, "\n");
    help_add_rows(out, name, "exit", command->exits, " ");
    buffer_free(&spelled);
}

// Lists the help of each command for the manual page, in rows of four: command, kind of row, tag, text.
static void help_list_commands(const cli_command_t *const *commands, buffer_t *out) {
    help_add_rows(out, "", "exit", help_exits, " ");
    for (const cli_command_t *const *at = commands; *at; at++) {
        help_list_command(*at, (*at)->name, out);
        for (const cli_command_t *const *part = (*at)->parts; part && *part; part++) {
            char *name = mem_printf("%s %s", (*at)->name, (*part)->name);
            help_list_command(*part, name, out);
            free(name);
        }
    }
}

// ---- The command.

static size_t help_width(void) {
    size_t columns = terminal_columns(stdout);
    return columns == 0 || columns > WIDTH_MAX ? WIDTH_MAX : columns < WIDTH_MIN ? WIDTH_MIN : columns;
}

static void help_overview(const cli_command_t *const *commands, buffer_t *out) {
    buffer_str(out, help_intro);
    help_add_list(commands, help_width(), out);
    help_add_exits(help_exits, help_width(), out);
    buffer_str(out, "\nExplain a command with `queue-sidecar help COMMAND`.\n");
}

// False: there is no such topic.
static bool help_topic(const cli_command_t *const *commands, const char *topic, buffer_t *out) {
    if (strcmp(topic, "keys") == 0)
        config_list_keys(dialect_settings, out);
    else if (strcmp(topic, "metrics") == 0)
        http_metrics_list(out);
    else if (strcmp(topic, "commands") == 0)
        help_list_commands(commands, out);
    else if (strcmp(topic, "man 1") == 0)
        buffer_str(out, text_man_program);
    else if (strcmp(topic, "man 5") == 0)
        buffer_str(out, text_man_config);
    else
        return false;
    return true;
}

// Prints the help of COMMAND, COMMAND SUBCOMMAND, TOPIC or TOPIC PAGE.
static int help_print(const cli_command_t *const *commands, int count, char **words, buffer_t *out) {
    char *topic = mem_printf("%s%s%s", words[0], count > 1 ? " " : "", count > 1 ? words[1] : "");
    bool found = count <= 2 && help_topic(commands, topic, out);
    free(topic);
    if (found) return CLI_OK;
    if (count == 1 && strcmp(words[0], "man") == 0) {
        fputs("queue-sidecar help: missing page: use `man 1` for the program, `man 5` for the config\n", stderr);
        return CLI_USAGE;
    }
    const char *excess = words[0][0] == '-' ? words[0] : count > 2 ? words[2] : NULL;
    const cli_command_t *command = excess ? NULL : args_need_command(commands, "", words[0]);
    if (command && count == 2) {
        command = args_find_command(command->parts, words[1]);
        if (!command) excess = words[1];
    }
    if (excess) args_refuse("help", "unexpected argument", excess, NULL, 0);
    if (!command) return CLI_USAGE;
    help_command(command, help_width(), out);
    return CLI_OK;
}

int help_run(const cli_command_t *const *commands, int argc, char **argv) {
    buffer_t out = {0};
    int status = CLI_OK;
    if (argc > 1 && strcmp(argv[1], "--") == 0) argc--, argv++;
    if (argc < 2)
        help_overview(commands, &out);
    else
        status = help_print(commands, argc - 1, argv + 1, &out);
    fputs(buffer_text(&out), stdout);
    buffer_free(&out);
    return status;
}
