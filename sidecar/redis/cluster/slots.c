#include "redis/cluster/slots.h"

#include "base/buffer.h"
#include "redis/reply.h"

// A Redis that prefers host names announces this for a node without one (redis src/cluster.c, getPreferredEndpoint).
static const char UNKNOWN_HOST[] = "?";

static bool slots_host_known(slice_t host) { return host.len > 0 && !slice_is(host, UNKNOWN_HOST); }

// The entry of a node: host, port, id and, from Redis 7, a list of names and values with the other ways to reach it. The host is
// null or empty where the server knows no better one than that of the connection (redis src/cluster.c, addNodeToNodeReply).
static slice_t slots_node_host(const redisReply *node, const char *asked) {
    slice_t host = reply_slice(reply_at(node, 0));
    const redisReply *others = reply_at(node, 3);
    if (slots_host_known(host)) return host;
    for (size_t i = 0; slice_is(host, UNKNOWN_HOST) && reply_at(others, i + 1); i += 2)
        if (reply_is(reply_at(others, i), "ip") && slots_host_known(reply_slice(others->element[i + 1])))
            return reply_slice(others->element[i + 1]);
    return slice_text(asked);
}

static bool slots_read_node(const redisReply *reply, const char *asked, address_t *node) {
    slice_t host = slots_node_host(reply, asked);
    int64_t port = reply_int(reply_at(reply, 1));
    if (port < 1 || port > UINT16_MAX || host.len >= sizeof node->host) return false;
    node->port = (int)port;
    snprintf(node->host, sizeof node->host, "%.*s", (int)host.len, host.data);
    return true;
}

// Returns the index of the node, which is added if it is new; SLOT_NODES_MAX = too many.
static size_t slots_add_node(slot_map_t *map, const address_t *node) {
    size_t index = 0;
    while (index < map->node_count && !address_equal(&map->nodes[index], node)) index++;
    if (index == SLOT_NODES_MAX) return index;
    if (index == map->node_count) map->nodes[map->node_count++] = *node;
    return index;
}

// A range: first slot, last slot, the primary, replicas.
static bool slots_read_range(const redisReply *range, const char *asked, slot_map_t *map) {
    const redisReply *first = reply_at(range, 0), *last = reply_at(range, 1), *primary = reply_at(range, 2);
    address_t node = {0};
    if (!primary || first->type != REDIS_REPLY_INTEGER || last->type != REDIS_REPLY_INTEGER) return false;
    if (first->integer < 0 || last->integer < first->integer || last->integer >= SLOT_COUNT) return false;
    // After a CLUSTER RESET others know its node without an address, which is port 0, and still give it the slots.
    if (reply_at(primary, 1) && reply_at(primary, 1)->type == REDIS_REPLY_INTEGER && reply_int(reply_at(primary, 1)) == 0)
        return true;
    if (!slots_read_node(primary, asked, &node)) return false;
    size_t index = slots_add_node(map, &node);
    for (int64_t slot = first->integer; slot <= last->integer; slot++) map->owner[slot] = (uint16_t)(index + 1);
    return index < SLOT_NODES_MAX;
}

bool slot_map_read(const redisReply *reply, const char *asked, slot_map_t *map) {
    *map = (slot_map_t){0};
    bool good = reply && reply->type == REDIS_REPLY_ARRAY;
    if (good) map->nodes = mem_array(reply->elements < SLOT_NODES_MAX ? reply->elements + 1 : SLOT_NODES_MAX, sizeof *map->nodes);
    for (size_t i = 0; good && i < reply->elements; i++) good = slots_read_range(reply->element[i], asked, map);
    if (!good) slot_map_free(map);
    return good;
}

void slot_map_free(slot_map_t *map) {
    free(map->nodes);
    *map = (slot_map_t){0};
}

// Takes the text up to the next blank from *rest.
static slice_t redirection_word(slice_t *rest) {
    const char *blank = rest->len ? memchr(rest->data, ' ', rest->len) : NULL;
    slice_t word = {rest->data, blank ? (size_t)(blank - rest->data) : rest->len};
    size_t used = word.len + (blank != NULL);
    *rest = (slice_t){rest->len ? rest->data + used : rest->data, rest->len - used};
    return word;
}

bool redirection_read(slice_t text, const char *asked, redirection_t *redirection) {
    slice_t word = redirection_word(&text), slot = redirection_word(&text), address = redirection_word(&text);
    int64_t number;
    redirection_t read;
    if (!slice_is(word, "MOVED")) return false;
    if (!slice_integer(slot, &number) || number < 0 || number >= SLOT_COUNT) return false;
    bool unknown = address.len > 1 && memcmp(address.data, "?:", 2) == 0;
    if (!address_parse_announced(address, &read.address)) return false;
    if (unknown)
        read.address.host[0] = '\0';
    else if (!*read.address.host)
        snprintf(read.address.host, sizeof read.address.host, "%s", asked);
    read.slot = (unsigned)number;
    *redirection = read;
    return true;
}
