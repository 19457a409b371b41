#include "role/lease.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/wakeup.h"

enum { LISTENERS = 4 };

struct leases {
    pthread_mutex_t mutex; // guards locks, suspected and disabled
    lease_t *locks;
    size_t lock_count;
    lease_queues_t *queues; // of each lock; owned
    size_t *lock_of;        // of each queue; owned
    size_t queue_count;
    uint64_t *suspected; // the term that a script found fenced; 0 = none
    bool *disabled;      // of each queue below disabled_capacity; owned
    size_t disabled_capacity;
    atomic_bool any_disabled; // false: lease_queue_disabled needs no mutex
    int listeners[LISTENERS];
    size_t listener_count;
    int leader; // -1 = none
};

leases_t *leases_new(size_t lock_count) {
    leases_t *leases = mem_alloc(sizeof *leases);
    leases->leader = -1;
    pthread_mutex_init(&leases->mutex, NULL);
    leases->locks = mem_array(lock_count, sizeof *leases->locks);
    leases->lock_count = lock_count;
    leases->queues = mem_array(lock_count, sizeof *leases->queues);
    leases->suspected = mem_array(lock_count, sizeof *leases->suspected);
    return leases;
}

void leases_free(leases_t *leases) {
    if (!leases) return;
    pthread_mutex_destroy(&leases->mutex);
    free(leases->locks);
    free(leases->queues);
    free(leases->lock_of);
    free(leases->suspected);
    free(leases->disabled);
    free(leases);
}

void leases_wake_on_change(leases_t *leases, int wake_fd) {
    if (leases->listener_count < LISTENERS) leases->listeners[leases->listener_count++] = wake_fd;
}

void leases_wake_on_suspicion(leases_t *leases, int wake_fd) { leases->leader = wake_fd; }

void leases_set_queues(leases_t *leases, size_t lock, lease_queues_t queues) {
    size_t end = queues.first_queue + queues.queue_count;
    leases->queues[lock] = queues;
    if (end > leases->queue_count) {
        size_t *grown = mem_array(end, sizeof *grown);
        if (leases->lock_of) memcpy(grown, leases->lock_of, leases->queue_count * sizeof *grown);
        free(leases->lock_of);
        leases->lock_of = grown;
        leases->queue_count = end;
    }
    for (size_t i = queues.first_queue; i < end; i++) leases->lock_of[i] = lock;
}

const lease_queues_t *leases_queues(const leases_t *leases, size_t lock) { return &leases->queues[lock]; }
size_t leases_lock_of(const leases_t *leases, size_t queue) { return leases->lock_of[queue]; }
size_t leases_count(const leases_t *leases) { return leases->lock_count; }

static void leases_notify(leases_t *leases) {
    for (size_t i = 0; i < leases->listener_count; i++) wakeup_raise(leases->listeners[i]);
}

void lease_begin(leases_t *leases, size_t lock, const char *token, mono_t deadline) {
    pthread_mutex_lock(&leases->mutex);
    lease_t *lease = &leases->locks[lock];
    snprintf(lease->token, sizeof lease->token, "%s", token);
    lease->deadline = deadline;
    lease->term++;
    leases->suspected[lock] = 0;
    pthread_mutex_unlock(&leases->mutex);
    leases_notify(leases);
}

void lease_extend(leases_t *leases, size_t lock, mono_t deadline) {
    pthread_mutex_lock(&leases->mutex);
    bool had_expired = mono_reached(leases->locks[lock].deadline, mono_now());
    leases->locks[lock].deadline = deadline;
    pthread_mutex_unlock(&leases->mutex);
    if (had_expired) leases_notify(leases); // a role that looked while it was expired waits for this
}

void lease_end(leases_t *leases, size_t lock) {
    pthread_mutex_lock(&leases->mutex);
    leases->locks[lock].token[0] = '\0';
    pthread_mutex_unlock(&leases->mutex);
    leases_notify(leases);
}

bool lease_get(leases_t *leases, size_t lock, lease_t *lease) {
    pthread_mutex_lock(&leases->mutex);
    *lease = leases->locks[lock];
    pthread_mutex_unlock(&leases->mutex);
    return *lease->token && !mono_reached(lease->deadline, mono_now());
}

void lease_disable_queue(leases_t *leases, size_t queue, bool disabled) {
    if (lease_queue_disabled(leases, queue) == disabled) return;
    pthread_mutex_lock(&leases->mutex);
    if (queue >= leases->disabled_capacity) {
        bool *grown = mem_array(queue + 1, sizeof *grown);
        if (leases->disabled_capacity) memcpy(grown, leases->disabled, leases->disabled_capacity * sizeof *grown);
        free(leases->disabled);
        leases->disabled = grown;
        leases->disabled_capacity = queue + 1;
    }
    leases->disabled[queue] = disabled;
    atomic_store(&leases->any_disabled, true);
    pthread_mutex_unlock(&leases->mutex);
    leases_notify(leases);
}

bool lease_queue_disabled(leases_t *leases, size_t queue) {
    if (!atomic_load_explicit(&leases->any_disabled, memory_order_relaxed)) return false;
    pthread_mutex_lock(&leases->mutex);
    bool disabled = queue < leases->disabled_capacity && leases->disabled[queue];
    pthread_mutex_unlock(&leases->mutex);
    return disabled;
}

void lease_suspect(leases_t *leases, size_t lock, uint64_t term) {
    pthread_mutex_lock(&leases->mutex);
    leases->suspected[lock] = term;
    pthread_mutex_unlock(&leases->mutex);
    wakeup_raise(leases->leader);
}

bool lease_take_suspicion(leases_t *leases, size_t lock) {
    pthread_mutex_lock(&leases->mutex);
    bool suspected = leases->suspected[lock] && leases->suspected[lock] == leases->locks[lock].term;
    leases->suspected[lock] = 0;
    pthread_mutex_unlock(&leases->mutex);
    return suspected;
}
