// Checks of a queue or a lock. They are pure.
#pragma once

#include "cli/status/status.h"

// The fixed part of a finding. In both texts {queue}, {config}, {lock}, {failures}, {delayed} and {leader} stand for
// those of the worst match.
typedef struct status_meaning {
    status_severity_t severity;
    const char *code;
    const char *why, *next;
} status_meaning_t;

// Returns how bad the trouble of the queue (or lock) with this index is, and describes it in *what. 0 = nothing is wrong.
typedef int64_t status_check_fn(const status_t *s, size_t index, buffer_t *what);

typedef struct status_check {
    status_meaning_t meaning;
    bool of_lock; // the index is that of a lock
    status_check_fn *find;
} status_check_t;

extern const status_check_t status_checks[];
extern const size_t status_check_count;

// The name of the lock's holder, for a sentence.
const char *status_leader(const snapshot_lock_t *lock);

// The position of the audit log here in a queue's stream; NULL = it has acknowledged nothing.
const snapshot_copy_t *status_own_copy(const status_t *s, size_t queue);

// Whether an audit log has the whole stream.
bool status_is_complete(const snapshot_queue_t *queue, const snapshot_copy_t *copy);

// Appends a word of a command line, in quotes where a shell needs them.
void shell_word(buffer_t *out, const char *text);
