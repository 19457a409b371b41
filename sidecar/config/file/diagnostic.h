// What is wrong with a config: collected while it is read, written in line order at the end.
#ifndef QS_CONFIG_FILE_DIAGNOSTIC_H
#define QS_CONFIG_FILE_DIAGNOSTIC_H

#include <stdarg.h>
#include <stddef.h>

#include "base/buffer.h"

typedef struct diagnostic {
    char *file;     // owned; NULL = no file is to blame (an environment variable)
    int line;       // 0 = the file as a whole
    size_t ordinal; // keeps faults of one line in the order they were found
    char *text;     // owned
} diagnostic_t;

typedef struct diagnostics {
    const char *main_file; // borrowed; its faults are written before those of included files
    diagnostic_t *items;
    size_t count;
} diagnostics_t;

// Copies file (NULL is fine) and the text.
void diagnostic_add(diagnostics_t *list, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Sorts the list and adds one line "FILE:LINE: text" per fault; then the list is empty and its memory is free.
void diagnostics_write(diagnostics_t *list, buffer_t *out);

// Frees the faults without writing them.
void diagnostics_free(diagnostics_t *list);

#endif
