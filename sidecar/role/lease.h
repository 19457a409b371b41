// Leases: for each lock the token of the term and the local deadline until which the other roles may use it without asking
// Redis.
//
// A lease only saves round trips. Safety is in Redis: each script by which a role moves or ends jobs compares the token with
// the lock.
#pragma once

#include <pthread.h>

#include "base/clock.h"
#include "model/token.h"

typedef struct lease {
    char token[TOKEN_SIZE]; // "" = not leading
    mono_t deadline;        // on the local clock; after it another instance may hold the lock
    uint64_t term;          // counts the terms of this lock, from 1
} lease_t;

typedef struct leases leases_t;

// The queues that one lock fences. All pointers are borrowed.
typedef struct lease_queues {
    const char *lock;     // the lock's name, for log lines
    const size_t *queues; // their indexes
    size_t queue_count;
} lease_queues_t;

leases_t *leases_new(size_t lock_count, size_t queue_count); // owned
void leases_free(leases_t *leases);                          // NULL is fine

// Registers an eventfd (base/wakeup.h) to raise. leases_wake_on_change: when a term begins, ends or resumes after expiry, or a
// queue is disabled or enabled. leases_wake_on_suspicion: after lease_suspect. Call before threads start.
void leases_wake_on_change(leases_t *leases, int wake_fd);
void leases_wake_on_suspicion(leases_t *leases, int wake_fd);

// Says which queues a lock fences. Call before threads start.
void leases_set_queues(leases_t *leases, size_t lock, lease_queues_t queues);
const lease_queues_t *leases_queues(const leases_t *leases, size_t lock);
size_t leases_lock_of(const leases_t *leases, size_t queue);
size_t leases_count(const leases_t *leases); // of locks

void lease_begin(leases_t *leases, size_t lock, const char *token, mono_t deadline);
void lease_extend(leases_t *leases, size_t lock, mono_t deadline);
void lease_end(leases_t *leases, size_t lock);

// Copies the lease; false when there is none or it has expired.
bool lease_get(leases_t *leases, size_t lock, lease_t *lease);

// Disables a queue although its lock is held: its keys have wrong types, or Redis refuses its commands. False enables it.
void lease_disable_queue(leases_t *leases, size_t queue, bool disabled);
bool lease_queue_disabled(const leases_t *leases, size_t queue);

// Notes that Redis refused a request for this queue. The leader then rechecks the queue.
void lease_note_refusal(leases_t *leases, size_t queue);
bool lease_was_refused(const leases_t *leases, size_t queue); // within the last 15 s

// Notes a fenced script of this term: the leader checks the lock at once. lease_take_suspicion returns and clears the note.
void lease_suspect(leases_t *leases, size_t lock, uint64_t term);
bool lease_take_suspicion(leases_t *leases, size_t lock);
