// A run of bytes that somebody else owns. It may hold NUL bytes and need not end in one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct slice {
    const char *data; // may be NULL when len is 0
    size_t len;
} slice_t;

static inline slice_t slice_text(const char *text) { return (slice_t){text, strlen(text)}; }

static inline bool slice_equal(slice_t a, slice_t b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool slice_is(slice_t slice, const char *text) { return slice_equal(slice, slice_text(text)); }
