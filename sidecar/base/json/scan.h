// Walks through a JSON text once, token by token, and proves on the way that it is JSON: separators, numbers, escapes, UTF-8,
// depth, one value and nothing behind it. What is good stands in json.h. It needs no memory and no recursion, has no limit of
// bytes, and its time grows with the length only. Private to base/json*.
#ifndef QS_BASE_JSON_SCAN_H
#define QS_BASE_JSON_SCAN_H

#include <stdbool.h>

#include "base/json/type.h"

typedef enum json_event {
    JSON_AT_BAD,   // here the text is no JSON, or too deep; nothing follows
    JSON_AT_KEY,   // the next event begins its value
    JSON_AT_VALUE, // a string, number, bool or null
    JSON_AT_OPEN,  // of an object or array
    JSON_AT_CLOSE, // of an object or array: it is a whole value now
    JSON_AT_END,   // the whole text was one good value
} json_event_t;

typedef enum json_want { JSON_WANT_VALUE, JSON_WANT_FIRST, JSON_WANT_NEXT, JSON_WANT_NOTHING } json_want_t;

typedef struct json_scan {
    const char *at;
    const char *end;
    json_want_t want; // what may come: a value; the first of a container, or its end; what follows a value; nothing
    int depth;        // containers that are open; of AT_OPEN with the new one, of AT_CLOSE without the old one
    slice_t token;    // of the event, with quotes; of AT_OPEN the bracket, of AT_CLOSE the whole container
    bool escaped;     // of the string that came last: it has an escape
    const char *open[JSON_MOST_DEPTH]; // the opening bracket of each
} json_scan_t;

// The text is borrowed while the scan is in use.
void json_scan_begin(json_scan_t *scan, slice_t text);
json_event_t json_scan_next(json_scan_t *scan);
// Of a token of AT_VALUE, AT_OPEN or AT_CLOSE.
json_value_t json_scan_value(slice_t token);
// A token without its quotes.
static inline slice_t json_unquoted(slice_t token) {
    return *token.data == '"' ? (slice_t){token.data + 1, token.len - 2} : token;
}

// The UTF-16 unit that the escape at the backslash **at stands for; *at moves behind it. Only for escapes that a scan took.
unsigned json_take_escape(const char **at);

#endif
