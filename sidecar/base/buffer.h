// A growable byte buffer that always ends in a NUL byte (not counted in len). Out of memory ends the process: at these sizes
// there is nothing better to do, and every caller is spared a branch that no test could reach.
#ifndef QS_BASE_BUFFER_H
#define QS_BASE_BUFFER_H

#include <stdarg.h>
#include <stddef.h>

enum { BUFFER_KEEP_BYTES = 1 << 16 };

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
void buffer_shrink(buffer_t *buffer);            // keeps it where it is small: BUFFER_KEEP_BYTES bytes
void buffer_free(buffer_t *buffer);              // leaves an empty buffer that can be used again
const char *buffer_text(const buffer_t *buffer); // never NULL; borrowed until the next change

// malloc and friends that end the process when memory is out. Results are owned.
void *mem_alloc(size_t size);               // zeroed
void *mem_array(size_t count, size_t size); // zeroed
// An array of `count` items that has room for one more behind them, zeroed. Takes `array`, which is NULL or of this function.
void *mem_grown(void *array, size_t count, size_t size);
char *mem_str(const char *text);
char *mem_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
