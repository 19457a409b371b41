#include "monitor/duplicates.h"

enum { SUSPECTS_MAX = 100000 };

void duplicates_begin(duplicates_t *duplicates, size_t entries) {
    keyfilter_begin(&duplicates->seen[0], entries);
    keymap_free(&duplicates->next_suspects); // counts of a scan that was broken off
    for (size_t i = 0; i < duplicates->suspects.room; i++) duplicates->suspects.slots[i].value = 0;
}

bool duplicates_add(duplicates_t *duplicates, const digest_t *digest) {
    int64_t *suspect = keymap_find(&duplicates->suspects, digest->bytes);
    bool seen = keyfilter_add(&duplicates->seen[0], digest->bytes);
    if (suspect)
        ++*suspect;
    else if (seen && duplicates->next_suspects.count < SUSPECTS_MAX)
        keymap_put(&duplicates->next_suspects, digest->bytes);
    return keymap_find(&duplicates->confirmed, digest->bytes) || (suspect && *suspect > 1);
}

static bool duplicates_confirm(void *self, const uint8_t key[KEY_BYTES], int64_t *met) {
    if (*met > 1) keymap_put(self, key);
    return false;
}

static bool duplicates_suspect_again(void *self, const uint8_t key[KEY_BYTES], int64_t *met) {
    keymap_put(self, key);
    (void)met;
    return true;
}

// Confirmed duplicates stay suspects; new suspects of the filter join them.
void duplicates_end(duplicates_t *duplicates) {
    keymap_free(&duplicates->confirmed);
    keymap_filter(&duplicates->suspects, duplicates_confirm, &duplicates->confirmed);
    keymap_free(&duplicates->suspects);
    duplicates->suspects = duplicates->next_suspects;
    duplicates->next_suspects = (keymap_t){0};
    keymap_filter(&duplicates->confirmed, duplicates_suspect_again, &duplicates->suspects);
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
    keymap_free(&duplicates->next_suspects);
    keymap_free(&duplicates->confirmed);
}
