// The private lists of a queue's workers: which there are, and what is under way in each. For private_queues.c only.
//
// A pass looks at each of them once. Their names come from a walk through a registry (a set, a hash, or a list) or through all
// keys of the database (SCAN), some at a time, while the lists that were found are read: so a pass lasts as long as the walk, and
// no single request keeps Redis for long however many keys there are. A list that is there all the time is always found.
#ifndef QS_DIALECTS_PRIVATE_QUEUES_LISTS_H
#define QS_DIALECTS_PRIVATE_QUEUES_LISTS_H

#include "queue/call.h"
#include "queue/page.h"
#include "redis/conn.h"

enum {
    PRIVATE_PAGE = 64,      // lists that one request reads
    PRIVATE_WALK = 500,     // keys or members of one step of the walk: about 0.6 ms of Redis for keys
    PRIVATE_MOST = 100000,  // names in memory; what is beyond them comes in the next pass
    PRIVATE_BYTES = 1 << 20 // of entries that one request reads, and then one more entry
};

typedef struct private_lists private_lists_t;

private_lists_t *private_lists_new(const queue_keys_t *at); // borrows; owned
void private_lists_free(private_lists_t *lists);            // takes; NULL is fine

// Whether a key of this name may be a worker's list, and whose: *owner is what * of the pattern stands for, borrowed from `name`;
// without a pattern the name itself. Keys that the config names for any queue never are, nor is what begins with "sidecar:".
bool private_lists_take(private_lists_t *lists, const keyspace_t *keys, slice_t name, slice_t *owner);

// As pass_ops has them (dialect.h).
void private_look_append(const call_t *call, void *lists);
outcome_t private_look_read(const call_t *call, void *lists, backup_look_t *out);
void private_page_append(const call_t *call, void *lists, size_t skip, size_t count);
outcome_t private_page_read(const call_t *call, void *lists, size_t skip, size_t count, backup_page_t *page);

#endif
