// Stamps: the sidecar's notes about jobs in progress, in the hash sidecar:<queue>:stamps (stamp.lua has the byte format).
#pragma once

#include "model/verdict.h"
#include "queue/backup.h"

enum { STAMP_BYTES = 28, STAMP_FIELD_BYTES = 16 }; // a field is the first 16 bytes of the job's digest

// A stamp in the bytes of Redis, for comparison; len 0 = none.
typedef struct stamp_raw {
    uint8_t bytes[STAMP_BYTES];
    size_t len;
} stamp_raw_t;

stamp_raw_t stamp_pack(const stamp_t *stamp);
// A value of another length than STAMP_BYTES reads as no stamp; stamp.lua replaces such a value.
stamp_t stamp_unpack(const void *bytes, size_t len);

// Requests the stamps of all jobs of the page, and the time. A page without jobs sends nothing.
void stamps_append(const call_t *call, const backup_page_t *page);
// stamps[i] and raws[i] belong to page->entries[i]. *now_us is Redis's clock.
outcome_t stamps_read(const call_t *call, const backup_page_t *page, stamp_t *stamps, stamp_raw_t *raws, int64_t *now_us);

// A change of one stamp. The script makes the change only if the stamp still is `old`. A birth of 0 in `new`: a life begins now.
typedef struct stamp_change {
    const digest_t *digest; // borrowed
    stamp_raw_t old;
    stamp_raw_t new;
} stamp_change_t;

outcome_t stamps_change(const call_t *call, const stamp_change_t *changes, size_t count); // fenced

// Returns whether an entry stays. Field and value are borrowed and last for the call.
typedef bool prune_keep_fn(void *self, slice_t field, slice_t value);

// Reads about `count` entries of `hash`. *cursor is 0 at the beginning and at the end. Removes each entry for which `keep`
// returned false, if the entry has not changed since; fenced.
outcome_t prune_hash(const call_t *call, const char *hash, int count, uint64_t *cursor, prune_keep_fn *keep, void *self);

// Returns whether a stamp stays, and may change it. `field` is borrowed and lasts for the call.
typedef bool stamp_keep_fn(void *self, const uint8_t field[STAMP_FIELD_BYTES], stamp_t *stamp);

// Reads all stamps, some in each call. Removes those for which `keep` returns false, and writes those that `keep` has changed;
// see prune_hash.
outcome_t stamps_prune(const call_t *call, uint64_t *cursor, stamp_keep_fn *keep, void *self);
