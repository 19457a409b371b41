// Goes through a hash of the sidecar and removes fields that are no longer wanted.
#ifndef QS_QUEUE_PRUNE_H
#define QS_QUEUE_PRUNE_H

#include "base/slice.h"
#include "queue/call.h"

// Whether an entry stays. Field and value are borrowed and last for the call.
typedef bool prune_keep_fn(void *self, slice_t field, slice_t value);

// Looks at about `count` entries of `hash` (*cursor is 0 at the beginning and again at the end). Removes, fenced, those for which
// `keep` returns false and which have not changed since.
outcome_t prune_hash(const call_t *call, const char *hash, int count, uint64_t *cursor, prune_keep_fn *keep, void *self);

#endif
