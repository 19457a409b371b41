/* What the tests of base/json share. */
#ifndef QS_TEST_JSON_DESK_H
#define QS_TEST_JSON_DESK_H

#include "base/json.h"

/* What the pointer finds; raw is borrowed from the text. */
static inline json_found_t find(slice_t text, const char *pointer, json_value_t *value) {
    json_t *json = json_new();
    json_read(json, text);
    json_found_t found = json_find(json, pointer, value);
    json_free(json);
    return found;
}

#endif
