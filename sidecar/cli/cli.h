// The command line of the program: its commands, their help, and completion in shells.
#pragma once

#include "base/buffer.h"
#include "cli/command.h"

extern const cli_command_t *const cli_commands[]; // ends with NULL

// Runs the command in argv[1] and returns its exit code. Fails if standard output cannot be written.
int cli_main(int argc, char **argv);

// Runs `help` with its arguments (argv[0] is "help"). `commands` ends with NULL. Returns an exit code.
int help_run(const cli_command_t *const *commands, int argc, char **argv);

// Adds the help of one command, in lines of at most `width` columns where words allow it.
void help_command(const cli_command_t *command, size_t width, buffer_t *out);

// The words that `help` accepts besides commands, separated by spaces, and the words for `help man`.
#define HELP_TOPICS "keys metrics commands man"
#define HELP_PAGES  "1 5"

extern const char help_exits[]; // the exit codes of all commands, as in cli_command_t

// Texts that the build embeds from files of their own.
extern const char text_man_program[]; // queue-sidecar(1), from docs/man
extern const char text_man_config[];  // queue-sidecar.cfg(5)
extern const char text_complete_bash[];
extern const char text_complete_zsh[];

// Runs the hidden command `complete`, which the scripts of `completion` call. `words` follow the name of the program, as typed,
// with their quotes; the last one is being typed. Bash splits words at = and :; the command joins the parts again. Prints the
// candidates for the last word, a line each: WORD, WORD<tab>DESCRIPTION, or CLI_FILES for names of files. Returns CLI_OK.
int complete_print(const cli_command_t *const *commands, int count, char **words);
