// Jobs of one backup list whose bytes occur more than once. Exact counts of a long list would take too much memory: a Bloom
// filter finds digests that may be repeated, and the next scan counts those. The filter is wrong about a few in ten thousand.
#pragma once

#include "base/digest.h"
#include "base/keyset.h"

// Begin with {0}.
typedef struct duplicates {
    keyfilter_t seen[2]; // filters of this scan and of the last complete scan
    keymap_t repeated;   // digests that may occur more than once -> count, see duplicates.c
} duplicates_t;

void duplicates_begin(duplicates_t *duplicates, size_t entries);
// Counts one job of the scan. True: another entry probably has the same bytes.
bool duplicates_add(duplicates_t *duplicates, const digest_t *digest);
// The same for a job that this scan may have met: it is not counted.
bool duplicates_add_again(duplicates_t *duplicates, const digest_t *digest);
// Whether complete scans know that another entry has the same bytes. Counts nothing.
bool duplicates_known(const duplicates_t *duplicates, const digest_t *digest);
// Whether the digest may be repeated, but no complete scan has counted it yet.
bool duplicates_uncounted(const duplicates_t *duplicates, const digest_t *digest);
// A settle outside of a scan has found another entry of the same bytes: the next scan begins with this knowledge.
void duplicates_found(duplicates_t *duplicates, const digest_t *digest);
// A retry has removed the job from the list. A worker may take it again, and the scan may meet it again.
void duplicates_retried(duplicates_t *duplicates, const digest_t *digest);
void duplicates_end(duplicates_t *duplicates); // the scan is complete

// Whether this scan has seen the job. A Bloom filter answers: true may be wrong, false is right. `self` is a duplicates_t.
bool duplicates_seen_now(void *self, const uint8_t key[KEY_BYTES]);
// Whether this scan or the last complete scan has seen the job; true may be wrong.
bool duplicates_seen_lately(const duplicates_t *duplicates, const uint8_t key[KEY_BYTES]);

void duplicates_free(duplicates_t *duplicates); // leaves `duplicates` empty, ready for use
