// What can be wrong with a queue or with a lock: a table of pure tests of what was read.
#ifndef QS_CLI_STATUS_CHECKS_H
#define QS_CLI_STATUS_CHECKS_H

#include "cli/status/status.h"

// Tells in *what what is wrong with the queue (or the lock) of this index, and in *weight how much. False: nothing is.
typedef bool status_check_fn(const status_t *s, size_t index, buffer_t *what, int64_t *weight);

typedef struct status_check {
    status_severity_t severity;
    const char *code;
    bool of_lock; // index is that of a lock
    status_check_fn *test;
    const char *why, *next; // {queue}, {config}, {lock}, {failures}, {delayed} and {leader} stand for those of the worst one
} status_check_t;

extern const status_check_t status_checks[];
extern const size_t status_check_count;

// The name of who holds the lock, for a sentence.
const char *status_leader(const overview_lock_t *lock);

// Whether that log has all of the stream.
bool status_is_complete(const overview_queue_t *queue, const overview_copy_t *copy);

#endif
