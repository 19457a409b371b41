// Completion for zsh's compsys: each command is a call of _arguments, with the help of the options beside them.
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/completion.h"
#include "cli/help.h"

static const char begin[] =
    "#compdef queue-sidecar\n"
    "# Completion of queue-sidecar for zsh, made by `queue-sidecar completion zsh`.\n"
    "# In a shell, behind compinit: source <(queue-sidecar completion zsh)\n"
    "\n"
    "# The queues of the config that -c names, else of the usual one.\n"
    "_queue-sidecar_queues() {\n"
    "    local config=${(Q)opt_args[-c]:-${(Q)opt_args[--config]}}\n"
    "    local -a names\n"
    "    config=${config/#\\~\\//$HOME/}\n"
    "    names=(${(f)\"$($_queue_sidecar_program completion queues ${config:+-c} ${config:+$config} 2>/dev/null)\"})\n"
    "    compadd -a names\n"
    "}\n"
    "\n";

static const char end[] = "# As a file of fpath this is the body of the function itself.\n"
                          "if [[ $funcstack[1] == _queue-sidecar ]]; then\n"
                          "    _queue-sidecar \"$@\"\n"
                          "else\n"
                          "    compdef _queue-sidecar queue-sidecar\n"
                          "fi\n";

// Text between single quotes: in [], colons of a description mean something else there too.
static void add_text(buffer_t *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\'')
            buffer_str(out, "'\\''");
        else if (strchr("[]:\\", *text))
            buffer_printf(out, "\\%c", *text);
        else if (*text == '\n')
            buffer_str(out, " ");
        else
            buffer_add(out, text, 1);
    }
}

// ":FILE:_files", what follows an option or stands for itself.
static void add_value(buffer_t *out, const cli_option_t *option) {
    buffer_str(out, ":");
    add_text(out, option->argument);
    if (!option->values)
        buffer_str(out, ": ");
    else if (strcmp(option->values, CLI_FILES) == 0)
        buffer_str(out, ":_files");
    else if (strcmp(option->values, CLI_QUEUES) == 0)
        buffer_str(out, ":_queue-sidecar_queues");
    else
        buffer_printf(out, ":(%s)", option->values);
}

static void add_option(buffer_t *out, const cli_option_t *option) {
    if (!option->name) {
        buffer_str(out, " \\\n        '*");
        add_value(out, option);
        buffer_str(out, "'");
        return;
    }
    if (!option->help) return;
    const char *many = option->many ? "*" : "";
    buffer_str(out, " \\\n        ");
    if (option->letter && option->many)
        buffer_printf(out, "'*'{-%c+,--%s=}", option->letter, option->name);
    else if (option->letter && option->argument)
        buffer_printf(out, "'(-%c --%s)'{-%c+,--%s=}", option->letter, option->name, option->letter, option->name);
    else if (option->letter)
        buffer_printf(out, "'(-%c --%s)'{-%c,--%s}", option->letter, option->name, option->letter, option->name);
    else
        buffer_printf(out, "'%s--%s%s'", many, option->name, option->argument ? "=" : "");
    buffer_str(out, "'[");
    add_text(out, option->help);
    buffer_str(out, "]");
    if (option->argument) add_value(out, option);
    buffer_str(out, "'");
}

static void add_list(buffer_t *out, const cli_command_t *const *commands) {
    buffer_str(out, "    local -a names\n    names=(\n");
    for (const cli_command_t *const *at = commands; *at; at++) {
        buffer_printf(out, "        '%s:", (*at)->name);
        add_text(out, (*at)->summary);
        buffer_str(out, "'\n");
    }
    buffer_str(out, "    )\n");
}

// A command whose first word is the name of another: `names` are described, then the other's function is called.
static void add_choice(buffer_t *out, const char *function, const cli_command_t *const *commands, bool top) {
    buffer_printf(out, "%s() {\n    local curcontext=$curcontext state line\n    typeset -A opt_args\n", function);
    if (top) buffer_str(out, "    local _queue_sidecar_program=${words[1]/#\\~\\//$HOME/}\n");
    add_list(out, commands);
    buffer_printf(out,
                  "    _arguments -C '(- *)'{-h,--help}'[explain it]'%s '1: :->name' '*:: :->rest'\n"
                  "    case $state in\n"
                  "    name) _describe -t commands command names ;;\n"
                  "    rest) (($+functions[%s_$line[1]])) && %s_$line[1] ;;\n"
                  "    esac\n"
                  "}\n\n",
                  top ? " '(- *)'{-V,--version}'[print the version]'" : "", function, function);
}

static void add_command(buffer_t *out, const cli_command_t *command, const cli_command_t *parent) {
    buffer_printf(out,
                  "_queue-sidecar_%s%s%s() {\n    typeset -A opt_args\n    _arguments -s -S '(- *)'{-h,--help}'[explain it]'",
                  parent ? parent->name : "", parent ? "_" : "", command->name);
    for (size_t i = 0; i < command->option_count; i++) add_option(out, &command->options[i]);
    buffer_str(out, "\n}\n\n");
}

// `help` takes the name of a command, then that of a part.
static void add_help(buffer_t *out) {
    buffer_str(out, "_queue-sidecar_help() {\n");
    add_list(out, cli_commands);
    buffer_str(out,
               "    names+=(" HELP_TOPICS ")\n    case $CURRENT,$words[2] in\n    2,*) _describe -t commands command names ;;\n");
    for (const cli_command_t *const *command = cli_commands; *command; command++) {
        if (!(*command)->parts) continue;
        buffer_printf(out, "    3,%s) compadd", (*command)->name);
        for (const cli_command_t *const *part = (*command)->parts; *part; part++) buffer_printf(out, " %s", (*part)->name);
        buffer_str(out, " ;;\n");
    }
    buffer_str(out, "    3,man) compadd " HELP_PAGES " ;;\n    esac\n}\n\n");
}

void completion_zsh(buffer_t *out) {
    buffer_str(out, begin);
    for (const cli_command_t *const *command = cli_commands; *command; command++) {
        if (*command == cli_commands[7]) continue;
        if (!(*command)->parts) {
            add_command(out, *command, NULL);
            continue;
        }
        char *function = mem_printf("_queue-sidecar_%s", (*command)->name);
        for (const cli_command_t *const *part = (*command)->parts; *part; part++) add_command(out, *part, *command);
        add_choice(out, function, (*command)->parts, false);
        free(function);
    }
    add_help(out);
    add_choice(out, "_queue-sidecar", cli_commands, true);
    buffer_str(out, end);
}
