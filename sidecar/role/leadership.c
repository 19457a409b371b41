#include "role/leadership.h"

#include "base/buffer.h"
#include "base/log.h"

void leadership_init(leadership_t *leadership, const char *role, leases_t *leases) {
    *leadership = (leadership_t){.role = role, .leases = leases};
    leadership->seen = mem_array(leases_count(leases), sizeof *leadership->seen);
    leadership->fenced = mem_array(leases_count(leases), sizeof *leadership->fenced);
}

void leadership_free(leadership_t *leadership) {
    free(leadership->seen);
    free(leadership->fenced);
}

bool leadership_refresh(leadership_t *leadership, void (*began)(void *self, size_t queue), void *self) {
    bool any = false;
    for (size_t lock = 0; lock < leases_count(leadership->leases); lock++) {
        lease_t lease;
        if (!lease_get(leadership->leases, lock, &lease)) continue;
        if (leadership->fenced[lock] != lease.term) any = true;
        if (leadership->seen[lock] == lease.term) continue;
        assert(leadership->seen[lock] < lease.term); // the roles know terms by their numbers
        leadership->seen[lock] = lease.term;
        const lease_queues_t *of = leases_queues(leadership->leases, lock);
        for (size_t i = 0; i < of->queue_count; i++) began(self, of->queues[i]);
    }
    return any;
}

bool leadership_may_serve(leadership_t *leadership, size_t queue, lease_t *lease) {
    size_t lock = leases_lock_of(leadership->leases, queue);
    return lease_get(leadership->leases, lock, lease) && leadership->fenced[lock] != lease->term &&
           !lease_queue_disabled(leadership->leases, queue);
}

void leadership_fence(leadership_t *leadership, size_t queue, uint64_t term) {
    size_t lock = leases_lock_of(leadership->leases, queue);
    if (leadership->fenced[lock] == term) return; // several scripts were in flight
    assert(leadership->fenced[lock] < term);      // Redis replies in order; else a fenced term would be served again
    leadership->fenced[lock] = term;
    lease_suspect(leadership->leases, lock, term);
    log_info(leadership->role, NULL, "fenced: lock lost", F_STR("lock", leases_queues(leadership->leases, lock)->lock));
}

void leadership_suspect(leadership_t *leadership) {
    for (size_t lock = 0; lock < leases_count(leadership->leases); lock++)
        lease_suspect(leadership->leases, lock, leadership->seen[lock]);
}
