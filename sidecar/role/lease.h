// What the leader role tells the others: for each lock the token of the term and until when it may be used without asking.
//
// The lease only saves round trips. Safety lies in Redis: every script that matters compares the token with the lock.
#ifndef QS_ROLE_LEASE_H
#define QS_ROLE_LEASE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "queue/token.h"

typedef struct lease {
    char token[TOKEN_SIZE]; // "" = not leading
    mono_t deadline;        // on the local clock; past it the lock may be another's
    uint64_t term;          // counts the terms of this lock, from 1
} lease_t;

typedef struct leases leases_t;

leases_t *leases_new(size_t lock_count); // owned
void leases_free(leases_t *leases);      // takes; NULL is fine

// Whom to wake (base/wakeup.h) when a term begins, ends, or goes on after its time had run out, and whom when one is doubted.
// Call before threads start.
void leases_wake_on_change(leases_t *leases, int wake_fd);
void leases_wake_on_suspicion(leases_t *leases, int wake_fd);

void lease_begin(leases_t *leases, size_t lock, const char *token, mono_t deadline);
void lease_extend(leases_t *leases, size_t lock, mono_t deadline);
void lease_end(leases_t *leases, size_t lock);

// Copies the lease of `lock`; false when there is none or its time is over.
bool lease_get(leases_t *leases, size_t lock, lease_t *lease);

// A queue that is not served while we lead, because its keys are not what its dialect takes them for, or Redis refuses what that
// needs; wakes whoever listens.
void lease_disable_queue(leases_t *leases, size_t queue, bool barred);
bool lease_queue_disabled(leases_t *leases, size_t queue);

// A script said that the lock of this term is not ours: the leader should look at once. lease_take_suspicion takes that note
// away.
void lease_suspect(leases_t *leases, size_t lock, uint64_t term);
bool lease_take_suspicion(leases_t *leases, size_t lock);

#endif
