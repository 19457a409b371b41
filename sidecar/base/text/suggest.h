// The nearest known word, for "did you mean".
#pragma once

#include "base/std.h"

// Returns the candidate (borrowed) with the fewest edits from `word`, the first of equals, if these are at most a third of the
// letters; otherwise the only one that begins with `word`, of two letters or more; otherwise NULL. Case and `-` for `_` do not
// count. NULL candidates are skipped.
const char *suggest_nearest(const char *word, const char *const *candidates, size_t count);
