// Finds one value in a JSON text, and never changes or decodes the rest. jsmn finds the tokens; what it does not check is checked
// here: separators, numbers, escapes, UTF-8, one value only, no key twice on the path to the value. Good is what RFC 8259 says,
// and a lone surrogate (\ud800, half of a character) is good too, as producers that cut texts short make them; but it has no
// UTF-8, so a text that holds one cannot be decoded, and a key that holds one is not found.
//
// For texts of any size, and to change a value in its text, see json_pick.h.
#ifndef QS_BASE_JSON_JSON_H
#define QS_BASE_JSON_JSON_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/json/type.h"

enum {
    JSON_MOST_BYTES = 64 * 1024, // longer texts are not looked at
    JSON_MOST_TOKENS = 4096,
};

// Holds the tokens of one text; it can be used for one after the other.
typedef struct json json_t;
json_t *json_new(void); // owned
void json_free(json_t *json);

// Reads the text (borrowed until the next json_read). False: JSON_BAD for every pointer. Time grows with the length only.
bool json_read(json_t *json, slice_t text);
// Looks for an RFC 6901 pointer, such as "/meta/id" ("" = the whole text). What is no pointer finds nothing: JSON_MISSING. *out
// is set by JSON_FOUND alone.
json_found_t json_find(json_t *json, const char *pointer, json_value_t *out);

// Appends the decoded text of a JSON_STRING that was found, as UTF-8; it may hold NUL bytes. False: it holds a lone surrogate,
// and nothing was appended.
bool json_decode(slice_t raw, buffer_t *out);

#endif
