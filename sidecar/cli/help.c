#include "cli/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args.h"
#include "cli/terminal.h"
#include "cli/texts.h"
#include "cli/wrap.h"
#include "dialects/registry.h"
#include "http/metrics_text.h"

enum {
    WIDTH_MIN = 60,
    WIDTH_MAX = 100,
    OPTION_MAX = 24,  // columns of an option; the help of a longer one begins behind it
    COMMENT_MIN = 30, // columns for the comment beside an example; with fewer it goes above
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

// The columns of the widest example that has a comment.
static size_t help_widest_example(const char *examples) {
    size_t widest = 0;
    for (slice_t line; help_next_line(&examples, &line);) {
        size_t typed = strcspn(line.data, "\t\n");
        if (typed < line.len && typed > widest) widest = typed;
    }
    return widest;
}

static void help_add_examples(const cli_command_t *command, size_t width, buffer_t *out) {
    if (!command->examples) return;
    size_t widest = help_widest_example(command->examples), indent = INDENT + widest + GAP;
    bool above = indent + COMMENT_MIN > width;
    slice_t line;
    buffer_str(out, "Examples:\n");
    for (const char *rest = command->examples; help_next_line(&rest, &line);) {
        size_t typed = strcspn(line.data, "\t\n"), comment = typed < line.len ? line.len - typed - 1 : 0;
        if (comment && above) buffer_printf(out, "  # %.*s\n", (int)comment, line.data + typed + 1);
        if (comment && !above) {
            const wrap_t wrap = {.width = width, .indent = indent, .column = indent};
            buffer_printf(out, "  %-*.*s  ", (int)widest, (int)typed, line.data);
            wrap_add(out, line.data + typed + 1, comment, &wrap);
        } else {
            buffer_printf(out, "  %.*s\n", (int)typed, line.data);
        }
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
        buffer_printf(out, "  %-*s  ", (int)widest, buffer_text(&spelled));
        const size_t indent = INDENT + widest + GAP;
        const wrap_t wrap = {
            .width = width, .indent = indent, .column = spelled.len > widest ? INDENT + spelled.len + GAP : indent};
        wrap_add(out, option->help, strlen(option->help), &wrap);
    }
    buffer_free(&spelled);
}

// One line for each command: its name and its summary.
static void help_add_list(const cli_command_t *const *commands, size_t width, buffer_t *out) {
    size_t widest = 0;
    for (const cli_command_t *const *at = commands; *at; at++)
        if (strlen((*at)->name) > widest) widest = strlen((*at)->name);
    for (const cli_command_t *const *at = commands; *at; at++) {
        buffer_printf(out, "  %-*s  ", (int)widest, (*at)->name);
        wrap_at(out, (*at)->summary, INDENT + widest + GAP, width);
    }
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

static void help_add_row(buffer_t *out, const char *command, const char *kind, slice_t tag, slice_t text) {
    buffer_printf(out, "%s\t%s\t%.*s\t%.*s\n", command, kind, (int)tag.len, tag.data, (int)text.len, text.data);
}

// Adds a row for each line of a text: the part before the separator, and the rest.
static void help_add_lines(buffer_t *out, const char *command, const char *kind, const char *text, const char *separator) {
    for (slice_t line; help_next_line(&text, &line);) {
        size_t tag = strcspn(line.data, separator);
        if (tag > line.len) tag = line.len;
        size_t rest = tag < line.len ? tag + 1 : tag;
        help_add_row(out, command, kind, (slice_t){line.data, tag}, (slice_t){line.data + rest, line.len - rest});
    }
}

static void help_add_rows(const cli_command_t *command, const char *name, buffer_t *out) {
    buffer_t spelled = {0};
    help_add_row(out, name, "summary", slice_text(""), slice_text(command->summary));
    help_add_lines(out, name, "example", command->examples, "\t");
    help_add_lines(out, name, "usage", command->usage, "\n");
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option_t *option = &command->options[i];
        if (option->heading) help_add_row(out, name, "heading", slice_text(""), slice_text(option->heading));
        help_spell(option, &spelled);
        if (option->help) help_add_row(out, name, "option", slice_text(buffer_text(&spelled)), slice_text(option->help));
    }
    help_add_lines(out, name, "text", command->text, "\n");
    help_add_lines(out, name, "exit", command->exits, " ");
    buffer_free(&spelled);
}

// Command, kind of row, tag, text: all that the help of each command says, for the manual page.
static void help_list_commands(const cli_command_t *const *commands, buffer_t *out) {
    help_add_lines(out, "", "exit", help_exits, " ");
    for (; *commands; commands++) {
        help_add_rows(*commands, (*commands)->name, out);
        for (const cli_command_t *const *part = (*commands)->parts; part && *part; part++) {
            char *name = mem_printf("%s %s", (*commands)->name, (*part)->name);
            help_add_rows(*part, name, out);
            free(name);
        }
    }
}

// ---- The verb.

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

static int help_misuse(const char *word) {
    fprintf(stderr, "queue-sidecar help: unexpected argument `%s`\nSee `queue-sidecar help help`.\n", word);
    return CLI_USAGE;
}

static void help_page_keys(buffer_t *out) { config_list_keys(dialect_settings, out); }
static void help_page_program(buffer_t *out) { buffer_str(out, text_man_program); }
static void help_page_config(buffer_t *out) { buffer_str(out, text_man_config); }

static const struct {
    const char *word, *page; // page: "" = it has none
    void (*print)(buffer_t *out);
} help_topics[] = {{"keys", "", help_page_keys},
                   {"metrics", "", http_metrics_list},
                   {"man", "1", help_page_program},
                   {"man", "5", help_page_config}};

// False: there is no such topic.
static bool help_topic(const char *word, const char *page, buffer_t *out) {
    for (size_t i = 0; i < sizeof help_topics / sizeof *help_topics; i++) {
        if (strcmp(help_topics[i].word, word) != 0 || strcmp(help_topics[i].page, page) != 0) continue;
        help_topics[i].print(out);
        return true;
    }
    return false;
}

// Prints the help of COMMAND, COMMAND SUBCOMMAND, TOPIC or TOPIC PAGE.
static int help_print(const cli_command_t *const *commands, int count, char **words, buffer_t *out) {
    if (count == 1 && strcmp(words[0], "commands") == 0) {
        help_list_commands(commands, out);
        return CLI_OK;
    }
    if (count <= 2 && help_topic(words[0], count == 2 ? words[1] : "", out)) return CLI_OK;
    if (count == 1 && strcmp(words[0], "man") == 0) {
        fputs("queue-sidecar help: missing page: `man 1` is of the program, `man 5` of the config\n", stderr);
        return CLI_USAGE;
    }
    if (words[0][0] == '-') return help_misuse(words[0]);
    if (count > 2) return help_misuse(words[2]);
    const cli_command_t *command = args_need_command(commands, words[0]);
    if (!command) return CLI_USAGE;
    if (count == 2 && !(command = args_find_command(command->parts, words[1]))) return help_misuse(words[1]);
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
