/* A unix-socket proxy between the sidecar and the server, in a thread of the test process, that knows where commands and replies
 * begin and end, and can make a network fail at an exact point. All functions may be called while it runs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct proxy proxy_t;

/* The treatment of a request that a rule matches. */
typedef enum {
    PROXY_REFUSE,  /* the server does not get it; the given error is the reply */
    PROXY_REPLACE, /* the server runs it; the given error is the reply */
    PROXY_LOSE,    /* the server runs it; instead of the reply the connection is closed */
    PROXY_DROP,    /* the server does not get it; the connection is closed when all earlier requests are answered */
    PROXY_HOLD,    /* the server runs it; its reply and all later ones on that connection wait for proxy_pass */
} proxy_action_t;

typedef struct {
    proxy_action_t action;
    const char *match; /* text that the request contains, as proxy_log shows it; NULL: every request */
    const char *error; /* for REFUSE and REPLACE, without CRLF: "-LOADING Redis is loading" */
    bool begins;       /* the request begins with `match` */
    int nth;           /* the rule acts on the nth match from now on; 0 and 1: the first */
    int times;         /* on how many matches in a row the rule acts; 0: one; -1: all until proxy_pass */
} proxy_rule_t;

typedef enum { PROXY_UP = 1, PROXY_DOWN = 2, PROXY_BOTH = 3 } proxy_way_t; /* up: to the server */

/* Listens on a socket of its own and passes everything to the server's socket. Owned by the caller: proxy_stop. */
proxy_t *proxy_start(const char *upstream_socket);
/* Closes everything and frees it; NULL is allowed. */
void proxy_stop(proxy_t *proxy);
const char *proxy_socket(const proxy_t *proxy);

/* Passes everything again: removes rules, stall and cut, accepts new connections, delivers the replies that were held. */
void proxy_pass(proxy_t *proxy);
/* Adds a rule; if several rules match, the one added first acts. */
void proxy_rule(proxy_t *proxy, proxy_rule_t rule);
/* Keeps connections open and accepts new ones, but delivers nothing more in that direction, not even the end of the stream. */
void proxy_stall(proxy_t *proxy, proxy_way_t way);
/* Passes that many bytes more in that direction, over all connections together, then closes the connection that has more to send,
 * even within a request or a reply. Acts once. */
void proxy_cut_after(proxy_t *proxy, proxy_way_t way, long bytes);
/* The same, but then stalls that direction instead of closing a connection. */
void proxy_stall_after(proxy_t *proxy, proxy_way_t way, long bytes);
/* Closes every connection now. */
void proxy_disconnect(proxy_t *proxy);
/* From now on connections lead to this server. Closes all that are open, as a failover does. */
void proxy_lead_to(proxy_t *proxy, const char *upstream_socket);
/* While true, new connections are closed at once; existing ones stay open. */
void proxy_refuse_new(proxy_t *proxy, bool refuse);

/* Requests seen so far that contain the text (NULL: all), refused and dropped ones included. */
long proxy_requests(proxy_t *proxy, const char *match);
/* Replies that were passed on; pushed messages are not counted. */
long proxy_replies(proxy_t *proxy);
/* The number of times that a rule, proxy_cut_after or proxy_stall_after has acted. */
long proxy_fired(proxy_t *proxy);
/* Bytes written in that direction (PROXY_UP or PROXY_DOWN). */
int64_t proxy_bytes(proxy_t *proxy, proxy_way_t way);
/* Connections open now, and all that were ever accepted. */
int proxy_connections(proxy_t *proxy);
int proxy_connections_total(proxy_t *proxy);
/* Returns one line per request: its arguments, separated by blanks; bytes outside of printable ASCII as \xNN. Owned by the
 * caller. */
char *proxy_log(proxy_t *proxy);
