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

// The unmatched node that has most of the shard's slots; the number of nodes = there is none.
static size_t matching_successor(matching_t *m, size_t shard, size_t *common) {
    const slot_match_t *match = m->match;
    size_t best = match->map->node_count, most = 0;
    memset(common, 0, match->map->node_count * sizeof *common);
    for (size_t slot = 0; slot < SLOT_COUNT; slot++) {
        size_t owner = match->map->owner[slot];
        if (match->slots[slot] != shard) continue;
        m->had[shard]++;
        if (owner && m->of_nodes[owner - 1] == match->shard_max) common[owner - 1]++;
    }
    for (size_t node = 0; node < match->map->node_count; node++) {
        if (common[node] <= most) continue;
        most = common[node];
        best = node;
    }
    return best;
}

// A shard goes to the node that has most of its slots: this is its new primary. So others, which have got some slots, come later.
static void matching_by_slots(matching_t *m) {
    size_t *common = mem_array(m->match->map->node_count + 1, sizeof *common);
    for (size_t shard = 0; shard < m->match->shard_count; shard++) {
        if (m->taken[shard]) continue;
        size_t node = matching_successor(m, shard, common);
        if (node < m->match->map->node_count) matching_take(m, node, shard);
    }
    free(common);
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
