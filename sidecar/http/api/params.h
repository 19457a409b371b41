// The parameters of a query string, checked against a table: an unknown, doubled or bad one is a problem. Pure.
#pragma once

#include "http/api/answer.h"

typedef enum param_type {
    PARAM_TEXT,   // UTF-8 without NUL, of low to high bytes
    PARAM_WORD,   // one of `words`
    PARAM_NUMBER, // a whole number from low to high
    PARAM_BOOL,   // true or false
    PARAM_TIME,   // an age or a time; the handler reads it
    PARAM_CURSOR, // opaque; the handler reads it
} param_type_t;

typedef struct param {
    const char *name;
    param_type_t type;
    int64_t low, high;
    const char *words; // separated by spaces
    bool required;
    const char *help;
} param_t;

enum { PARAMS_MAX = 16 };

typedef struct params {
    char *values[PARAMS_MAX]; // by the row of the table; owned; NULL = not given
} params_t;

// Reads a query without its "?"; NULL = none. False: *answer is the problem. End *out with params_free in both cases.
bool params_read(const char *query, const param_t *table, size_t count, params_t *out, answer_t *answer);
// Checks one value, which a body may hold too.
bool params_check(const param_t *param, slice_t value, answer_t *answer);
// The problem of an unknown name.
void params_unknown(slice_t name, const char *what, const param_t *table, size_t count, answer_t *answer);
// A problem with the words that are allowed, and the nearest one.
void params_bad_word(const char *name, const char *value, const char *words, answer_t *answer);
void params_free(params_t *params);

// Appends `text` decoded: %XX, and + for a space. False: a % without two digits.
bool url_decode(slice_t text, buffer_t *out);
