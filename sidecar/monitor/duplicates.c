#include "monitor/duplicates.h"

enum { SUSPECTS_MAX = 200000 }; // digests of this and the last scan

// The value of a suspect: how often this scan has met the digest, or NEW; plus CONFIRMED.
enum {
    NEW = -1,            // became a suspect during this scan, so this scan has not counted every entry
    CONFIRMED = 1 << 30, // added to the number: the last complete scan met the digest more than once
};

void duplicates_begin(duplicates_t *duplicates, size_t entries) {
    keyfilter_begin(&duplicates->seen[0], entries);
    for (size_t i = 0; i < duplicates->suspects.room; i++) { // drop the counts of a scan that was broken off
        int64_t *value = &duplicates->suspects.slots[i].value;
        *value = *value == NEW ? 0 : *value & CONFIRMED;
    }
}

bool duplicates_add(duplicates_t *duplicates, const digest_t *digest) {
    int64_t *suspect = keymap_find(&duplicates->suspects, digest->bytes);
    bool seen = keyfilter_add(&duplicates->seen[0], digest->bytes);
    if (suspect && *suspect != NEW) return ++*suspect > 1;
    if (!suspect && seen && duplicates->suspects.count < SUSPECTS_MAX) *keymap_put(&duplicates->suspects, digest->bytes) = NEW;
    return false;
}

// Confirmed duplicates stay suspects. New suspects stay too: the next scan counts them.
static bool duplicates_keep(void *self, const uint8_t key[KEY_BYTES], int64_t *value) {
    (void)self;
    (void)key;
    bool is_new = *value == NEW, confirmed = !is_new && (*value & ~CONFIRMED) > 1;
    *value = confirmed ? CONFIRMED : 0;
    return is_new || confirmed;
}

void duplicates_end(duplicates_t *duplicates) {
    keymap_filter(&duplicates->suspects, duplicates_keep, NULL);
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
    keymap_free(&duplicates->suspects);
}
