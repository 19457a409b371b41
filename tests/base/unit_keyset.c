/* Sets of digests: an exact map, and a filter that finds every key. */
#include "base/keyset.h"

#include "base/digest.h"
#include "suite.h"

static digest_t key_of(int number) {
    char text[16];
    int len = snprintf(text, sizeof text, "%d", number);
    return digest_of(text, (size_t)len);
}

static int64_t *find(const keymap_t *map, int number) { return keymap_find(map, key_of(number).bytes); }

Test(unit_keyset, map_finds_only_its_keys) {
    enum { KEYS = 5000 };
    keymap_t map = {0};
    cr_assert_null(find(&map, 0));
    for (int i = 0; i < KEYS; i++) {
        int64_t *value = keymap_put(&map, key_of(i).bytes);
        cr_assert_eq(*value, 0);
        *value = i + 1;
    }
    cr_assert_eq(map.count, KEYS);
    for (int i = 0; i < KEYS; i++) cr_assert(find(&map, i) && *find(&map, i) == i + 1, "key %d", i);
    for (int i = KEYS; i < 2 * KEYS; i++) cr_assert_null(find(&map, i));
    cr_assert_eq(*keymap_put(&map, key_of(7).bytes), 8, "a second put finds the key");
    cr_assert_eq(map.count, KEYS);
    keymap_free(&map);
    cr_assert_null(find(&map, 7));
    *keymap_put(&map, key_of(7).bytes) = 1;
    cr_assert_eq(map.count, 1, "a freed map can be used again");
    keymap_free(&map);
}

/* The hardest case for open addressing: all keys hash to the same slot. */
Test(unit_keyset, map_separates_colliding_keys) {
    enum { KEYS = 100 };
    scoped(keymap_free) keymap_t map = {0};
    uint8_t keys[KEYS][KEY_BYTES];
    memset(keys, 0, sizeof keys);
    for (int i = 0; i < KEYS; i++) {
        keys[i][KEY_BYTES - 1] = (uint8_t)i;
        *keymap_put(&map, keys[i]) = i + 1;
    }
    for (int i = 0; i < KEYS; i++) cr_assert_eq(*keymap_find(&map, keys[i]), i + 1);
}

static bool keep_even(void *self, const uint8_t key[KEY_BYTES], int64_t *value) {
    ++*(int *)self;
    (void)key;
    return *value % 2 == 0;
}

Test(unit_keyset, map_removes_keys_that_are_not_kept) {
    enum { KEYS = 1000 };
    scoped(keymap_free) keymap_t map = {0};
    int asked = 0;
    keymap_filter(&map, keep_even, &asked); /* on an empty map */
    uint8_t keys[KEYS][KEY_BYTES];
    memset(keys, 0, sizeof keys);
    for (int i = 0; i < KEYS; i++) {
        memcpy(keys[i] + 4, &i, sizeof i); /* all of them collide */
        *keymap_put(&map, keys[i]) = i;
    }
    keymap_filter(&map, keep_even, &asked);
    cr_assert_eq(asked, KEYS);
    cr_assert_eq(map.count, KEYS / 2);
    for (int i = 0; i < KEYS; i++) {
        int64_t *value = keymap_find(&map, keys[i]);
        cr_assert(i % 2 ? !value : value && *value == i, "key %d", i);
    }
}

static int false_hits(const keyfilter_t *filter, int first, int count) {
    int hits = 0;
    for (int i = first; i < first + count; i++) hits += keyfilter_has(filter, key_of(i).bytes);
    return hits;
}

Test(unit_keyset, filter_finds_all_keys_with_few_false_hits) {
    enum { KEYS = 16384 }; /* as full as a filter becomes: 16 bits a key */
    scoped(keyfilter_free) keyfilter_t filter = {0};
    cr_assert_not(keyfilter_has(&filter, key_of(1).bytes), "a filter without a size holds no key");
    cr_assert_not(keyfilter_add(&filter, key_of(1).bytes));
    keyfilter_begin(&filter, KEYS);
    int before = 0;
    for (int i = 0; i < KEYS; i++) before += keyfilter_add(&filter, key_of(i).bytes);
    cr_assert_lt(before, KEYS / 250);
    for (int i = 0; i < KEYS; i++) {
        cr_assert(keyfilter_has(&filter, key_of(i).bytes));
        cr_assert(keyfilter_add(&filter, key_of(i).bytes));
    }
    cr_assert_lt(false_hits(&filter, KEYS, 4 * KEYS), 4 * KEYS / 250);
    keyfilter_begin(&filter, KEYS);
    cr_assert_eq(false_hits(&filter, 0, KEYS), 0, "keyfilter_begin empties the filter");
}

Test(unit_keyset, filter_size_follows_its_keys) {
    scoped(keyfilter_free) keyfilter_t filter = {0};
    static const struct {
        size_t keys, words;
    } rows[] = {{0, 16}, {64, 16}, {65, 32}, {1000, 256}, {(size_t)1 << 24, (size_t)1 << 22}, {SIZE_MAX, (size_t)1 << 22}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        keyfilter_begin(&filter, rows[i].keys);
        cr_assert_eq(filter.words, rows[i].words, "%zu keys: %zu words", rows[i].keys, filter.words);
    }
}
