// For each job, the name of the worker whose heartbeat was last read. So the record of a stalled job can name the worker. Has
// only names that this leader has read, at most WORKERS_MAX.
#pragma once

#include "base/digest.h"
#include "base/keyset.h"
#include "base/slice.h"

enum { WORKERS_MAX = 4096 }; // jobs whose worker is stored

// Begin with {0}.
typedef struct workers {
    keymap_t names; // digest of the job -> pointer to the owned name, as a number; 0 = none
} workers_t;

// Escapes control bytes and broken UTF-8. An empty name changes nothing.
void workers_note(workers_t *workers, const digest_t *job, slice_t name);
const char *workers_name(const workers_t *workers, const digest_t *job); // borrowed until the next change; "" = unknown
void workers_forget(workers_t *workers, const digest_t *job);
// Removes the jobs for which `keep` returns false.
void workers_filter(workers_t *workers, bool (*keep)(void *self, const uint8_t key[KEY_BYTES]), void *self);
void workers_free(workers_t *workers); // leaves `workers` empty, ready for use
