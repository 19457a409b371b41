// The help of one command, made from its row: examples first, then usage, options, text and exit codes.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

enum { OPTION_MOST = 24 };   // columns of an option's spelling; a longer one pushes its own help aside
enum { COMMENT_LEAST = 30 }; // and that the comment of an example needs beside it
enum { INDENT = 2, GAP = 2 };

// How much of the text comes before the next place where a line may end. What stands between ` is not torn apart.
static size_t piece_len(const char *text, size_t len) {
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '`') quoted = !quoted;
        if (text[i] == '\n' || (text[i] == ' ' && !quoted)) return i;
    }
    return len;
}

// Adds words in lines of at most `width` columns, the first of which has `used` already; the others begin with `indent` spaces. A
// line end in the text stays one.
static void wrap(buffer_t *out, const char *text, size_t len, size_t used, size_t indent, size_t width) {
    size_t column = used;
    for (size_t at = 0; at < len;) {
        size_t piece = piece_len(text + at, len - at);
        bool first = column == used && at == 0;
        if (!first && (text[at - 1] == '\n' || column + 1 + piece > width)) {
            buffer_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            buffer_str(out, " ");
            column++;
        }
        buffer_add(out, text + at, piece);
        column += piece;
        at += piece + 1;
    }
    buffer_str(out, "\n");
}

static void add_usage(const cli_command_t *command, buffer_t *out) {
    const char *before = "Usage:";
    for (const char *line = command->usage; line && *line;) {
        size_t len = strcspn(line, "\n");
        buffer_printf(out, "%6s queue-sidecar %.*s\n", before, (int)len, line);
        before = "";
        line += len + (line[len] == '\n');
    }
}

// The widest command that has a comment.
static size_t widest_example(const char *examples) {
    size_t widest = 0;
    for (const char *line = examples; *line;) {
        size_t len = strcspn(line, "\n"), typed = strcspn(line, "\t\n");
        if (typed < len && typed > widest) widest = typed;
        line += len + (line[len] == '\n');
    }
    return widest;
}

// Comments stand beside the commands, or above them where there is little room.
static void add_examples(const cli_command_t *command, size_t width, buffer_t *out) {
    if (!command->examples) return;
    size_t widest = widest_example(command->examples), indent = INDENT + widest + GAP;
    bool above = indent + COMMENT_LEAST > width;
    buffer_str(out, "Examples:\n");
    for (const char *line = command->examples; *line;) {
        size_t len = strcspn(line, "\n"), typed = strcspn(line, "\t\n");
        const char *comment = line + typed + 1;
        size_t size = typed < len ? len - typed - 1 : 0;
        if (size && above) buffer_printf(out, "  # %.*s\n", (int)size, comment);
        if (size && !above) {
            buffer_printf(out, "  %-*.*s  ", (int)widest, (int)typed, line);
            wrap(out, comment, size, indent, indent, width);
        } else {
            buffer_printf(out, "  %.*s\n", (int)typed, line);
        }
        line += len + (line[len] == '\n');
    }
    buffer_str(out, "\n");
}

static void spell(const cli_option_t *option, buffer_t *out) {
    if (!option->name) {
        buffer_printf(out, "%s", option->argument);
        return;
    }
    char letter[] = {'-', option->letter, ',', ' ', '\0'};
    buffer_printf(out, "%4s--%s%s%s", option->letter ? letter : "", option->name, option->argument ? " " : "",
                  option->argument ? option->argument : "");
}

static void add_options(const cli_command_t *command, size_t width, buffer_t *out) {
    buffer_t spelled = {0};
    size_t widest = 0;
    bool any = false;
    for (size_t i = 0; i < command->option_count; i++) {
        buffer_clear(&spelled);
        spell(&command->options[i], &spelled);
        if (command->options[i].help && spelled.len > widest && spelled.len <= OPTION_MOST) widest = spelled.len;
    }
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option_t *option = &command->options[i];
        if (!option->help) continue;
        if (!any || option->heading) buffer_str(out, "\n");
        if (option->heading) wrap(out, option->heading, strlen(option->heading), 0, 0, width);
        any = true;
        buffer_clear(&spelled);
        spell(option, &spelled);
        buffer_printf(out, "  %-*s  ", (int)widest, buffer_text(&spelled));
        size_t indent = INDENT + widest + GAP, used = spelled.len > widest ? INDENT + spelled.len + GAP : indent;
        wrap(out, option->help, strlen(option->help), used, indent, width);
    }
    buffer_free(&spelled);
}

void cli_list(const cli_command_t *const *commands, size_t width, buffer_t *out) {
    size_t widest = 0;
    for (const cli_command_t *const *at = commands; *at; at++)
        if (strlen((*at)->name) > widest) widest = strlen((*at)->name);
    size_t indent = INDENT + widest + GAP;
    for (const cli_command_t *const *at = commands; *at; at++) {
        buffer_printf(out, "  %-*s  ", (int)widest, (*at)->name);
        wrap(out, (*at)->summary, strlen((*at)->summary), indent, indent, width);
    }
}

static void add_text(const char *text, size_t width, buffer_t *out) {
    while (text && *text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        buffer_str(out, "\n");
        wrap(out, text, len, 0, 0, width);
        text += len + (end ? 2 : 0);
    }
}

void cli_exit_line(const char *before, const char *exits, buffer_t *out) {
    buffer_str(out, before);
    for (const char *at = exits; *at; at++) {
        if (*at != '\n')
            buffer_add(out, at, 1);
        else if (at[1])
            buffer_str(out, "; ");
    }
    buffer_str(out, ".");
}

static void add_exits(const cli_command_t *command, size_t width, buffer_t *out) {
    buffer_t line = {0};
    cli_exit_line("Exit codes: ", command->exits, &line);
    buffer_str(out, "\n");
    wrap(out, line.data, line.len, 0, 0, width);
    buffer_free(&line);
}

void cli_page(const cli_command_t *command, size_t width, buffer_t *out) {
    buffer_printf(out, "%s.\n\n", command->summary);
    add_examples(command, width, out);
    add_usage(command, out);
    if (command->parts) {
        buffer_str(out, "\nSubcommands:\n");
        cli_list(command->parts, width, out);
    }
    add_options(command, width, out);
    add_text(command->text, width, out);
    add_exits(command, width, out);
}
