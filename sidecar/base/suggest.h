// The nearest known word, for "did you mean".
#ifndef QS_BASE_SUGGEST_H
#define QS_BASE_SUGGEST_H

#include <stddef.h>

// Returns the candidate (borrowed) that takes the fewest edits to reach from word, the first of equals; NULL when even that one
// takes more edits than a third of the letters. Case and `-` for `_` cost nothing. Candidates that are NULL are passed over.
const char *suggest_nearest(const char *word, const char *const *candidates, size_t count);

#endif
