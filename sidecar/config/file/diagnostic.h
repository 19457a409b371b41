// Errors and warnings of a config: collected while it is read, written in line order at the end.
#pragma once

#include <stdarg.h>

#include "base/buffer.h"

// One byte, because each key of each queue has one.
typedef enum __attribute__((packed)) origin {
    ORIGIN_DEFAULT, // the default of the key
    ORIGIN_FILE,
    ORIGIN_ENVIRONMENT,
    ORIGIN_DEFAULTS, // the group `defaults` of the file
} origin_t;

// The place of a value in the configuration.
typedef struct location {
    const char *file; // NULL = the value is not in a file
    int line;         // 0 = the file as a whole
    origin_t origin;
} location_t;

typedef struct diagnostic {
    char *file;     // owned; NULL = the error is in an environment variable
    int line;       // 0 = the file as a whole
    size_t ordinal; // keeps diagnostics of one line in the order they were found
    char *text;     // owned
} diagnostic_t;

typedef struct diagnostics {
    const char *main_file; // borrowed; its diagnostics come before those of included files
    diagnostic_t *items;
    size_t count;
} diagnostics_t;

// Copies the location and the text.
void diagnostic_add(diagnostics_t *list, const location_t *location, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void diagnostic_vadd(diagnostics_t *list, const location_t *location, const char *prefix, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));

// Appends one line "FILE:LINE: text" for each diagnostic, sorted, and frees the list.
void diagnostics_write(diagnostics_t *list, buffer_t *out);

void diagnostics_free(diagnostics_t *list);
