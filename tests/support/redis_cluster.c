#include "redis_cluster.h"

#include "suite.h"
#include "wait.h"

enum { AGREE_MS = 30000 };

static server_t *start_node(void) {
    static const char *const args[] = {"--cluster-node-timeout",
                                       "500",
                                       "--cluster-replica-validity-factor",
                                       "0",
                                       "--repl-diskless-sync-delay",
                                       "0",
                                       "--repl-diskless-sync",
                                       "yes",
                                       "--cluster-allow-replica-migration",
                                       "no",
                                       NULL};
    return server_start(&(server_options_t){.node = true, .args = args});
}

static bool living(const nodes_t *nodes, size_t node) { return nodes->servers[node] && !nodes->down[node]; }

static char *node_id(const nodes_t *nodes, size_t node) {
    scoped(redis_drop) redis_t *r = redis_open(nodes->servers[node]);
    return redis_str(r, "CLUSTER MYID");
}

/* The port of the primary of a slot, as one node believes; 0 = nobody. */
static long long port_of(redis_t *r, unsigned slot) {
    redisReply *map = redis_do(r, "CLUSTER SLOTS");
    long long port = 0;
    for (size_t i = 0; map->type == REDIS_REPLY_ARRAY && i < map->elements; i++) {
        redisReply **range = map->element[i]->element;
        if (range[0]->integer <= slot && slot <= range[1]->integer) port = range[2]->element[1]->integer;
    }
    return port;
}

/* Whether all living nodes name this port for the slot; 0 = any, but the same. */
static bool all_name(const nodes_t *nodes, unsigned slot, long long *port) {
    for (size_t i = 0; i < nodes->count; i++) {
        if (!living(nodes, i)) continue;
        redis_t *r = redis_open(nodes->servers[i]);
        long long named = port_of(r, slot);
        redis_close(r);
        if (!named || (*port && named != *port)) return false;
        *port = named;
    }
    return true;
}

static size_t index_of_port(const nodes_t *nodes, long long port) {
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->servers[i] && server_port(nodes->servers[i]) == port) return i;
    cr_assert_fail("no node has port %lld", port);
    abort();
}

static bool says(const nodes_t *nodes, size_t node, const char *command, const char *text) {
    scoped(redis_drop) redis_t *r = redis_open(nodes->servers[node]);
    char *answer = redis_str(r, command);
    return strstr(answer, text) != NULL;
}

static bool all_good(const nodes_t *nodes) {
    for (size_t i = 0; i < nodes->count; i++)
        if (living(nodes, i) && !says(nodes, i, "CLUSTER INFO", "cluster_state:ok")) return false;
    return true;
}

static bool in_sync(const nodes_t *nodes, size_t node) { return says(nodes, node, "INFO replication", "master_link_status:up"); }

/* Whether the node knows as many nodes as there are. */
static bool knows(const nodes_t *nodes, size_t node, size_t count) {
    char text[64];
    snprintf(text, sizeof(text), "cluster_known_nodes:%zu\r", count);
    return says(nodes, node, "CLUSTER INFO", text);
}

static bool all_know(const nodes_t *nodes, size_t count) {
    for (size_t i = 0; i < nodes->count; i++)
        if (living(nodes, i) && !knows(nodes, i, count)) return false;
    return true;
}

static void meet(const nodes_t *nodes, size_t node) {
    scoped(redis_drop) redis_t *r = redis_open(nodes->servers[0]);
    redis_ok(r, "CLUSTER MEET 127.0.0.1 %d %d", server_port(nodes->servers[node]), server_bus_port(nodes->servers[node]));
}

static void replicate(const nodes_t *nodes, size_t node, size_t primary) {
    char *id = node_id(nodes, primary);
    scoped(redis_drop) redis_t *r = redis_open(nodes->servers[node]);
    redis_ok(r, "CLUSTER REPLICATE %s", id);
}

nodes_t nodes_start(size_t primaries, size_t replicas) {
    nodes_t nodes = {.count = primaries * (1 + replicas)};
    cr_assert_leq(nodes.count, NODES_MAX);
    for (size_t i = 0; i < nodes.count; i++) nodes.servers[i] = start_node();
    for (size_t i = 0; i < primaries; i++) {
        scoped(redis_drop) redis_t *r = redis_open(nodes.servers[i]);
        redis_ok(r, "CLUSTER ADDSLOTSRANGE %d %d", (int)(i * SLOTS / primaries), (int)((i + 1) * SLOTS / primaries - 1));
        redis_ok(r, "CLUSTER SET-CONFIG-EPOCH %d", (int)i + 1);
    }
    for (size_t i = 1; i < nodes.count; i++) meet(&nodes, i);
    cr_assert(wait_for(all_know(&nodes, nodes.count), AGREE_MS), "the nodes do not meet");
    for (size_t i = primaries; i < nodes.count; i++) replicate(&nodes, i, i % primaries);
    cr_assert(wait_for(all_good(&nodes), AGREE_MS), "the Cluster is not ok");
    for (size_t i = primaries; i < nodes.count; i++)
        cr_assert(wait_for(in_sync(&nodes, i), AGREE_MS), "replica %zu is not in sync", i);
    for (size_t i = 0; i < primaries; i++) {
        long long port = 0;
        cr_assert(wait_for((port = 0, all_name(&nodes, (unsigned)(i * SLOTS / primaries), &port)), AGREE_MS));
    }
    return nodes;
}

void nodes_free(nodes_t *nodes) {
    for (size_t i = 0; i < nodes->count; i++) server_free(nodes->servers[i]);
}

unsigned nodes_slot(nodes_t *nodes, const char *key) {
    size_t node = 0;
    while (!living(nodes, node)) node++;
    scoped(redis_drop) redis_t *r = redis_open(nodes->servers[node]);
    return (unsigned)redis_int(r, "CLUSTER KEYSLOT %s", key);
}

size_t nodes_owner(nodes_t *nodes, unsigned slot) {
    long long port = 0;
    cr_assert(wait_for((port = 0, all_name(nodes, slot, &port)), AGREE_MS), "the nodes do not agree on slot %u", slot);
    return index_of_port(nodes, port);
}

redis_t *nodes_open(nodes_t *nodes, const char *key) {
    return redis_open(nodes->servers[nodes_owner(nodes, nodes_slot(nodes, key))]);
}

const char *nodes_address(const nodes_t *nodes, size_t node) {
    static char text[32];
    snprintf(text, sizeof(text), "127.0.0.1:%d", server_port(nodes->servers[node]));
    return text;
}

void nodes_do(const nodes_t *nodes, const char *command) {
    for (size_t i = 0; i < nodes->count; i++) {
        if (!living(nodes, i)) continue;
        scoped(redis_drop) redis_t *r = redis_open(nodes->servers[i]);
        redis_ok(r, command);
    }
}

char *nodes_seeds(const nodes_t *nodes) {
    char *text = NULL;
    size_t size = 0, written = 0;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->servers[i]) fprintf(out, "%s\"%s\"", written++ ? ", " : "", nodes_address(nodes, i));
    fclose(out);
    return kept(text);
}

/* Waits until all living nodes name another primary than `old` for the slot. */
static void await_other_primary(nodes_t *nodes, unsigned slot, size_t old) {
    long long port = 0, was = server_port(nodes->servers[old]);
    cr_assert(wait_for((port = 0, all_name(nodes, slot, &port) && port != was), AGREE_MS), "no other primary of slot %u", slot);
    cr_assert(wait_for(all_good(nodes), AGREE_MS), "the Cluster is not ok");
}

/* A living replica of the node. */
static size_t replica_of(const nodes_t *nodes, size_t primary) {
    char text[64];
    snprintf(text, sizeof(text), "master_port:%d\r", server_port(nodes->servers[primary]));
    for (size_t i = 0; i < nodes->count; i++)
        if (living(nodes, i) && says(nodes, i, "INFO replication", text)) return i;
    cr_assert_fail("node %zu has no replica", primary);
    abort();
}

void nodes_fail_over(nodes_t *nodes, unsigned slot) {
    size_t old = nodes_owner(nodes, slot), next = replica_of(nodes, old);
    cr_assert(wait_for(in_sync(nodes, next), AGREE_MS));
    redis_t *r = redis_open(nodes->servers[next]);
    redis_ok(r, "CLUSTER FAILOVER");
    redis_close(r);
    await_other_primary(nodes, slot, old);
}

size_t nodes_kill_primary(nodes_t *nodes, unsigned slot) {
    size_t old = nodes_owner(nodes, slot), next = replica_of(nodes, old);
    cr_assert(wait_for(in_sync(nodes, next), AGREE_MS));
    server_kill(nodes->servers[old]);
    nodes->down[old] = true;
    await_other_primary(nodes, slot, old);
    return old;
}

void nodes_revive(nodes_t *nodes, size_t node) {
    server_restart(nodes->servers[node], SERVER_KEEP_DATA);
    nodes->down[node] = false;
    cr_assert(wait_for(in_sync(nodes, node), AGREE_MS), "node %zu is no replica in sync", node);
    cr_assert(wait_for(all_good(nodes), AGREE_MS), "the Cluster is not ok");
}

/* Each node knows the old addresses of the others. CLUSTER MEET tells the new ones, as an operator does. */
void nodes_restart_elsewhere(nodes_t *nodes) {
    for (size_t i = 0; i < nodes->count; i++) {
        redis_t *r = redis_open(nodes->servers[i]);
        redis_ok(r, "SAVE");
        redis_close(r);
        server_kill(nodes->servers[i]);
    }
    for (size_t i = 0; i < nodes->count; i++) server_restart_elsewhere(nodes->servers[i]);
    for (size_t i = 1; i < nodes->count; i++) meet(nodes, i);
    cr_assert(wait_for(all_know(nodes, nodes->count), AGREE_MS), "the nodes do not meet again");
    cr_assert(wait_for(all_good(nodes), AGREE_MS), "the Cluster is not ok");
}

static void set_slot(const nodes_t *nodes, size_t node, unsigned slot, const char *state, size_t other) {
    char *id = node_id(nodes, other);
    scoped(redis_drop) redis_t *r = redis_open(nodes->servers[node]);
    redis_ok(r, "CLUSTER SETSLOT %u %s %s", slot, state, id);
}

void nodes_move_begin(nodes_t *nodes, unsigned slot, size_t to) {
    size_t from = nodes_owner(nodes, slot);
    set_slot(nodes, to, slot, "IMPORTING", from);
    set_slot(nodes, from, slot, "MIGRATING", to);
}

long long nodes_move_keys(nodes_t *nodes, unsigned slot, size_t to, int count) {
    scoped(redis_drop) redis_t *r = redis_open(nodes->servers[nodes_owner(nodes, slot)]);
    redisReply *keys = redis_do(r, "CLUSTER GETKEYSINSLOT %u %d", slot, count);
    for (size_t i = 0; i < keys->elements; i++)
        redis_ok(r, "MIGRATE 127.0.0.1 %d %b 0 5000", server_port(nodes->servers[to]), keys->element[i]->str,
                 keys->element[i]->len);
    return redis_int(r, "CLUSTER COUNTKEYSINSLOT %u", slot);
}

void nodes_move_finish(nodes_t *nodes, unsigned slot, size_t to) {
    size_t from = nodes_owner(nodes, slot);
    while (nodes_move_keys(nodes, slot, to, 100) > 0) {
    }
    set_slot(nodes, to, slot, "NODE", to);
    set_slot(nodes, from, slot, "NODE", to);
    for (size_t i = 0; i < nodes->count; i++) {
        char role[] = "role:master";
        if (i != to && i != from && living(nodes, i) && says(nodes, i, "INFO replication", role))
            set_slot(nodes, i, slot, "NODE", to);
    }
    await_other_primary(nodes, slot, from);
}

void nodes_move(nodes_t *nodes, unsigned slot, size_t to) {
    nodes_move_begin(nodes, slot, to);
    nodes_move_finish(nodes, slot, to);
}

size_t nodes_add(nodes_t *nodes) {
    size_t node = nodes->count, known = 1;
    cr_assert_lt(node, NODES_MAX);
    for (size_t i = 0; i < nodes->count; i++) known += nodes->servers[i] != NULL;
    nodes->servers[node] = start_node();
    nodes->count++;
    meet(nodes, node);
    cr_assert(wait_for(all_know(nodes, known), AGREE_MS), "the nodes do not meet");
    cr_assert(wait_for(all_good(nodes), AGREE_MS), "the Cluster is not ok");
    return node;
}

void nodes_remove(nodes_t *nodes, size_t node) {
    char *id = node_id(nodes, node);
    for (size_t i = 0; i < nodes->count; i++) {
        if (i == node || !living(nodes, i)) continue;
        scoped(redis_drop) redis_t *r = redis_open(nodes->servers[i]);
        redis_ok(r, "CLUSTER FORGET %s", id);
    }
    server_free(nodes->servers[node]);
    nodes->servers[node] = NULL;
}
