// Reads a hash of the sidecar and removes the fields that nobody needs any more.
#pragma once

#include "base/slice.h"
#include "queue/call.h"

// Whether an entry stays. Field and value are borrowed and last for the call.
typedef bool prune_keep_fn(void *self, slice_t field, slice_t value);

// Reads about `count` entries of `hash`. *cursor is 0 at the beginning and at the end. Removes each entry for which `keep`
// returned false, if the entry has not changed since; fenced.
outcome_t prune_hash(const call_t *call, const char *hash, int count, uint64_t *cursor, prune_keep_fn *keep, void *self);
