#include "monitor/scan/duplicates.h"

enum { REPEATED_MAX = 200000 }; // digests of this and the last scan

// The value in `repeated`: how often this scan has seen the digest, or NEW; plus CONFIRMED or SINGLE, and RETRIED.
enum {
    NEW = -1,            // added during this scan, so this scan has not counted every entry
    CONFIRMED = 1 << 30, // added to the number: the last complete scan saw the digest more than once
    SINGLE = 1 << 29,    // added to the number: the last complete scan saw it once, so the filter was wrong
    RETRIED = 1 << 28,   // added to the number: the job has left the list during this scan, and may have come back
};

static int64_t duplicates_count(int64_t value) { return value & ~(CONFIRMED | SINGLE | RETRIED); }
static bool duplicates_is_repeated(int64_t value) {
    return value != NEW && (value & CONFIRMED || (duplicates_count(value) > 1 && !(value & RETRIED)));
}

void duplicates_begin(duplicates_t *duplicates, size_t entries) {
    keyfilter_begin(&duplicates->seen[0], entries);
    for (size_t i = 0; i < duplicates->repeated.room; i++) { // drop the counts of a scan that was broken off
        int64_t *value = &duplicates->repeated.slots[i].value;
        bool single = *value != NEW && duplicates_count(*value) <= 1;
        *value = *value == NEW ? 0 : *value & (single ? CONFIRMED | SINGLE : CONFIRMED);
    }
}

bool duplicates_add(duplicates_t *duplicates, const digest_t *digest) {
    int64_t *entry = keymap_find(&duplicates->repeated, digest->bytes);
    bool seen = keyfilter_add(&duplicates->seen[0], digest->bytes);
    if (entry && *entry != NEW) return duplicates_is_repeated(++*entry);
    if (!entry && seen && duplicates->repeated.count < REPEATED_MAX) *keymap_put(&duplicates->repeated, digest->bytes) = NEW;
    return false;
}

bool duplicates_add_again(duplicates_t *duplicates, const digest_t *digest) {
    keyfilter_add(&duplicates->seen[0], digest->bytes);
    return duplicates_known(duplicates, digest);
}

bool duplicates_known(const duplicates_t *duplicates, const digest_t *digest) {
    const int64_t *entry = keymap_find(&duplicates->repeated, digest->bytes);
    return entry && duplicates_is_repeated(*entry);
}

bool duplicates_uncounted(const duplicates_t *duplicates, const digest_t *digest) {
    const int64_t *entry = keymap_find(&duplicates->repeated, digest->bytes);
    return entry && (*entry == NEW || !(*entry & SINGLE || duplicates_is_repeated(*entry)));
}

void duplicates_found(duplicates_t *duplicates, const digest_t *digest) {
    if (duplicates->repeated.count < REPEATED_MAX) *keymap_put(&duplicates->repeated, digest->bytes) = CONFIRMED | 2;
}

void duplicates_retried(duplicates_t *duplicates, const digest_t *digest) {
    int64_t *entry = keymap_find(&duplicates->repeated, digest->bytes);
    if (entry && *entry != NEW) *entry |= RETRIED;
}

// Keeps new digests, which the next scan counts, and digests that this scan has counted. Of a retried job the number says
// nothing, so what was known of it stays. Most scans meet the jobs in the same order, so the filter is wrong about the same jobs
// again.
static bool duplicates_keep(void *self, const uint8_t key[KEY_BYTES], int64_t *value) {
    (void)self;
    (void)key;
    bool is_new = *value == NEW;
    int64_t count = is_new ? 0 : duplicates_count(*value);
    if (!is_new && *value & RETRIED) {
        *value &= CONFIRMED | SINGLE;
        return true;
    }
    *value = count > 1 ? CONFIRMED : count == 1 ? SINGLE : 0;
    return is_new || *value;
}

void duplicates_end(duplicates_t *duplicates) {
    keymap_filter(&duplicates->repeated, duplicates_keep, NULL);
    keyfilter_t older = duplicates->seen[1];
    duplicates->seen[1] = duplicates->seen[0];
    duplicates->seen[0] = older; // the next scan uses the same memory
}

bool duplicates_seen_now(void *self, const uint8_t key[KEY_BYTES]) {
    return keyfilter_has(&((const duplicates_t *)self)->seen[0], key);
}

bool duplicates_seen_lately(const duplicates_t *duplicates, const uint8_t key[KEY_BYTES]) {
    return keyfilter_has(&duplicates->seen[0], key) || keyfilter_has(&duplicates->seen[1], key);
}

void duplicates_free(duplicates_t *duplicates) {
    for (int i = 0; i < 2; i++) keyfilter_free(&duplicates->seen[i]);
    keymap_free(&duplicates->repeated);
}
