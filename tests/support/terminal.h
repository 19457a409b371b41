/* A terminal of a test: what a program writes on it, and its size. Give terminal_path as `out` of a child. */
#pragma once

#include <stddef.h>

typedef struct terminal terminal_t;

/* Owned by the caller: terminal_free. */
terminal_t *terminal_open(int columns, int rows);
void terminal_free(terminal_t *terminal);
const char *terminal_path(const terminal_t *terminal);
/* The program is told by SIGWINCH, which the caller sends: it is no session of this terminal. */
void terminal_resize(terminal_t *terminal, int columns, int rows);

/* All that was written so far, as it came; borrowed until the next call. */
const char *terminal_raw(terminal_t *terminal);
/* Lines that stand on the screen after the last move to its upper left corner, without colours; owned by the caller. Fails the
 * test when a line is wider than the screen, or there are more of them than it has. */
char *terminal_screen(terminal_t *terminal);
