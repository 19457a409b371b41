// The worker whose heartbeat was last read for each job. So the record of a stalled job can name its worker. Holds only workers
// that this leader has read, up to a limit.
#pragma once

#include "base/digest.h"
#include "base/keyset.h"
#include "base/slice.h"

enum { WORKERS_MAX = 4096 }; // jobs with a name

// Begin with {0}.
typedef struct workers {
    keymap_t names; // digest of the job -> owned text, as a number; 0 = none
} workers_t;

// Escapes control bytes and broken UTF-8. An empty name changes nothing.
void workers_note(workers_t *workers, const digest_t *job, slice_t name);
const char *workers_name(const workers_t *workers, const digest_t *job); // borrowed until the next change; "" = unknown
void workers_forget(workers_t *workers, const digest_t *job);
// Removes the jobs for which `keep` returns false.
void workers_filter(workers_t *workers, bool (*keep)(void *self, const uint8_t key[KEY_BYTES]), void *self);
void workers_free(workers_t *workers); // leaves it empty, ready for use
