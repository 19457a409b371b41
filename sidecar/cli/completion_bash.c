// Completion for bash 4 and later. The function takes no help from the package bash-completion but one: words that hold a colon,
// which bash tears apart, are whole only with it.
#include <string.h>

#include "cli/cli.h"
#include "cli/completion.h"
#include "cli/help.h"

static const char begin[] =
    "# Completion of queue-sidecar for bash, made by `queue-sidecar completion bash`.\n"
    "# In a shell: source <(queue-sidecar completion bash)\n"
    "_queue_sidecar() {\n"
    "    local program=$1 cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} cword=$COMP_CWORD i\n"
    "    local command='' config='' options='' operands='' values=''\n"
    "    local -a words=(\"${COMP_WORDS[@]}\")\n"
    "    COMPREPLY=()\n"
    "    # As bash tears words apart, --name=value is three of them.\n"
    "    if declare -F _get_comp_words_by_ref >/dev/null; then\n"
    "        _get_comp_words_by_ref -n : cur prev words cword\n"
    "    fi\n"
    "    if [[ $cur == = ]]; then\n"
    "        cur=''\n"
    "    elif [[ $prev == = ]]; then\n"
    "        prev=${words[cword - 2]}\n"
    "    fi\n"
    "    for ((i = 1; i < cword; i++)); do\n"
    "        case ${words[i]} in\n"
    "        -c | --config)\n"
    "            config=${words[i + 1]}\n"
    "            [[ $config != = ]] || config=${words[i + 2]}\n"
    "            ;;\n"
    "        -c?*) config=${words[i]#-c} ;;\n"
    "        esac\n"
    "    done\n"
    "    # As it was typed: xargs takes off quotes and backslashes, and expands nothing.\n"
    "    [[ $config != *[\\'\\\"\\\\]* ]] || config=$(xargs printf %s <<<\"$config\" 2>/dev/null)\n"
    "    config=${config/#\\~\\//$HOME/}\n"
    "    ((cword < 2)) || command=${words[1]}\n";

static const char end[] = "    if [[ -z $values && $cur == -* ]]; then\n"
                          "        values=$options\n"
                          "    elif [[ -z $values ]]; then\n"
                          "        values=${operands:-$options}\n"
                          "    fi\n"
                          "    case $values in\n"
                          "    '<files>')\n"
                          "        compopt -o filenames 2>/dev/null\n"
                          "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                          "        ;;\n"
                          "    '<queues>')\n"
                          "        local name\n"
                          "        while IFS= read -r name; do\n"
                          "            [[ $name != \"$cur\"* ]] || COMPREPLY+=(\"$(printf %q \"$name\")\")\n"
                          "        done < <(\"$program\" completion queues ${config:+-c \"$config\"} 2>/dev/null)\n"
                          "        ;;\n"
                          "    '<text>') ;;\n"
                          "    *) mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$cur\") ;;\n"
                          "    esac\n"
                          "    # What stands before a colon is already on the line.\n"
                          "    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then\n"
                          "        local before=${cur%\"${cur##*:}\"}\n"
                          "        COMPREPLY=(\"${COMPREPLY[@]#\"$before\"}\")\n"
                          "    fi\n"
                          "}\n"
                          "complete -F _queue_sidecar queue-sidecar\n";

static const char *values_of(const cli_option_t *option) { return option->values ? option->values : "<text>"; }

// Lists of words stand in single quotes: none of them has one.
static void add_names(const cli_command_t *const *commands, buffer_t *out) {
    for (const cli_command_t *const *at = commands; *at; at++) buffer_printf(out, "%s%s", at == commands ? "" : " ", (*at)->name);
}

static void add_options(const cli_command_t *command, buffer_t *out) {
    buffer_str(out, "        options='");
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].name && command->options[i].help) buffer_printf(out, "--%s ", command->options[i].name);
    buffer_str(out, "--help'\n");
}

// What stands behind an option, and where there is none: operands.
static void add_values(const cli_command_t *command, buffer_t *out) {
    const char *operands = NULL;
    bool any = false;
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option_t *option = &command->options[i];
        if (!option->name) operands = values_of(option);
        if (!option->name || !option->argument) continue;
        if (!any) buffer_str(out, "        case $prev in\n");
        any = true;
        buffer_str(out, "        ");
        if (option->letter) buffer_printf(out, "-%c | ", option->letter);
        buffer_printf(out, "--%s) values='%s' ;;\n", option->name, values_of(option));
    }
    if (any) buffer_str(out, "        esac\n");
    if (operands) buffer_printf(out, "        operands='%s'\n", operands);
}

static void add_command(const cli_command_t *command, const cli_command_t *parent, buffer_t *out) {
    buffer_printf(out, "    '%s%s%s')\n", parent ? parent->name : "", parent ? " " : "", command->name);
    add_options(command, out);
    add_values(command, out);
    if (command->parts) {
        buffer_str(out, "        operands='");
        add_names(command->parts, out);
        buffer_str(out, "'\n");
    } else if (!command->option_count) {
        buffer_str(out, "        operands='<text>'\n");
    }
    buffer_str(out, "        ;;\n");
}

// `help` takes the name of a command, then that of a part.
static void add_help(buffer_t *out) {
    buffer_str(out, "    'help')\n        case $cword,${words[2]} in\n        2,*) operands='");
    add_names(cli_commands, out);
    buffer_str(out, " " HELP_TOPICS "' ;;\n");
    for (const cli_command_t *const *command = cli_commands; *command; command++) {
        if (!(*command)->parts) continue;
        buffer_printf(out, "        3,%s) operands='", (*command)->name);
        add_names((*command)->parts, out);
        buffer_str(out, "' ;;\n");
    }
    buffer_str(out, "        3,man) operands='" HELP_PAGES "' ;;\n        *) operands='<text>' ;;\n        esac\n        ;;\n");
}

void completion_bash(buffer_t *out) {
    buffer_str(out, begin);
    buffer_str(out, "    case $command in\n");
    for (const cli_command_t *const *command = cli_commands; *command; command++)
        if ((*command)->parts) buffer_printf(out, "    %s) ((cword < 3)) || command+=\" ${words[2]}\" ;;\n", (*command)->name);
    buffer_str(out, "    esac\n    case $command in\n    '')\n        options='--help --version'\n        operands='");
    add_names(cli_commands, out);
    buffer_str(out, "'\n        ;;\n");
    for (const cli_command_t *const *command = cli_commands; *command; command++) {
        if (*command == cli_commands[7]) continue;
        add_command(*command, NULL, out);
        for (const cli_command_t *const *part = (*command)->parts; part && *part; part++) add_command(*part, *command, out);
    }
    add_help(out);
    buffer_str(out, "    *) operands='<text>' ;;\n    esac\n");
    buffer_str(out, end);
}
