// The command line of the program.
#pragma once

#include "cli/command.h"

extern const cli_command_t *const cli_commands[]; // ends with NULL

// Runs the command in argv[1] and returns its exit code. Fails if standard output cannot be written.
int cli_main(int argc, char **argv);
