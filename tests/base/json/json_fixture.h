/* What the tests of base/json share. */
#pragma once

#include "base/json/json.h"

#include <stdlib.h>

static inline slice_t slice_of(const buffer_t *buffer) { return (slice_t){buffer->data, buffer->len}; }

/* A copy on the heap at its own size, where a sanitizer sees a read behind it. */
static inline char *exact_copy(slice_t text) {
    char *copy = malloc(text.len + (text.len == 0));
    if (text.len) memcpy(copy, text.data, text.len);
    return copy;
}

/* Whether json_find takes the text. */
static inline bool is_good_text(slice_t text) {
    char *copy = exact_copy(text);
    json_value_t value;
    bool good = json_find((slice_t){copy, text.len}, "", &value) == JSON_FOUND;
    free(copy);
    return good;
}

/* The values point into a copy that is gone. */
static inline bool picks(slice_t text, json_pick_t *wanted, size_t count) {
    char *copy = exact_copy(text);
    bool good = json_pick((slice_t){copy, text.len}, wanted, count);
    free(copy);
    return good;
}

/* The pointer to a key, or to a key in the value of another one (`outer`, or NULL). Owned. */
static inline char *pointer_to(const char *outer, const char *key) {
    buffer_t out = {0};
    for (int i = outer ? 0 : 1; i < 2; i++) {
        buffer_str(&out, "/");
        for (const char *at = i ? key : outer; *at; at++) {
            if (*at == '~' || *at == '/')
                buffer_str(&out, *at == '~' ? "~0" : "~1");
            else
                buffer_add(&out, at, 1);
        }
    }
    return out.data;
}
