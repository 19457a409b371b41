/* Shared by the tests of base/json. */
#pragma once

#include "base/json/json.h"
#include "kept.h"

#include <stdlib.h>

static inline slice_t slice_of(const buffer_t *buffer) { return (slice_t){buffer->data, buffer->len}; }

/* Returns a copy on the heap without slack, so that a sanitizer reports a read past its end. */
static inline char *exact_copy(slice_t text) {
    char *copy = malloc(text.len + (text.len == 0));
    if (text.len) memcpy(copy, text.data, text.len);
    return kept(copy);
}

/* Whether json_find accepts the text. */
static inline bool is_good_text(slice_t text) {
    char *copy = exact_copy(text);
    json_value_t value;
    return json_find((slice_t){copy, text.len}, "", &value) == JSON_FOUND;
}

/* Calls json_pick with a copy of the text. Do not read the values: they point into the copy, which is freed. */
static inline bool picks(slice_t text, json_pick_t *wanted, size_t count) {
    char *copy = exact_copy(text);
    return json_pick((slice_t){copy, text.len}, wanted, count);
}

/* Returns the JSON pointer to `key`, or, unless `outer` is NULL, to `key` in the value of `outer`. Kept. */
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
    return kept(out.data);
}
