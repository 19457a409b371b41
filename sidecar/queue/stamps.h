// Stamps: what the sidecar keeps of jobs in progress, in the hash sidecar:<queue>:stamps (see stamp.lua for their bytes).
#ifndef QS_QUEUE_STAMPS_H
#define QS_QUEUE_STAMPS_H

#include "model/verdict.h"
#include "queue/backup.h"

enum { STAMP_BYTES = 28, STAMP_FIELD_BYTES = 16 };

// A stamp in the bytes of Redis, for comparison; len 0 = none.
typedef struct stamp_raw {
    uint8_t bytes[STAMP_BYTES];
    size_t len;
} stamp_raw_t;

stamp_raw_t stamp_pack(const stamp_t *stamp);
// Malformed bytes read as no stamp. A change is compared with the bytes in Redis, so it never overwrites them.
stamp_t stamp_unpack(const void *bytes, size_t len);

// Asks for the stamps of every job of the page, and the time. Nothing is sent for a page without jobs.
void stamps_append(const call_t *call, const backup_page_t *page);
// stamps[i] and raws[i] are of page->entries[i]; *now in ms by Redis's clock.
outcome_t stamps_read(const call_t *call, const backup_page_t *page, stamp_t *stamps, stamp_raw_t *raws, int64_t *now);

// A change to one stamp, made only if it still is `old`. new.len 0: a life begins now.
typedef struct stamp_change {
    const digest_t *digest; // borrowed
    stamp_raw_t old;
    stamp_raw_t new;
} stamp_change_t;

outcome_t stamps_change(const call_t *call, const stamp_change_t *changes, size_t count); // fenced

// Goes through all stamps, some in each call (*cursor is 0 at the beginning and again at the end), and removes those for which
// `keep` returns false; fenced.
typedef bool stamp_keep_fn(void *self, const uint8_t field[STAMP_FIELD_BYTES], const stamp_t *stamp);
outcome_t stamps_prune(const call_t *call, uint64_t *cursor, stamp_keep_fn *keep, void *self);

#endif
