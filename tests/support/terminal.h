/* A pseudo-terminal, to test what a program writes on a terminal of some size. Pass terminal_path as `out` of a child. */
#pragma once

#include <stddef.h>

typedef struct terminal terminal_t;

/* Owned by the caller: terminal_free. */
terminal_t *terminal_open(int columns, int rows);
void terminal_free(terminal_t *terminal);
const char *terminal_path(const terminal_t *terminal);
/* The caller must send SIGWINCH to the program: the kernel does not, as this is not the terminal of the program's session. */
void terminal_resize(terminal_t *terminal, int columns, int rows);

/* Returns all bytes written so far; borrowed until the next call. */
const char *terminal_raw(terminal_t *terminal);
/* Returns the lines written since the last move to the upper left corner, without escape sequences. Fails
 * the test if a line is wider than the screen, or if there are more lines than rows. */
char *terminal_screen(terminal_t *terminal);
