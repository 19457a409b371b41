/* A unix-socket proxy between the sidecar and the server, in a thread of the test process, that knows where commands and replies
 * begin and end, and can make a network fail at an exact point. All functions may be called while it runs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct proxy proxy_t;

/* What happens to a request that a rule matches. */
typedef enum {
    PROXY_REFUSE,  /* the server never sees it; the given error is the reply */
    PROXY_REPLACE, /* the server runs it; the given error is the reply */
    PROXY_LOSE,    /* the server runs it; instead of the reply the connection is closed */
    PROXY_DROP,    /* the server never sees it; when those before it are answered the connection is closed */
    PROXY_HOLD,    /* the server runs it; its reply and all behind it on that connection wait for proxy_pass */
} proxy_action_t;

typedef struct {
    proxy_action_t action;
    const char *match; /* text that the request contains, as proxy_log shows it; NULL: every request */
    const char *error; /* for REFUSE and REPLACE, without CRLF: "-LOADING Redis is loading" */
    int nth;           /* fires at the nth match from now on; 0 and 1: the first */
    int times;         /* how many matches in a row it fires at; 0: once; -1: until proxy_pass */
} proxy_rule_t;

typedef enum { PROXY_UP = 1, PROXY_DOWN = 2, PROXY_BOTH = 3 } proxy_way_t; /* up: to the server */

/* Listens on a socket of its own and passes everything to that of the server. Owned by the caller: proxy_stop. */
proxy_t *proxy_start(const char *upstream_socket);
/* Closes everything and frees it; NULL is allowed. */
void proxy_stop(proxy_t *proxy);
const char *proxy_socket(const proxy_t *proxy);

/* Back to plain passing: no rules, no stall, no cut, new connections welcome; what was held back is delivered. */
void proxy_pass(proxy_t *proxy);
/* Adds a rule; of several that match the one added first acts. */
void proxy_rule(proxy_t *proxy, proxy_rule_t rule);
/* Keeps connections open and takes new ones, but delivers nothing more that way, not even that the other side
 * has closed its end. */
void proxy_stall(proxy_t *proxy, proxy_way_t way);
/* Passes that many bytes more that way, in all connections together, then closes the connection that wants more: within a request
 * or a reply, if it falls so. Once. */
void proxy_cut_after(proxy_t *proxy, proxy_way_t way, long bytes);
/* The same, but from there on it is proxy_stall that way. */
void proxy_stall_after(proxy_t *proxy, proxy_way_t way, long bytes);
/* Closes every connection now. */
void proxy_disconnect(proxy_t *proxy);
/* While true, new connections are closed at once; those that exist go on. */
void proxy_refuse_new(proxy_t *proxy, bool refuse);

/* Requests seen so far that contain the text (NULL: all), refused and dropped ones included. */
long proxy_requests(proxy_t *proxy, const char *match);
/* Replies that were passed on; pushed messages are not counted. */
long proxy_replies(proxy_t *proxy);
/* How often rules, cuts and stalls after some bytes have acted. */
long proxy_fired(proxy_t *proxy);
/* Bytes written that way (PROXY_UP or PROXY_DOWN). */
int64_t proxy_bytes(proxy_t *proxy, proxy_way_t way);
/* Connections open now, and ever taken. */
int proxy_connections(proxy_t *proxy);
int proxy_connections_total(proxy_t *proxy);
/* One line per request: its arguments with a blank between, other bytes than printable ASCII as \xNN. Owned by the caller. */
char *proxy_log(proxy_t *proxy);
