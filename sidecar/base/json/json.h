// Reads JSON: finds values, says where in the text they lie, and replaces them there. All other bytes stay as they are. Writes
// strings.
//
// A text is good if RFC 8259 accepts it and at most JSON_MAX_DEPTH containers nest. A lone surrogate (\ud800, half of a
// character) is good too, as producers that cut texts short write it. It has no UTF-8, so its string cannot be decoded, and a
// key that holds it is not found. A text is read in one walk, without memory of its own; the time grows with the length only.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

enum {
    JSON_MAX_DEPTH = 64,
    JSON_MAX_PICKS = 16,
    JSON_MAX_BYTES = 64 * 1024, // of a text that json_find looks at
    JSON_MAX_TOKENS = 4096,     // keys and values in such a text
    JSON_ESCAPED_BYTE = 6,      // bytes of \u00XX
};

typedef enum json_type { JSON_STRING, JSON_NUMBER, JSON_BOOL, JSON_NULL, JSON_OBJECT, JSON_ARRAY } json_type_t;

typedef struct json_value {
    json_type_t type;
    slice_t raw; // its bytes in the text, a string without its quotes; borrowed
} json_value_t;

typedef enum json_found {
    JSON_FOUND,
    JSON_MISSING, // the text is good, but holds no such value
    JSON_BAD,     // the text is bad or beyond the bounds, or has a key of the pointer twice: parsers disagree which one counts
} json_found_t;

// One wanted value.
typedef struct json_pick {
    const char *pointer; // RFC 6901, as "/meta/id"; "" = the whole text; borrowed. Without a leading "/" it finds nothing
    json_found_t found;  // out
    json_value_t value;  // out: set only if `found` is JSON_FOUND
} json_pick_t;

// Finds up to JSON_MAX_PICKS values of an object of any size. False, and each pick is JSON_BAD: the text is no good object, or
// one of the picks is JSON_BAD. Without picks: whether the text is a good object.
bool json_pick(slice_t text, json_pick_t *picks, size_t count);
// The same in any JSON text within JSON_MAX_BYTES and JSON_MAX_TOKENS, but a pick that is JSON_BAD does not affect the others.
bool json_find_all(slice_t text, json_pick_t *picks, size_t count);
json_found_t json_find(slice_t text, const char *pointer, json_value_t *out);

// Appends a JSON_STRING decoded, as UTF-8; it may hold NUL bytes. False: it holds a lone surrogate, and nothing was appended.
bool json_decode(slice_t raw, buffer_t *out);
// Copies a JSON_STRING, decoded, or a JSON_NUMBER to `out`, which has room for `most` bytes and a NUL. False, and nothing is
// copied: the decoded text is empty, too long or holds a NUL, or `raw` cannot be decoded.
bool json_copy_text(slice_t raw, char *out, size_t most);
// Reads a JSON_NUMBER (check the type: a string may hold digits too). False: a fraction, an exponent, or too large.
bool json_integer(slice_t raw, int64_t *out);

// A value to replace.
typedef struct json_cut {
    slice_t raw;  // its bytes in the text, as json_find found them: the quotes of a string are not among them
    slice_t with; // the replacement, written unchanged: a JSON token, or the escaped content of a string
} json_cut_t;

// Appends the text to *out with every cut replaced; sorts the cuts by place. The text must not lie in *out. False, and nothing
// is appended: a cut lies outside of the text, or two cuts overlap or touch.
bool json_splice(slice_t text, json_cut_t *cuts, size_t count, buffer_t *out);

// Appends the text as a JSON string in quotes. Each byte that is not UTF-8 becomes U+FFFD.
void json_write_string(buffer_t *out, slice_t text);
