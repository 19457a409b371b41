// The answer to a request of the API, and problems in the form of RFC 9457.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

typedef struct answer {
    unsigned status;     // of HTTP; 0 = none yet
    const char *type;    // of the content; static
    buffer_t body;       // owned
    char *location;      // headers, owned; NULL = none
    char *disposition;   // Content-Disposition
    char *allow;         // of 405
    int64_t retry_after; // in seconds; 0 = none
    bool of_page;        // the body is a file of the page, gzipped
} answer_t;

void answer_free(answer_t *answer);
// The body is JSON and complete.
void answer_json(answer_t *answer, unsigned status);

// Replaces the answer with a problem: what is wrong and what is allowed; `nearest`: the known word that may be meant, NULL =
// none. Adds Retry-After to 429 and 503.
void answer_problem(answer_t *answer, unsigned status, const char *nearest, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Adds a member to the problem; `json` is its value.
void answer_problem_member(answer_t *answer, const char *name, const char *json);
