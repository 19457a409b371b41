// What base/json* say of a JSON value.
#ifndef QS_BASE_JSON_TYPE_H
#define QS_BASE_JSON_TYPE_H

#include "base/slice.h"

enum { JSON_MOST_DEPTH = 64 }; // containers that are open at once; a deeper text is bad

typedef enum json_type { JSON_STRING, JSON_NUMBER, JSON_BOOL, JSON_NULL, JSON_OBJECT, JSON_ARRAY } json_type_t;

typedef struct json_value {
    json_type_t type;
    slice_t raw; // its bytes in the text, a string without its quotes; borrowed
} json_value_t;

typedef enum json_found {
    JSON_FOUND,
    JSON_MISSING, // the text is good JSON, but there is no such value
    JSON_BAD,     // no JSON, too large or too deep, or a key on the path stands twice
} json_found_t;

#endif
