/* One proxied connection, for proxy.c. Callers hold the proxy's lock. */
#pragma once

#include "proxy.h"

#include <poll.h>
#include <pthread.h>
#include <stddef.h>

enum { MAX_RULES = 16 };

typedef struct {
    char *data;
    size_t length, room;
} bytes_t;

/* A request whose reply is still to come. */
typedef struct {
    int rule;     /* what becomes of the reply: a proxy_action_t, or -1 to pass it on */
    long replies; /* how many replies will come: for SUBSCRIBE one per channel */
    char *error;  /* for REFUSE and REPLACE, owned, with CRLF */
} pending_t;

typedef struct link {
    int client, server;  /* non-blocking sockets */
    bytes_t from_client; /* read, not yet a whole request */
    bytes_t to_server;   /* whole requests, not yet written */
    bytes_t from_server; /* read, not yet a whole reply, or held back */
    bytes_t to_client;   /* replies not yet written */
    pending_t *pending;  /* in the order of the requests */
    size_t asked, room;
    bool held;    /* a HOLD rule fired: no reply passes */
    bool dropped; /* a DROP rule fired: no more requests are read */
    bool closing; /* reads nothing more; closes when everything that was read is written */
    bool broken;  /* to be closed at the end of this round */
    struct link *next;
} session_t;

typedef struct {
    proxy_rule_t rule; /* its strings are owned */
    int matches;       /* matching requests so far */
} live_rule_t;

struct proxy {
    char *socket, *dir;
    int listener, wake[2]; /* wake: a pipe that interrupts the poll */
    pthread_t thread;
    pthread_mutex_t lock; /* guards all that follows */
    char *upstream;
    bool stopping, refuse_new;
    int stalled;           /* proxy_way_t bits */
    long cut_up, cut_down; /* bytes left to pass; -1: no cut */
    bool stall_at_cut;     /* at the cut, stall instead of closing the connection */
    live_rule_t rules[MAX_RULES];
    size_t rule_count;
    session_t *links;
    char **log; /* full text of every request */
    size_t log_count, log_room;
    long replies, fired;
    int64_t bytes_up, bytes_down;
    int accepted; /* connections so far */
};

/* Adds a connection for an accepted client; closes the client if the server cannot be reached. */
void proxy_link_open(proxy_t *proxy, int client);
/* Fills two entries for poll (client, server). */
void proxy_link_events(const proxy_t *proxy, const session_t *link, struct pollfd *out);
/* Reads, applies the rules, and writes what can be written now. */
void proxy_link_work(proxy_t *proxy, session_t *link, short client_events, short server_events);
void proxy_link_close(session_t *link);
