// `help`: explains a command, and prints the tables and manual pages of the program.
#pragma once

#include "base/buffer.h"
#include "cli/command.h"

// Runs `help` with its arguments (argv[0] is "help"). `commands` ends with NULL. Returns an exit code.
int help_run(const cli_command_t *const *commands, int argc, char **argv);

// Adds the help of one command, in lines of at most `width` columns where words allow it.
void help_command(const cli_command_t *command, size_t width, buffer_t *out);

// The words that `help` takes beside commands, separated by spaces, and those that `help man` takes.
#define HELP_TOPICS "keys metrics commands man"
#define HELP_PAGES  "1 5"

extern const char help_exits[]; // the exit codes of all commands, as in cli_command_t
