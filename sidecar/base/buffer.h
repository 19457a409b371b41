// A growable byte buffer that always ends in a NUL byte (not counted in len). The process
// aborts when memory runs out: no caller could do better, and no test could reach its error path.
#pragma once

#include "base/std.h"
#include <stdarg.h>

enum { BUFFER_KEEP_BYTES = 1 << 14 };

typedef struct buffer {
    char *data; // owned; NULL until the first byte is added
    size_t len;
    size_t cap;
} buffer_t;

void buffer_add(buffer_t *buffer, const void *bytes, size_t len);
void buffer_str(buffer_t *buffer, const char *text);
void buffer_printf(buffer_t *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_vprintf(buffer_t *buffer, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
void buffer_clear(buffer_t *buffer);             // keeps the memory
void buffer_shrink(buffer_t *buffer);            // clears; keeps at most BUFFER_KEEP_BYTES of memory
void buffer_free(buffer_t *buffer);              // leaves an empty buffer
const char *buffer_text(const buffer_t *buffer); // never NULL; borrowed until the next change

// malloc and friends; they abort the process when memory runs out. Results are owned.
void *mem_alloc(size_t size);               // zeroed
void *mem_array(size_t count, size_t size); // zeroed
// Returns an array of `count` items with room for one more, zeroed. `array` is NULL or an earlier result, and no longer valid.
void *mem_grown(void *array, size_t count, size_t size);
char *mem_str(const char *text); // NULL stays NULL
char *mem_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
