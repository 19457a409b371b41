// A run of bytes that somebody else owns. It may hold NUL bytes and need not end in one.
#pragma once

#include "base/std.h"

typedef struct slice {
    const char *data; // may be NULL when len is 0
    size_t len;
} slice_t;

static inline slice_t slice_text(const char *text) { return (slice_t){text, strlen(text)}; }

static inline bool slice_equal(slice_t a, slice_t b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static inline bool slice_is(slice_t slice, const char *text) { return slice_equal(slice, slice_text(text)); }

// The value of a hexadecimal digit of either case; -1 = it is none.
static inline int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    char lower = (char)(digit | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Reads decimal digits, with or without a minus. False: it is something else, or does not fit.
static inline bool slice_integer(slice_t text, int64_t *number) {
    bool negative = text.len > 0 && text.data[0] == '-';
    int64_t value = 0;
    if (text.len == (size_t)negative) return false;
    for (size_t i = negative; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        int digit = text.data[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *number = value;
    return true;
}

// The first `most` bytes, or all.
static inline slice_t slice_cut(slice_t slice, size_t most) { return (slice_t){slice.data, slice.len < most ? slice.len : most}; }
