// Finds out whether a port speaks TLS or plain Redis, after a connection of the other kind has failed: a plain Redis never
// answers a TLS handshake, and a TLS server closes a plain connection without a word.
#pragma once

#include <sys/socket.h>

#include "base/std.h"

#define PORT_IS_PLAIN "the server speaks plain Redis on this port: use its TLS port, or redis:// without redis.tls"
#define PORT_IS_TLS   "the server wants TLS on this port: use rediss:// or redis.tls, or its plain port"

// The first byte of a TLS record.
enum { TLS_FIRST_ALERT = 0x15, TLS_FIRST_HANDSHAKE = 0x16 };

typedef struct peer {
    struct sockaddr_storage address;
    socklen_t size; // 0 = unknown
} peer_t;

peer_t peer_of(int fd); // a connected socket

// Each call opens a connection and waits some 300 ms, or returns the answer of the same server within the last 10 s.
bool port_is_plain(const peer_t *peer);
bool port_is_tls(const peer_t *peer);
