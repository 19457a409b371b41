/* What the tests of base/json share. */
#ifndef QS_TEST_JSON_DESK_H
#define QS_TEST_JSON_DESK_H

#include "base/json/json.h"
#include "base/json/pick.h"

#include <stdlib.h>

/* What the pointer finds; raw is borrowed from the text. */
static inline json_found_t find(slice_t text, const char *pointer, json_value_t *value) {
    json_t *json = json_new();
    json_read(json, text);
    json_found_t found = json_find(json, pointer, value);
    json_free(json);
    return found;
}

static inline slice_t slice_of(const buffer_t *buffer) { return (slice_t){buffer->data, buffer->len}; }

/* Of a copy on the heap at its own size, where a sanitizer sees a read behind it; what is found points into that, and is gone. */
static inline bool picks(slice_t text, json_pick_t *wanted, size_t count) {
    char *copy = malloc(text.len + (text.len == 0));
    if (text.len) memcpy(copy, text.data, text.len);
    bool good = json_pick((slice_t){copy, text.len}, wanted, count);
    free(copy);
    return good;
}

#endif
