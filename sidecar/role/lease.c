#include "role/lease.h"

#include <stdatomic.h>

#include "base/buffer.h"
#include "base/wakeup.h"

enum { LISTENERS = 4, REFUSED_S = 15 }; // most listeners; how long lease_was_refused is true

typedef struct lease_lock {
    lease_t lease;
    lease_queues_t queues;
    uint64_t suspected; // the term of which a script was fenced; 0 = none
} lease_lock_t;

typedef struct lease_queue {
    size_t lock;
    atomic_bool disabled;
    _Atomic int64_t refused_until_ns; // ns of a mono_t; 0 = never refused
} lease_queue_t;

struct leases {
    pthread_mutex_t mutex; // guards the lease and the suspicion of each lock
    lease_lock_t *locks;
    size_t lock_count;
    lease_queue_t *queues;
    int listeners[LISTENERS]; // of leases_wake_on_change
    size_t listener_count;
    int leader; // of leases_wake_on_suspicion; -1 = none
};

leases_t *leases_new(size_t lock_count, size_t queue_count) {
    leases_t *leases = mem_alloc(sizeof *leases);
    leases->leader = -1;
    pthread_mutex_init(&leases->mutex, NULL);
    leases->locks = mem_array(lock_count, sizeof *leases->locks);
    leases->lock_count = lock_count;
    leases->queues = mem_array(queue_count, sizeof *leases->queues);
    return leases;
}

void leases_free(leases_t *leases) {
    if (!leases) return;
    pthread_mutex_destroy(&leases->mutex);
    free(leases->locks);
    free(leases->queues);
    free(leases);
}

void leases_wake_on_change(leases_t *leases, int wake_fd) {
    assert(leases->listener_count < LISTENERS);
    leases->listeners[leases->listener_count++] = wake_fd;
}

void leases_wake_on_suspicion(leases_t *leases, int wake_fd) { leases->leader = wake_fd; }

void leases_set_queues(leases_t *leases, size_t lock, lease_queues_t queues) {
    leases->locks[lock].queues = queues;
    for (size_t i = 0; i < queues.queue_count; i++) leases->queues[queues.queues[i]].lock = lock;
}

const lease_queues_t *leases_queues(const leases_t *leases, size_t lock) { return &leases->locks[lock].queues; }
size_t leases_lock_of(const leases_t *leases, size_t queue) { return leases->queues[queue].lock; }
size_t leases_count(const leases_t *leases) { return leases->lock_count; }

static void leases_notify(leases_t *leases) {
    for (size_t i = 0; i < leases->listener_count; i++) wakeup_raise(leases->listeners[i]);
}

// Without a token nobody would serve the queues, and without a deadline the lease would outlive the lock.
void lease_begin(leases_t *leases, size_t lock, const char *token, mono_t deadline) {
    assert(*token && deadline.ns > 0);
    pthread_mutex_lock(&leases->mutex);
    lease_t *lease = &leases->locks[lock].lease;
    snprintf(lease->token, sizeof lease->token, "%s", token);
    lease->deadline = deadline;
    lease->term++;
    leases->locks[lock].suspected = 0;
    pthread_mutex_unlock(&leases->mutex);
    leases_notify(leases);
}

// A renewal belongs to the term that the roles know, and the last one sent says how long Redis keeps the lock.
void lease_extend(leases_t *leases, size_t lock, mono_t deadline) {
    pthread_mutex_lock(&leases->mutex);
    lease_t *lease = &leases->locks[lock].lease;
    bool had_expired = mono_reached(lease->deadline, mono_now());
    assert(*lease->token && mono_reached(lease->deadline, deadline));
    lease->deadline = deadline;
    pthread_mutex_unlock(&leases->mutex);
    if (had_expired) leases_notify(leases); // a role that saw an expired lease waits for this
}

void lease_end(leases_t *leases, size_t lock) {
    pthread_mutex_lock(&leases->mutex);
    leases->locks[lock].lease.token[0] = '\0';
    pthread_mutex_unlock(&leases->mutex);
    leases_notify(leases);
}

bool lease_get(leases_t *leases, size_t lock, lease_t *lease) {
    pthread_mutex_lock(&leases->mutex);
    *lease = leases->locks[lock].lease;
    pthread_mutex_unlock(&leases->mutex);
    return *lease->token && !mono_reached(lease->deadline, mono_now());
}

void lease_disable_queue(leases_t *leases, size_t queue, bool disabled) {
    if (atomic_exchange(&leases->queues[queue].disabled, disabled) != disabled) leases_notify(leases);
}

bool lease_queue_disabled(const leases_t *leases, size_t queue) { return atomic_load(&leases->queues[queue].disabled); }

void lease_note_refusal(leases_t *leases, size_t queue) {
    atomic_store(&leases->queues[queue].refused_until_ns, mono_add(mono_now(), REFUSED_S * NS_PER_S).ns);
}

bool lease_was_refused(const leases_t *leases, size_t queue) {
    return !mono_reached((mono_t){atomic_load(&leases->queues[queue].refused_until_ns)}, mono_now());
}

void lease_suspect(leases_t *leases, size_t lock, uint64_t term) {
    pthread_mutex_lock(&leases->mutex);
    leases->locks[lock].suspected = term;
    pthread_mutex_unlock(&leases->mutex);
    wakeup_raise(leases->leader);
}

bool lease_take_suspicion(leases_t *leases, size_t lock) {
    lease_lock_t *of = &leases->locks[lock];
    pthread_mutex_lock(&leases->mutex);
    bool suspected = of->suspected && of->suspected == of->lease.term;
    of->suspected = 0;
    pthread_mutex_unlock(&leases->mutex);
    return suspected;
}
