#include "role/leadership.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/log.h"

void terms_init(terms_t *terms, const char *role, const keyspace_t *keys, leases_t *leases) {
    *terms = (terms_t){.role = role, .keys = keys, .leases = leases};
    terms->seen = mem_array(keys->seat_count, sizeof *terms->seen);
    terms->fenced = mem_array(keys->seat_count, sizeof *terms->fenced);
}

void terms_free(terms_t *terms) {
    free(terms->seen);
    free(terms->fenced);
}

bool terms_look(terms_t *terms, void (*began)(void *self, size_t queue), void *self) {
    bool any = false;
    for (size_t seat = 0; seat < terms->keys->seat_count; seat++) {
        lease_t lease;
        if (!lease_get(terms->leases, seat, &lease)) continue;
        if (terms->fenced[seat] != lease.term) any = true;
        if (terms->seen[seat] == lease.term) continue;
        terms->seen[seat] = lease.term;
        const seat_t *of = &terms->keys->seats[seat];
        for (size_t i = 0; i < of->queue_count; i++) began(self, of->first_queue + i);
    }
    return any;
}

bool terms_serve(terms_t *terms, size_t queue, lease_t *lease) {
    size_t seat = terms->keys->queues[queue].seat;
    return lease_get(terms->leases, seat, lease) && terms->fenced[seat] != lease->term && !lease_barred(terms->leases, queue);
}

void terms_fence(terms_t *terms, size_t queue, uint64_t term) {
    size_t seat = terms->keys->queues[queue].seat;
    terms->fenced[seat] = term;
    lease_doubt(terms->leases, seat, term);
    log_info(terms->role, NULL, "fenced: the lock is not ours any more", F_STR("seat", terms->keys->seats[seat].name));
}

void terms_doubt(terms_t *terms) {
    for (size_t seat = 0; seat < terms->keys->seat_count; seat++) lease_doubt(terms->leases, seat, terms->seen[seat]);
}
