#include "base/buffer.h"

static void mem_exhausted(void) {
    static const char text[] = "queue-sidecar: out of memory\n";
    fwrite(text, 1, sizeof text - 1, stderr);
    abort();
}

void *mem_array(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory) mem_exhausted();
    return memory;
}

void *mem_alloc(size_t size) { return mem_array(1, size); }

char *mem_str(const char *text) {
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy) mem_exhausted();
    return copy;
}

char *mem_printf(const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    char *text = mem_alloc(len > 0 ? (size_t)len + 1 : 1);
    if (len > 0) vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

static void buffer_reserve(buffer_t *buffer, size_t more) {
    if (buffer->cap - buffer->len > more) return;
    size_t cap = buffer->cap ? buffer->cap : 64;
    while (cap - buffer->len <= more) cap *= 2;
    char *data = realloc(buffer->data, cap);
    if (!data) mem_exhausted();
    buffer->data = data;
    buffer->cap = cap;
}

void *mem_grown(void *array, size_t count, size_t size) {
    if (count & (count - 1)) return array; // full only at 0 and powers of two
    void *larger = mem_array(count ? 2 * count : 1, size);
    if (count) memcpy(larger, array, count * size);
    free(array);
    return larger;
}

void buffer_add(buffer_t *buffer, const void *bytes, size_t len) {
    buffer_reserve(buffer, len);
    if (len) memcpy(buffer->data + buffer->len, bytes, len);
    buffer->len += len;
    buffer->data[buffer->len] = '\0';
}

void buffer_str(buffer_t *buffer, const char *text) { buffer_add(buffer, text, strlen(text)); }

void buffer_vprintf(buffer_t *buffer, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    if (len > 0) {
        buffer_reserve(buffer, (size_t)len);
        vsnprintf(buffer->data + buffer->len, (size_t)len + 1, format, again);
        buffer->len += (size_t)len;
    }
    va_end(again);
}

void buffer_printf(buffer_t *buffer, const char *format, ...) {
    va_list args;
    va_start(args, format);
    buffer_vprintf(buffer, format, args);
    va_end(args);
}

void buffer_clear(buffer_t *buffer) {
    buffer->len = 0;
    if (buffer->data) buffer->data[0] = '\0';
}

void buffer_shrink(buffer_t *buffer) {
    if (buffer->cap > BUFFER_KEEP_BYTES)
        buffer_free(buffer);
    else
        buffer_clear(buffer);
}

void buffer_free(buffer_t *buffer) {
    free(buffer->data);
    *buffer = (buffer_t){0};
}

const char *buffer_text(const buffer_t *buffer) { return buffer->data ? buffer->data : ""; }
