/* The nodes of a slot map are matched with the shards known so far. Nodes and shards are letters: each is at its own address. */
#include "redis/cluster/slot_match.h"
#include "suite.h"

enum { PARTS = 8, PART = SLOT_COUNT / PARTS, SHARDS_MAX = 5, NONE = SHARDS_MAX };

static address_t address_of(char letter) {
    address_t address = {.port = 7000 + letter};
    snprintf(address.host, sizeof address.host, "node-%c", letter);
    return address;
}

typedef struct {
    slot_map_t map;
    uint16_t slots[SLOT_COUNT]; /* the shard of each slot before */
    address_t shards[SHARDS_MAX];
    size_t shard_count;
    size_t of_nodes[PARTS];
    char letters[PARTS + 1]; /* of the map's nodes, in its order */
} match_t;

/* Each text has a letter for each eighth of the slots, '.' = nobody: the shard, by the letter of its address in `shards`, that
 * had these slots; and the node that has them now. Returns the number of shards after. The caller frees the result's map. */
static size_t match(match_t *m, const char *shards, const char *before, const char *after) {
    address_t nodes[PARTS];
    *m = (match_t){.shard_count = strlen(shards)};
    m->map.nodes = calloc(PARTS, sizeof *m->map.nodes);
    for (size_t i = 0; i < m->shard_count; i++) m->shards[i] = address_of(shards[i]);
    for (size_t slot = 0; slot < SLOT_COUNT; slot++) {
        char shard = before[slot / PART], node = after[slot / PART];
        const char *known = node == '.' ? NULL : strchr(m->letters, node);
        m->slots[slot] = shard == '.' ? NONE : (uint16_t)(strchr(shards, shard) - shards);
        if (node == '.') continue;
        if (!known) {
            known = &m->letters[m->map.node_count];
            m->letters[m->map.node_count] = node;
            nodes[m->map.node_count] = m->map.nodes[m->map.node_count] = address_of(node);
            m->map.node_count++;
        }
        m->map.owner[slot] = (uint16_t)(known - m->letters + 1);
    }
    const slot_match_t question = {&m->map, nodes, m->shards, m->shard_count, SHARDS_MAX, m->slots};
    size_t count = slot_match(&question, m->of_nodes);
    slot_map_free(&m->map);
    return count;
}

/* `wanted` has for each node of the map, in its order, the number of its shard; '-' = none. */
static void expect(const char *shards, const char *before, const char *after, const char *wanted, size_t count) {
    match_t m;
    size_t got = match(&m, shards, before, after);
    cr_assert_eq(got, count, "%zu shards after %s -> %s", got, before, after);
    for (size_t i = 0; wanted[i]; i++) {
        size_t shard = wanted[i] == '-' ? NONE : (size_t)(wanted[i] - '0');
        cr_assert_eq(m.of_nodes[i], shard, "%s -> %s: node %c is shard %zu", before, after, m.letters[i], m.of_nodes[i]);
    }
}

Test(unit_slot_match, the_first_map_makes_shards) {
    /* At the start there is one shard, without an address. */
    expect("0", "........", "AAABBBCC", "012", 3);
    expect("0", "........", "...B..CC", "01", 2);
}

Test(unit_slot_match, the_same_map_changes_nothing) { expect("ABC", "AAABBBCC", "AAABBBCC", "012", 3); }

Test(unit_slot_match, a_shard_outlives_its_primary) {
    expect("ABC", "AAABBBCC", "AAADDDCC", "012", 3);
    /* Its replica has lost some slots meanwhile. */
    expect("ABC", "AAABBBCC", "AAADDCCC", "012", 3);
    /* Two at once. */
    expect("ABC", "AAABBBCC", "DDDEEECC", "012", 3);
}

Test(unit_slot_match, a_primary_that_returns_takes_its_slots_from_the_replica_again) {
    expect("ADC", "AAADDDCC", "AAABBBCC", "012", 3);
}

Test(unit_slot_match, nodes_that_swap_their_slots_stay_shards) {
    expect("ABC", "AAABBBCC", "BBBAAACC", "102", 3);
    expect("ABC", "AAABBBCC", "BBBCCCAA", "120", 3);
}

Test(unit_slot_match, an_address_decides_before_slots) {
    /* A has the slots of B, and D those of A. */
    expect("ABC", "AAABBBCC", "DDDAAACC", "302", 4);
}

Test(unit_slot_match, a_node_added_is_a_new_shard) {
    expect("ABC", "AAABBBCC", "DAABBBCC", "3012", 4);
    expect("ABC", "AAABBBCC", "DAADBBCC", "3012", 4);
}

Test(unit_slot_match, a_node_removed_leaves_its_shard_for_the_next_one) {
    expect("ABC", "AAABBBCC", "AAAAACCC", "02", 3);
    expect("ABC", "AAAAACCC", "AAADDCCC", "012", 3);
}

Test(unit_slot_match, unserved_slots_match_no_shard) {
    expect("ABC", "AAABBB..", "AAADDDDD", "01", 3);
    expect("ABC", "AAABBBCC", "AAABB...", "01", 3);
}

/* The order of the map says nothing. */
Test(unit_slot_match, the_node_with_most_of_the_slots_takes_the_shard) {
    expect("ABC", "AAABBBCC", "AAAEDDCC", "0312", 4);
    expect("ABC", "AAABBBCC", "AAADDECC", "0132", 4);
    /* E has more slots of B than of A, but D has still more of them. */
    expect("AB", "ABBBBBBB", "EEEDDDDD", "01", 2);
}

Test(unit_slot_match, all_nodes_are_replaced) { expect("ABC", "AAABBBCC", "DDDEEEFF", "012", 3); }

Test(unit_slot_match, all_nodes_are_gone) { expect("ABC", "AAABBBCC", "........", "", 3); }

Test(unit_slot_match, too_many_nodes_are_no_shards) {
    expect("ABCDE", "ABCDEEEE", "ABCDEEFG", "01234--", 5);
    expect("ABC", "AAABBBCC", "ABCDEFGH", "01234---", 5);
}
