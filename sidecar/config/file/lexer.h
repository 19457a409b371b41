// The words of a libconfig file, as they stand there. libconfig itself keeps no literals: 1.5 wraps integers at 32 bits without
// a word, ignores a comment that is never closed, and says no more than "syntax error".
#ifndef QS_CONFIG_FILE_LEXER_H
#define QS_CONFIG_FILE_LEXER_H

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

typedef struct lexer {
    token_t *tokens;
    size_t count;
    size_t cap;
    size_t next;      // where lexer_number goes on
    int open_string;  // line where the last text begins, if it is never closed; 0 = none
    int open_comment; // the same of a comment
    int nul_escape;   // line of the first \x00 in a text, which would cut it; 0 = none
} lexer_t;

// Splits text, which must outlive the scan. Free with lexer_free.
void lexer_read(const char *text, lexer_t *lexer);
void lexer_free(lexer_t *lexer);

// Returns the number that stands after "name =", searching on from the last answer; NULL when there is none. Numbers asked for in
// the order of the file are so found one by one, however many share a name or a line.
const token_t *lexer_number(lexer_t *lexer, const char *name);

// Returns the line where the closing quote is most likely missing, when open_string is set: a text that spans lines ends where
// the next one was to begin, so the first of those is to blame.
int lexer_open_string_line(const lexer_t *lexer);

// Returns the line of the first text that stands where no value can, or 0. Such a text is a syntax error that libconfig 1.5
// reports too, but then it leaks the text.
int lexer_stray_string_line(const lexer_t *lexer);

// Adds what most likely makes this line a syntax error, as " (...)"; nothing when no guess is good.
void lexer_hint(const lexer_t *lexer, int line, buffer_t *out);

// Finds the first key that stands twice in one group. Returns false when there is none.
bool lexer_duplicate(const lexer_t *lexer, token_t *first, token_t *second);

#endif
