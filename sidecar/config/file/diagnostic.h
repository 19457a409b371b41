// Errors and warnings of a config: collected while it is read, written in line order at the end.
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "base/buffer.h"

typedef struct diagnostic {
    char *file;     // owned; NULL = an environment variable is to blame
    int line;       // 0 = the file as a whole
    size_t ordinal; // keeps diagnostics of one line in the order they were found
    char *text;     // owned
} diagnostic_t;

typedef struct diagnostics {
    const char *main_file; // borrowed; its diagnostics come before those of included files
    diagnostic_t *items;
    size_t count;
} diagnostics_t;

// Copies file (NULL is fine) and the text.
void diagnostic_add(diagnostics_t *list, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Appends one line "FILE:LINE: text" per diagnostic, sorted, and frees the list.
void diagnostics_write(diagnostics_t *list, buffer_t *out);

void diagnostics_free(diagnostics_t *list);
