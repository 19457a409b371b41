/* A real Redis Cluster: primaries and replicas on free ports. Failovers take about a second. A function that does not succeed
 * fails the test. */
#pragma once

#include "server.h"

#include <stddef.h>

enum { NODES_MAX = 12, SLOTS = 16384 };

typedef struct {
    server_t *servers[NODES_MAX]; /* NULL = removed */
    size_t count;
    bool down[NODES_MAX]; /* killed */
} nodes_t;

/* Starts `primaries` primaries with `replicas` replicas each, gives each primary an equal part of the slots, and waits until all
 * nodes agree and all replicas are in sync. */
nodes_t nodes_start(size_t primaries, size_t replicas);
void nodes_free(nodes_t *nodes);

unsigned nodes_slot(nodes_t *nodes, const char *key);
/* The index of the primary that serves the slot, as most living nodes believe. */
size_t nodes_owner(nodes_t *nodes, unsigned slot);
/* Opens a connection to the primary of a key. Owned by the caller. */
redis_t *nodes_open(nodes_t *nodes, const char *key);
/* Returns the text "host:port" of a node; valid until the next call. */
const char *nodes_address(const nodes_t *nodes, size_t node);
/* The seeds of all nodes, as a list of a config: "127.0.0.1:1", "127.0.0.1:2". */
char *nodes_seeds(const nodes_t *nodes);

/* Sends a command to each living node, which must answer OK. */
void nodes_do(const nodes_t *nodes, const char *command);

/* Makes a replica the primary of a slot, and waits until all living nodes know. By CLUSTER FAILOVER: */
void nodes_fail_over(nodes_t *nodes, unsigned slot);
/* By kill -9; returns the killed node. */
size_t nodes_kill_primary(nodes_t *nodes, unsigned slot);
/* Starts a killed node again, and waits until it is a replica in sync. */
void nodes_revive(nodes_t *nodes, size_t node);

/* Ends all nodes, then starts each with its data on other ports, and waits until all agree. No node may be down before. */
void nodes_restart_elsewhere(nodes_t *nodes);

/* Moves a slot to the primary `to`, in steps. Between the first and the last step requests for absent keys are redirected. */
void nodes_move_begin(nodes_t *nodes, unsigned slot, size_t to);
/* Moves at most `count` keys; returns how many keys the source has left. */
long long nodes_move_keys(nodes_t *nodes, unsigned slot, size_t to, int count);
void nodes_move_finish(nodes_t *nodes, unsigned slot, size_t to);
void nodes_move(nodes_t *nodes, unsigned slot, size_t to); /* all of that */

/* Adds an empty primary; returns its index. */
size_t nodes_add(nodes_t *nodes);
/* Removes a node that serves no slots. Later calls must not name it. */
void nodes_remove(nodes_t *nodes, size_t node);
