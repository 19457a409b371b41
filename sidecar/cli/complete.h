// The hidden verb behind completion: prints what may stand where somebody types in a shell.
#ifndef QS_CLI_COMPLETE_H
#define QS_CLI_COMPLETE_H

#include "cli/command.h"

// `words` stand behind the name of the program, as typed, with their quotes; the last one is not complete. Bash tears words apart
// at = and :, which is mended here. Prints WORD or WORD<tab>DESCRIPTION, a line each, or CLI_FILES for names of files.
// Returns CLI_OK.
int complete_print(const cli_command_t *const *commands, int count, char **words);

#endif
