// Completion in shells: the command `completion` prints their scripts, which call the hidden command `complete`.
#pragma once

#include "cli/command.h"

// `words` follow the name of the program, as typed, with their quotes; the last one is being typed. Bash splits words at = and :,
// so they are joined again. Prints the candidates for the last word, a line each: WORD, WORD<tab>DESCRIPTION, or CLI_FILES for
// names of files. Returns CLI_OK.
int complete_print(const cli_command_t *const *commands, int count, char **words);
