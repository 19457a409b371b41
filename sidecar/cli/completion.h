// Completion for shells, made from the table of commands.
#ifndef QS_CLI_COMPLETION_H
#define QS_CLI_COMPLETION_H

#include "base/buffer.h"

// What is sourced, or installed where the shell looks for it.
void completion_bash(buffer_t *out);
void completion_zsh(buffer_t *out);

#endif
