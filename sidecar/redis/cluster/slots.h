// The slot map of a Redis Cluster, and the redirections of its nodes. Pure.
#pragma once

#include "base/text/address.h"

struct redisReply;

enum { SLOT_COUNT = 16384, SLOT_NODES_MAX = 1000 };

typedef struct slot_map {
    address_t *nodes; // primaries that serve slots; owned
    size_t node_count;
    int64_t epoch;              // the Cluster's config epoch, as the node knew it; 0 = unknown
    uint16_t owner[SLOT_COUNT]; // index of the node + 1; 0 = no node serves the slot, or the address of its node is unknown
} slot_map_t;

// Reads the reply to CLUSTER SLOTS. `asked` is the host that sent the reply: a node may leave its own host out. False: the reply
// is malformed, and *map is empty. End *map with slot_map_free.
bool slot_map_read(const struct redisReply *reply, const char *asked, slot_map_t *map);
void slot_map_free(slot_map_t *map);

typedef struct redirection {
    unsigned slot;
    address_t address; // host "" = the server does not know it
} redirection_t;

// Reads the error reply "MOVED <slot> <host>:<port>" (the slot is there from now on) of the host `asked`. False: the text is
// another error.
bool redirection_read(slice_t text, const char *asked, redirection_t *redirection);
