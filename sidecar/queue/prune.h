// Goes through a hash of ours and removes what is no longer wanted (see sweep.lua).
#ifndef QS_QUEUE_PRUNE_H
#define QS_QUEUE_PRUNE_H

#include "base/slice.h"
#include "queue/keys.h"
#include "redis/conn.h"

// Whether an entry stays; what it holds is borrowed.
typedef bool sweep_keep_fn(void *self, slice_t field, slice_t value);

// Looks at some entries of `hash`, about `count` of them (*cursor is 0 at the beginning and again at the end), and removes,
// fenced by the lock of `queue`, those for which `keep` says no and which have not changed since. *removed grows by them.
outcome_t sweep_hash(conn_t *conn, const keyspace_t *keys, size_t queue, const char *hash, const char *token, int count,
                     uint64_t *cursor, sweep_keep_fn *keep, void *self, int64_t *removed, bool *fenced, redis_error_t *error);

#endif
