#include "base/keyset.h"

#include "base/buffer.h"

enum {
    FIRST_ROOM = 16,
    FILTER_HASHES = 4,
    BLOCK_WORDS = 8,
    BLOCK_BIT_SHIFT = 9, // 512 bits in a block
    FILTER_BITS = 16,    // for each key
    MIN_FILTER = 64,
    MAX_FILTER = 1 << 24,
};

static uint32_t keymap_word(const uint8_t key[KEY_BYTES], int index) {
    uint32_t number;
    memcpy(&number, key + 4 * index, sizeof number);
    return number;
}

// Returns the slot of the key, or the free one for it.
static struct keymap_slot *keymap_slot(const keymap_t *map, const uint8_t key[KEY_BYTES]) {
    size_t at = keymap_word(key, 0) & (map->room - 1);
    while (map->slots[at].used && memcmp(map->slots[at].key, key, KEY_BYTES) != 0) at = (at + 1) & (map->room - 1);
    return &map->slots[at];
}

int64_t *keymap_find(const keymap_t *map, const uint8_t key[KEY_BYTES]) {
    if (!map->count) return NULL;
    struct keymap_slot *slot = keymap_slot(map, key);
    return slot->used ? &slot->value : NULL;
}

static void keymap_rebuild(keymap_t *map, size_t room) {
    keymap_t old = *map;
    *map = (keymap_t){.slots = mem_array(room, sizeof *map->slots), .room = room, .count = old.count};
    for (size_t i = 0; i < old.room; i++)
        if (old.slots[i].used) *keymap_slot(map, old.slots[i].key) = old.slots[i];
    free(old.slots);
}

int64_t *keymap_put(keymap_t *map, const uint8_t key[KEY_BYTES]) {
    if (map->count * 2 >= map->room) keymap_rebuild(map, map->room ? map->room * 2 : FIRST_ROOM);
    struct keymap_slot *slot = keymap_slot(map, key);
    if (!slot->used) {
        memcpy(slot->key, key, KEY_BYTES);
        slot->used = true;
        map->count++;
    }
    return &slot->value;
}

void keymap_filter(keymap_t *map, bool (*keep)(void *self, const uint8_t key[KEY_BYTES], int64_t *value), void *self) {
    if (!map->room) return;
    for (size_t i = 0; i < map->room; i++) {
        struct keymap_slot *slot = &map->slots[i];
        if (!slot->used || keep(self, slot->key, &slot->value)) continue;
        slot->used = false;
        map->count--;
    }
    keymap_rebuild(map, map->room); // keymap_slot stops at a free slot and would miss the keys behind it
}

void keymap_free(keymap_t *map) {
    free(map->slots);
    *map = (keymap_t){0};
}

void keyfilter_begin(keyfilter_t *filter, size_t keys) {
    if (keys < MIN_FILTER) keys = MIN_FILTER;
    if (keys > MAX_FILTER) keys = MAX_FILTER;
    size_t words = 1;
    while (words * 64 < keys * FILTER_BITS) words *= 2;
    if (words == filter->words) {
        memset(filter->bits, 0, words * sizeof *filter->bits);
        return;
    }
    free(filter->bits);
    *filter = (keyfilter_t){.bits = mem_array(words, sizeof(uint64_t)), .words = words};
}

// All bits of a key lie in one cache line, as a filter of millions of keys mostly waits for memory.
static uint64_t *keyfilter_block(const keyfilter_t *filter, const uint8_t key[KEY_BYTES]) {
    return &filter->bits[(keymap_word(key, 0) & (filter->words / BLOCK_WORDS - 1)) * BLOCK_WORDS];
}

static uint64_t keyfilter_bit(const uint8_t key[KEY_BYTES], int index) {
    uint64_t bits = (uint64_t)keymap_word(key, 1) << 32 | keymap_word(key, 2);
    return bits >> (BLOCK_BIT_SHIFT * index) & (BLOCK_WORDS * 64 - 1);
}

// Returns whether all bits of the key are set; sets them if `add`.
static bool keyfilter_test(const keyfilter_t *filter, const uint8_t key[KEY_BYTES], bool add) {
    bool there = filter->words > 0;
    for (int i = 0; i < FILTER_HASHES && filter->words; i++) {
        uint64_t bit = keyfilter_bit(key, i);
        uint64_t *word = &keyfilter_block(filter, key)[bit / 64];
        uint64_t mask = UINT64_C(1) << (bit % 64);
        there = there && (*word & mask);
        if (add) *word |= mask;
    }
    return there;
}

bool keyfilter_add(keyfilter_t *filter, const uint8_t key[KEY_BYTES]) { return keyfilter_test(filter, key, true); }

bool keyfilter_has(const keyfilter_t *filter, const uint8_t key[KEY_BYTES]) { return keyfilter_test(filter, key, false); }

void keyfilter_free(keyfilter_t *filter) {
    free(filter->bits);
    *filter = (keyfilter_t){0};
}
