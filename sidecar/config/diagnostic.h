// What is wrong with a config: collected while it is read, written in line order at the end.
#ifndef QS_CONFIG_DIAGNOSTIC_H
#define QS_CONFIG_DIAGNOSTIC_H

#include <stdarg.h>
#include <stddef.h>

#include "base/buffer.h"

typedef struct fault {
    char *file;     // owned; NULL = no file is to blame (an environment variable)
    int line;       // 0 = the file as a whole
    size_t ordinal; // keeps faults of one line in the order they were found
    char *text;     // owned
} fault_t;

typedef struct fault_list {
    const char *main_file; // borrowed; its faults are written before those of included files
    fault_t *items;
    size_t count;
} fault_list_t;

// Copies file (NULL is fine) and the text.
void config_fault_add(fault_list_t *list, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Sorts the list and adds one line "FILE:LINE: text" per fault; then the list is empty and its memory is free.
void config_fault_write(fault_list_t *list, buffer_t *out);

// Frees the faults without writing them.
void config_fault_drop(fault_list_t *list);

#endif
