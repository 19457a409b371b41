// Finds the event that somebody names by its ref or id.
#pragma once

#include "audit/query/query.h"

typedef struct ref_event {
    int64_t seq;
    int64_t at; // time of the event, ms since 1970
} ref_event_t;

typedef enum ref_result {
    REF_FOUND,
    REF_MALFORMED, // it is no ref
    REF_UNKNOWN,   // no event has it
    REF_AMBIGUOUS, // several events have it
    REF_UNREADABLE // the log cannot be read
} ref_result_t;

// Finds the one event whose ref begins with `word`, or whose id is `word`, in upper or lower case. Calls `add` with each match,
// at most 20; it may be NULL. *why says what is wrong, unless the result is REF_FOUND.
ref_result_t ref_find(audit_t *audit, const char *word, audit_row_fn *add, void *self, ref_event_t *found, buffer_t *why);
