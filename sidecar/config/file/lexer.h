// Tokens of a config file: libconfig keeps no literals. Version 1.5 wraps integers at 32 bits and ignores an unclosed
// comment.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

enum { LEXER_DEPTH_MAX = 32 }; // brackets that are followed; no config nests deeper

typedef enum token_kind { TOKEN_NAME, TOKEN_NUMBER, TOKEN_STRING, TOKEN_MARK } token_kind_t;

typedef struct token {
    token_kind_t kind;
    int line;
    slice_t text; // borrowed
} token_t;

typedef struct lexer {
    token_t *tokens;
    size_t count;
    size_t next;      // token at which lexer_number goes on
    int open_string;  // line where an unclosed string begins; 0 = none
    int open_comment; // line where an unclosed comment begins; 0 = none
    int nul_escape;   // line of the first \x00 in a string, which would cut it; 0 = none
} lexer_t;

// The text must outlive the lexer. Free with lexer_free.
void lexer_read(const char *text, lexer_t *lexer);
void lexer_free(lexer_t *lexer);

// Returns the number after "name =", searching on from the last result; NULL = none. Calls in the order of the file find the
// numbers one by one, even if several share a name or a line.
const token_t *lexer_number(lexer_t *lexer, const char *name);

// Returns the line where a closing quote is most likely missing; 0 = all strings are closed. A string without its closing quote
// ends at the opening quote of the next string, so this is the line of the first string that spans lines.
int lexer_open_string_line(const lexer_t *lexer);

// Returns the line of the first string where no value can be, or behind which no value can end; 0 = none. libconfig 1.5 leaks
// such a string.
int lexer_stray_string_line(const lexer_t *lexer);

bool token_is_mark(const token_t *token, char mark);
bool token_is_assignment(const token_t *token); // `=` or `:`
bool token_spans_lines(const token_t *token);   // a string
