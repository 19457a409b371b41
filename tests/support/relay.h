/* A relay of bytes between the product and a server, in threads of the test process. It does not know what the bytes mean. It
 * listens on a TCP port of 127.0.0.1; with certificates it speaks TLS there, and passes the plain bytes on. */
#pragma once

#include <stdbool.h>

typedef struct relay relay_t;

typedef struct {
    const char *socket; /* of the server; NULL: `port` of 127.0.0.1 */
    int port;
    const char *tls; /* a directory with server.crt and server.key; NULL: pass the bytes as they are */
} relay_options_t;

relay_t *relay_start(const relay_options_t *options); /* owned by the caller: relay_stop */
void relay_stop(relay_t *relay);                      /* closes everything; NULL is allowed */
int relay_port(const relay_t *relay);

/* Each connection from now on ends after the server has sent that many bytes. -1: never. */
void relay_cut_after(relay_t *relay, long bytes);
/* Bytes of the server that the last connection has passed. */
long relay_passed(relay_t *relay);

/* A relay with TLS renews the keys of the next connection that passes bytes up, once, and wants the same of the product. */
void relay_renew_keys(relay_t *relay);
int relay_renewals(relay_t *relay); /* how often it has */
