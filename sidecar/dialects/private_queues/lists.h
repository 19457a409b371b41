// The private lists of a queue's workers: their names, and the job in progress in each.
//
// A scan reads each list once. The names come from a walk. The walk goes through a registry (a set, a hash or a list) or through
// all keys (SCAN). Steps of the walk alternate with reads of lists, so no request blocks Redis for long. A list that exists
// during the whole scan is always found.
#pragma once

#include "queue/call.h"
#include "queue/page.h"
#include "redis/conn.h"

enum {
    PRIVATE_PAGE = 64,      // lists of one request
    PRIVATE_WALK = 500,     // keys or members of one step of the walk: about 0.6 ms of Redis for keys
    PRIVATE_MOST = 100000,  // names that fit in memory; the next scan reads the rest
    PRIVATE_BYTES = 1 << 20 // one request reads no further entry after this many bytes
};

typedef struct private_lists private_lists_t;

private_lists_t *private_lists_new(const queue_keys_t *at); // borrows; owned
void private_lists_free(private_lists_t *lists);            // takes; NULL is fine

// Whether a key of this name may be a worker's list. *owner is the text that * of the pattern matches, or the name if there is
// no pattern. *owner is borrowed from `name`. A key of a configured queue and a key that begins with "sidecar:" are never
// private lists.
bool private_lists_take(private_lists_t *lists, const keyspace_t *keys, slice_t name, slice_t *owner);

// Functions of pass_ops (dialects/dialect.h).
void private_look_append(const call_t *call, void *lists);
outcome_t private_look_read(const call_t *call, void *lists, backup_look_t *out);
void private_page_append(const call_t *call, void *lists, size_t skip, size_t count);
outcome_t private_page_read(const call_t *call, void *lists, size_t skip, size_t count, backup_page_t *page);
