#include "role/leadership.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/log.h"

void terms_init(terms_t *terms, const char *role, const keyspace_t *keys, leases_t *leases) {
    *terms = (terms_t){.role = role, .keys = keys, .leases = leases};
    terms->seen = mem_array(keys->lock_count, sizeof *terms->seen);
    terms->fenced = mem_array(keys->lock_count, sizeof *terms->fenced);
}

void terms_free(terms_t *terms) {
    free(terms->seen);
    free(terms->fenced);
}

bool terms_look(terms_t *terms, void (*began)(void *self, size_t queue), void *self) {
    bool any = false;
    for (size_t lock = 0; lock < terms->keys->lock_count; lock++) {
        lease_t lease;
        if (!lease_get(terms->leases, lock, &lease)) continue;
        if (terms->fenced[lock] != lease.term) any = true;
        if (terms->seen[lock] == lease.term) continue;
        terms->seen[lock] = lease.term;
        const lock_keys_t *of = &terms->keys->locks[lock];
        for (size_t i = 0; i < of->queue_count; i++) began(self, of->first_queue + i);
    }
    return any;
}

bool terms_serve(terms_t *terms, size_t queue, lease_t *lease) {
    size_t lock = terms->keys->queues[queue].lock;
    return lease_get(terms->leases, lock, lease) && terms->fenced[lock] != lease->term && !lease_barred(terms->leases, queue);
}

void terms_fence(terms_t *terms, size_t queue, uint64_t term) {
    size_t lock = terms->keys->queues[queue].lock;
    terms->fenced[lock] = term;
    lease_doubt(terms->leases, lock, term);
    log_info(terms->role, NULL, "fenced: the lock is not ours any more", F_STR("lock", terms->keys->locks[lock].name));
}

void terms_doubt(terms_t *terms) {
    for (size_t lock = 0; lock < terms->keys->lock_count; lock++) lease_doubt(terms->leases, lock, terms->seen[lock]);
}
