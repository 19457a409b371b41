#include "redis/cluster/slot_match.h"

#include "base/buffer.h"

typedef struct matching {
    const slot_match_t *match;
    size_t *of_nodes;
    bool *taken; // shards that have a node; owned
    size_t *had; // the number of slots that each shard had; owned
    size_t shard_count;
} matching_t;

static void matching_take(matching_t *m, size_t node, size_t shard) {
    if (shard == m->match->shard_max || m->taken[shard]) return;
    m->of_nodes[node] = shard;
    m->taken[shard] = true;
}

static size_t matching_by_address(const matching_t *m, size_t node) {
    for (size_t i = 0; i < m->match->shard_count; i++)
        if (address_equal(&m->match->shards[i], &m->match->nodes[node])) return i;
    return m->match->shard_max;
}

// A node that has some slots which the shard had.
typedef struct heir {
    size_t node;
    size_t shard;
    size_t slots;
} heir_t;

static int heir_compare(const void *left, const void *right) {
    const heir_t *a = left, *b = right;
    if (a->slots != b->slots) return a->slots > b->slots ? -1 : 1;
    if (a->node != b->node) return a->node < b->node ? -1 : 1;
    return a->shard < b->shard ? -1 : a->shard > b->shard;
}

// Counts the slots of each pair of a node and a shard, and of each shard. Returns all pairs with slots, owned.
static heir_t *matching_find_heirs(matching_t *m, size_t *count) {
    const slot_match_t *match = m->match;
    uint16_t *common = mem_array(match->map->node_count * match->shard_max + 1, sizeof *common);
    heir_t *heirs = mem_array(SLOT_COUNT, sizeof *heirs); // a slot makes one pair at most
    for (size_t slot = 0; slot < SLOT_COUNT; slot++) {
        size_t shard = match->slots[slot], owner = match->map->owner[slot];
        if (shard >= match->shard_max) continue;
        m->had[shard]++;
        if (owner) common[(owner - 1) * match->shard_max + shard]++;
    }
    *count = 0;
    for (size_t i = 0; i < match->map->node_count * match->shard_max; i++)
        if (common[i]) heirs[(*count)++] = (heir_t){i / match->shard_max, i % match->shard_max, common[i]};
    free(common);
    return heirs;
}

// A shard goes to the node that has most of its slots: this is its new primary. So others, which have got some slots, come later.
static void matching_by_slots(matching_t *m) {
    size_t count;
    heir_t *heirs = matching_find_heirs(m, &count);
    qsort(heirs, count, sizeof *heirs, heir_compare);
    for (size_t i = 0; i < count; i++)
        if (m->of_nodes[heirs[i].node] == m->match->shard_max) matching_take(m, heirs[i].node, heirs[i].shard);
    free(heirs);
}

// A shard that had no slots, or a new one.
static size_t matching_unused(matching_t *m) {
    for (size_t i = 0; i < m->shard_count; i++)
        if (!m->taken[i] && m->had[i] == 0) return i;
    return m->shard_count < m->match->shard_max ? m->shard_count++ : m->match->shard_max;
}

size_t slot_match(const slot_match_t *match, size_t *of_nodes) {
    size_t count = match->map->node_count;
    matching_t m = {.match = match, .of_nodes = of_nodes, .shard_count = match->shard_count};
    m.taken = mem_array(match->shard_max, sizeof *m.taken);
    m.had = mem_array(match->shard_max, sizeof *m.had);
    for (size_t i = 0; i < count; i++) of_nodes[i] = match->shard_max;
    for (size_t i = 0; i < count; i++) matching_take(&m, i, matching_by_address(&m, i));
    matching_by_slots(&m);
    for (size_t i = 0; i < count; i++)
        if (of_nodes[i] == match->shard_max) matching_take(&m, i, matching_unused(&m));
    free(m.taken);
    free(m.had);
    return m.shard_count;
}
