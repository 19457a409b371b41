// The words of a libconfig file, as they stand there. libconfig itself keeps no literals: 1.5 wraps integers at 32 bits without
// a word, ignores a comment that is never closed, and says no more than "syntax error".
#ifndef QS_CONFIG_FILE_SCAN_H
#define QS_CONFIG_FILE_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

typedef enum token_kind { TOKEN_NAME, TOKEN_NUMBER, TOKEN_STRING, TOKEN_MARK } token_kind_t;

typedef struct token {
    token_kind_t kind;
    int line;
    const char *at; // borrowed from the text
    size_t len;
} token_t;

typedef struct scan {
    token_t *tokens;
    size_t count;
    size_t cap;
    size_t cursor;    // where config_scan_number goes on
    int open_string;  // line where the last text begins, if it is never closed; 0 = none
    int open_comment; // the same of a comment
    int nul_escape;   // line of the first \x00 in a text, which would cut it; 0 = none
} scan_t;

// Splits text, which must outlive the scan. Free with config_scan_free.
void config_scan(const char *text, scan_t *scan);
void config_scan_free(scan_t *scan);

// Returns the number that stands after "name =", searching on from the last answer; NULL when there is none. Numbers asked for in
// the order of the file are so found one by one, however many share a name or a line.
const token_t *config_scan_number(scan_t *scan, const char *name);

// Returns the line where the closing quote is most likely missing, when open_string is set: a text that spans lines ends where
// the next one was to begin, so the first of those is to blame.
int config_scan_open_string(const scan_t *scan);

// Returns the line of the first text that stands where no value can, or 0. Such a text is a syntax error that libconfig 1.5
// reports too, but then it leaks the text.
int config_scan_stray_string(const scan_t *scan);

// Adds what most likely makes this line a syntax error, as " (...)"; nothing when no guess is good.
void config_scan_hint(const scan_t *scan, int line, buffer_t *out);

// Finds the first key that stands twice in one group. Returns false when there is none.
bool config_scan_duplicate(const scan_t *scan, token_t *first, token_t *second);

#endif
