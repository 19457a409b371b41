// Sets of digests, by their first 16 bytes, which are as good as random: an exact map, and a Bloom filter.
#pragma once

#include "base/std.h"

enum { KEY_BYTES = 16 };

// Begin with {0}.
typedef struct keymap {
    struct keymap_slot {
        uint8_t key[KEY_BYTES];
        int64_t value;
        bool used;
    } * slots;   // owned
    size_t room; // slots: a power of two, or 0
    size_t count;
} keymap_t;

int64_t *keymap_find(const keymap_t *map, const uint8_t key[KEY_BYTES]); // borrowed until the next put; NULL = not there
int64_t *keymap_put(keymap_t *map, const uint8_t key[KEY_BYTES]);        // finds the key, or adds it with the value 0
// Removes each key for which `keep` is false.
void keymap_filter(keymap_t *map, bool (*keep)(void *self, const uint8_t key[KEY_BYTES], int64_t *value), void *self);
void keymap_free(keymap_t *map); // leaves an empty map that can be used again

// A blocked Bloom filter of fixed size (Putze, Sanders, Singler 2007): 16 bits a key and more keep false hits below one in 250.
// Begin with {0}.
typedef struct keyfilter {
    uint64_t *bits; // owned
    size_t words;   // a power of two, or 0
} keyfilter_t;

// Empties the filter and sizes it for `keys` keys (64 to 16 million).
void keyfilter_begin(keyfilter_t *filter, size_t keys);
bool keyfilter_add(keyfilter_t *filter, const uint8_t key[KEY_BYTES]); // returns whether the key was (perhaps) there
bool keyfilter_has(const keyfilter_t *filter, const uint8_t key[KEY_BYTES]);
void keyfilter_free(keyfilter_t *filter);
