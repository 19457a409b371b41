/* Three real sentinels with three real servers: one primary and two replicas. A function that does not succeed fails the test.
 *
 * All listen on 127.0.0.1. A server has no `replicaof` of its own and keeps an append-only file: after a kill it comes back with
 * its data and calls itself a primary, until the sentinels turn it into a replica some 10 s later. */
#pragma once

#include "child.h"
#include "server.h"

#include <stdbool.h>

/* SENTINELS_SWITCH_MS: how long a test waits for the choice of the sentinels, which is not ours. On a loaded machine they find no
 * good replica, or elect no leader; they try again after twice their failover-timeout of 3 s. */
enum { SENTINELS = 3, SENTINEL_SERVERS = 3, SENTINELS_SWITCH_MS = 60000 };
#define SENTINEL_MASTER "main" /* the name under which the sentinels monitor the primary */

typedef struct sentinel {
    child_t *child;
    char *dir, *socket, *conf;
    int port;
} sentinel_t;

typedef struct sentinels {
    server_t *servers[SENTINEL_SERVERS];
    sentinel_t sentinels[SENTINELS];
    char *password; /* of the sentinels; NULL = none */
    int silent_port;
    char *tls; /* a directory of certificates: servers and sentinels speak TLS with each other and with clients; NULL = no */
} sentinels_t;

typedef struct {
    const char *const *args; /* more arguments for each server, NULL-terminated; NULL: none */
    const char *conf;        /* more lines for the configuration of each sentinel; NULL: none */
    const char *preload;     /* a shim for the servers; NULL: none */
    const char *password;    /* that each sentinel demands of its clients; NULL: none */
    bool tls;                /* TLS everywhere but on the unix sockets of the harness */
    int silent_port;         /* of one more sentinel in sentinels_settings; 0: none */
    bool hostnames;          /* the sentinels know and tell host names instead of addresses */
} sentinels_options_t;

/* Starts all; options may be NULL. Waits until each sentinel knows two replicas and two other sentinels. The process owns it: end
 * it by sentinels_end. */
sentinels_t *sentinels_begin(const sentinels_options_t *options);
void sentinels_end(sentinels_t *s);

/* The port at which the sentinels monitor a server. */
int sentinels_port(const sentinels_t *s, int server);
/* Returns settings for `redis = { }` with all sentinels and the name of the primary. */
char *sentinels_settings(const sentinels_t *s);

/* Returns the number of the server that the sentinel with the highest config epoch names; -1: none. *epoch may be NULL. */
int sentinels_primary(sentinels_t *s, long long *epoch);
/* Waits until a sentinel names another server than `old`; returns its number. */
int sentinels_await_switch(sentinels_t *s, int old);
/* Waits until all running sentinels name the same server and see two replicas that follow it, so that the next failover can
 * begin. */
bool sentinels_are_settled(sentinels_t *s);
void sentinels_await_settled(sentinels_t *s);
/* Prints what each sentinel says, and its log. */
void sentinels_print(sentinels_t *s);
/* SENTINEL FAILOVER on one sentinel; tries again while there is no good replica. */
void sentinels_failover(sentinels_t *s);
/* Turns a returned primary into a replica now, as the sentinels would 10 s later; nothing if they call it primary again. */
void sentinels_demote(sentinels_t *s, int server);

/* A connection to a sentinel; owned by the caller. */
redis_t *sentinel_open(sentinels_t *s, int number);
void sentinel_kill(sentinels_t *s, int number);
void sentinel_restart(sentinels_t *s, int number);
/* Makes a sentinel forget all, and monitor the server at this port under the same name, with this config epoch. The other
 * sentinels hear nothing from it. */
void sentinel_lie(sentinels_t *s, int number, int port, int epoch);
/* Makes a sentinel forget all, and monitor the primary that the other sentinels name. */
void sentinel_forget(sentinels_t *s, int number);
void sentinel_freeze(sentinels_t *s, int number);
void sentinel_thaw(sentinels_t *s, int number);
