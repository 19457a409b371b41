#include "role/lease.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/wakeup.h"

enum { LISTENERS = 4 };

struct leases {
    pthread_mutex_t mutex; // guards locks, doubted and barred
    lease_t *locks;
    uint64_t *doubted; // term that is doubted; 0 = none
    bool *barred;      // of each queue below barred_room; owned
    size_t barred_room;
    atomic_bool any_barred; // else nobody need look
    int listeners[LISTENERS];
    size_t listener_count;
    int leader; // -1 = nobody
};

leases_t *leases_new(size_t lock_count) {
    leases_t *leases = mem_alloc(sizeof *leases);
    leases->leader = -1;
    pthread_mutex_init(&leases->mutex, NULL);
    leases->locks = mem_array(lock_count, sizeof *leases->locks);
    leases->doubted = mem_array(lock_count, sizeof *leases->doubted);
    return leases;
}

void leases_free(leases_t *leases) {
    if (!leases) return;
    pthread_mutex_destroy(&leases->mutex);
    free(leases->locks);
    free(leases->doubted);
    free(leases->barred);
    free(leases);
}

void leases_listen(leases_t *leases, int wake_fd) {
    if (leases->listener_count < LISTENERS) leases->listeners[leases->listener_count++] = wake_fd;
}

void leases_doubts_to(leases_t *leases, int wake_fd) { leases->leader = wake_fd; }

static void tell(leases_t *leases) {
    for (size_t i = 0; i < leases->listener_count; i++) wakeup_raise(leases->listeners[i]);
}

void lease_begin(leases_t *leases, size_t lock, const char *token, mono_t deadline) {
    pthread_mutex_lock(&leases->mutex);
    lease_t *lease = &leases->locks[lock];
    snprintf(lease->token, sizeof lease->token, "%s", token);
    lease->deadline = deadline;
    lease->term++;
    leases->doubted[lock] = 0;
    pthread_mutex_unlock(&leases->mutex);
    tell(leases);
}

void lease_extend(leases_t *leases, size_t lock, mono_t deadline) {
    pthread_mutex_lock(&leases->mutex);
    bool had_run_out = mono_reached(leases->locks[lock].deadline, mono_now());
    leases->locks[lock].deadline = deadline;
    pthread_mutex_unlock(&leases->mutex);
    if (had_run_out) tell(leases); // whoever looked meanwhile waits to be woken
}

void lease_end(leases_t *leases, size_t lock) {
    pthread_mutex_lock(&leases->mutex);
    leases->locks[lock].token[0] = '\0';
    pthread_mutex_unlock(&leases->mutex);
    tell(leases);
}

bool lease_get(leases_t *leases, size_t lock, lease_t *lease) {
    pthread_mutex_lock(&leases->mutex);
    *lease = leases->locks[lock];
    pthread_mutex_unlock(&leases->mutex);
    return *lease->token && !mono_reached(lease->deadline, mono_now());
}

void lease_bar(leases_t *leases, size_t queue, bool barred) {
    if (lease_barred(leases, queue) == barred) return;
    pthread_mutex_lock(&leases->mutex);
    if (queue >= leases->barred_room) {
        bool *grown = mem_array(queue + 1, sizeof *grown);
        if (leases->barred_room) memcpy(grown, leases->barred, leases->barred_room * sizeof *grown);
        free(leases->barred);
        leases->barred = grown;
        leases->barred_room = queue + 1;
    }
    leases->barred[queue] = barred;
    atomic_store(&leases->any_barred, true);
    pthread_mutex_unlock(&leases->mutex);
    tell(leases);
}

bool lease_barred(leases_t *leases, size_t queue) {
    if (!atomic_load_explicit(&leases->any_barred, memory_order_relaxed)) return false;
    pthread_mutex_lock(&leases->mutex);
    bool barred = queue < leases->barred_room && leases->barred[queue];
    pthread_mutex_unlock(&leases->mutex);
    return barred;
}

void lease_doubt(leases_t *leases, size_t lock, uint64_t term) {
    pthread_mutex_lock(&leases->mutex);
    leases->doubted[lock] = term;
    pthread_mutex_unlock(&leases->mutex);
    wakeup_raise(leases->leader);
}

bool lease_doubted(leases_t *leases, size_t lock) {
    pthread_mutex_lock(&leases->mutex);
    bool doubted = leases->doubted[lock] && leases->doubted[lock] == leases->locks[lock].term;
    leases->doubted[lock] = 0;
    pthread_mutex_unlock(&leases->mutex);
    return doubted;
}
