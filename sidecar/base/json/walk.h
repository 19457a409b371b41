// Walks through a JSON text once, token by token, and checks that it is good (see json.h). Needs no memory and no
// recursion.
#pragma once

#include "base/json/json.h"

typedef enum json_event {
    JSON_AT_BAD,   // the text is bad here; nothing follows
    JSON_AT_KEY,   // the next event begins its value
    JSON_AT_VALUE, // a string, number, bool or null
    JSON_AT_OPEN,  // an object or array begins
    JSON_AT_CLOSE, // an object or array is complete
    JSON_AT_END,   // the whole text was one good value
} json_event_t;

// The token that may come next: a value; the first member or the end of a container; a comma or the end; no token.
typedef enum json_want { JSON_WANT_VALUE, JSON_WANT_FIRST, JSON_WANT_NEXT, JSON_WANT_NOTHING } json_want_t;

typedef struct json_walk {
    const char *at;
    const char *end;
    json_want_t want;
    int depth;     // open containers; JSON_AT_OPEN counts the new one, JSON_AT_CLOSE no longer counts the closed one
    slice_t token; // of the event, with quotes; at JSON_AT_OPEN the bracket, at JSON_AT_CLOSE the whole container
    bool escaped;  // the last string has an escape
    const char *open[JSON_MAX_DEPTH]; // the opening bracket of each open container
} json_walk_t;

// The text is borrowed while the walk is in use.
void json_walk_begin(json_walk_t *walk, slice_t text);
json_event_t json_walk_next(json_walk_t *walk);

// Whether the innermost open container is an object.
static inline bool json_walk_in_object(const json_walk_t *walk) { return *walk->open[walk->depth - 1] == '{'; }

// A token without its quotes.
static inline slice_t json_unquoted(slice_t token) {
    return *token.data == '"' ? (slice_t){token.data + 1, token.len - 2} : token;
}
// The type and bytes of a token of JSON_AT_VALUE, JSON_AT_OPEN or JSON_AT_CLOSE.
json_value_t json_token_value(slice_t token);

enum { JSON_CHARACTER_SIZE = 4 };

// Decodes one escape, or copies one byte, at *at in a string that the walk has accepted, and moves *at behind it. Returns the
// number of bytes written to `utf8`; 0 = a lone surrogate.
size_t json_take_character(const char **at, const char *end, char utf8[JSON_CHARACTER_SIZE]);
