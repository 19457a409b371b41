// Finds a few values of a JSON object of any size in one scan, and replaces tokens in its bytes: every other byte stays as it is.
// What is good JSON stands in json.h; the time grows with the length only, and a pick takes no memory.
#ifndef QS_BASE_JSON_PICK_H
#define QS_BASE_JSON_PICK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/json/type.h"

enum { JSON_MOST_PICKS = 16 };

// One wanted value: the member `key` of the outermost object, or of the object that is its member `outer`.
typedef struct json_pick {
    const char *outer, *key; // ASCII, as they are without escapes; outer NULL: of the outermost object; borrowed
    json_found_t found;      // out: JSON_BAD for all of them, or for none
    json_value_t value;      // out: set by JSON_FOUND alone; borrowed from the text
} json_pick_t;

// Reads the whole text, however long it is, and finds up to JSON_MOST_PICKS values. False: it is no JSON, too deep or no object,
// or a wanted key (also an `outer`) stands twice, by whatever escapes: readers disagree about which one counts. Without picks it
// tells whether the text is a good object.
bool json_pick(slice_t text, json_pick_t *picks, size_t count);

// The value of a JSON_NUMBER (check the type: a string may hold digits too). False: it has a fraction or an exponent, or does not
// fit.
bool json_integer(slice_t raw, int64_t *out);

// A token that is replaced, as a pick found it.
typedef struct json_cut {
    slice_t raw;  // lies in the text. A string's is without its quotes, which stay; it may be empty
    slice_t with; // goes there as it is: the caller writes a good token, or the good inside of a string
} json_cut_t;

// Appends the text to *out with every cut made, and sorts the cuts by place. *out is not where the text lives. False, and nothing
// is appended: a cut lies outside of the text, or two of them overlap or touch, which tokens never do.
bool json_splice(slice_t text, json_cut_t *cuts, size_t count, buffer_t *out);

#endif
