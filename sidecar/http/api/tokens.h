// The tokens of http.token_file: who may do what.
//
// A line is `NAME RIGHTS TOKEN`, or a token alone; # begins a comment line. The file is read again when it changes. Only the
// digests of tokens are kept.
#pragma once

#include "base/clock.h"
#include "base/digest.h"

enum { RIGHT_LOOK = 1, RIGHT_PAYLOADS = 2, RIGHT_ACT = 4, RIGHT_PROXY = 8, RIGHTS = 4 };
extern const char *const right_words[RIGHTS]; // by bit

enum { TOKEN_NAME_MAX = 128, TOKEN_BYTES_MIN = 16 };

typedef struct token {
    char name[TOKEN_NAME_MAX + 1];
    unsigned rights;
    digest_t digest;
} token_t;

typedef struct tokens tokens_t;

// `path` is that of http.token_file, borrowed; "" = no file. Returns owned.
tokens_t *tokens_new(const char *path);
void tokens_free(tokens_t *tokens); // NULL is fine
bool tokens_configured(const tokens_t *tokens);

// Reads the file if it has changed, and logs what is wrong with it.
void tokens_refresh(tokens_t *tokens);

// Finds a token that a client sent, after a refresh. Compares with every token, in a time that tells nothing of them. NULL: there
// is none.
const token_t *tokens_find(tokens_t *tokens, slice_t sent);

// Refused tokens slow down all requests that carry a token, right or wrong alike: so guessing takes time, and nobody is locked
// out. Returns how long to hold a request, in ns; 0 = not at all.
int64_t tokens_delay(tokens_t *tokens, mono_t now);
void tokens_note_refused(tokens_t *tokens, mono_t now);

// Reads a file once, and tells what is wrong with it; line 0 is the file as a whole. Returns the rights of all tokens together.
typedef void tokens_fault_fn(void *self, int64_t line, const char *why);
unsigned tokens_check(const char *path, tokens_fault_fn *fault, void *self);

// Reads one line; pure. False: *why says what is wrong. A line without a token has no rights, and is good.
bool token_parse(slice_t line, token_t *out, const char **why);
