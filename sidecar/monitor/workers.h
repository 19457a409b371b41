// Inside of the scan: whose heartbeat was last seen on which job, so that the record of a job whose worker has died can name it.
// It is what this leader has seen: bounded, and empty at first.
#ifndef QS_MONITOR_WORKERS_H
#define QS_MONITOR_WORKERS_H

#include "base/digest.h"
#include "base/keyset.h"
#include "base/slice.h"

enum { WORKERS_MOST = 4096 }; // jobs; of more than that the names are not kept

// Begin with {0}.
typedef struct workers {
    keymap_t names; // digest of the job -> an owned text, as a number; 0 = none any more
} workers_t;

// Notes who has the job; control bytes and broken UTF-8 are escaped. An empty name changes nothing.
void workers_note(workers_t *workers, const digest_t *job, slice_t name);
const char *workers_name(const workers_t *workers, const digest_t *job); // borrowed until the next change; "" = not known
void workers_forget(workers_t *workers, const digest_t *job);
// Forgets the jobs for which `keep` says no.
void workers_filter(workers_t *workers, bool (*keep)(void *self, const uint8_t key[KEY_BYTES]), void *self);
void workers_free(workers_t *workers); // leaves none, and can be used again

#endif
