#include "redis/cluster/slot_match.h"

#include "base/buffer.h"

typedef struct matching {
    const slot_match_t *match;
    size_t *of_nodes;
    bool *taken; // shards that have a node; owned
    size_t *had; // a number of slots for each shard; owned
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

// Counts the slots that each shard had: those of this node now, or all.
static void matching_count(const matching_t *m, size_t node, bool all) {
    memset(m->had, 0, m->match->shard_max * sizeof *m->had);
    for (size_t slot = 0; slot < SLOT_COUNT; slot++)
        if (m->match->slots[slot] < m->match->shard_max && (all || m->match->map->owner[slot] == node + 1))
            m->had[m->match->slots[slot]]++;
}

// The free shard that had most of the node's slots: the node is its new primary.
static size_t matching_by_slots(const matching_t *m, size_t node) {
    size_t best = m->match->shard_max, most = 0;
    matching_count(m, node, false);
    for (size_t i = 0; i < m->match->shard_count; i++) {
        if (m->taken[i] || m->had[i] <= most) continue;
        best = i;
        most = m->had[i];
    }
    return best;
}

// A shard that had no slots, or a new one.
static size_t matching_unused(matching_t *m) {
    matching_count(m, 0, true);
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
    for (size_t i = 0; i < count; i++)
        if (of_nodes[i] == match->shard_max) matching_take(&m, i, matching_by_slots(&m, i));
    for (size_t i = 0; i < count; i++)
        if (of_nodes[i] == match->shard_max) matching_take(&m, i, matching_unused(&m));
    free(m.taken);
    free(m.had);
    return m.shard_count;
}
