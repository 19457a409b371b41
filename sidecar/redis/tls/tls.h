// TLS over a connected socket that does not block, by GnuTLS. One thread uses a session at a time.
#pragma once

#include "config/config.h"
#include "redis/error.h"

typedef struct tls tls_t;

// Result of a call: done, the event that it waits for, or a failure.
typedef enum tls_state {
    TLS_DONE,
    TLS_WANTS_READ,
    TLS_WANTS_WRITE,
    TLS_FAILED, // tls_failure tells why
} tls_state_t;

// Prepares a session on `fd` (borrowed). `name` is the name or address that the certificate must carry, unless
// redis.tls_server_name says another. Reads the certificate files. Returns owned. NULL: OUTCOME_REFUSED in *error.
tls_t *tls_new(const redis_config_t *redis, const char *name, int fd, redis_error_t *error);
void tls_free(tls_t *tls); // NULL is fine; does not close the socket

// Goes on with the handshake. It verifies the certificate before the first byte of ours is sent.
tls_state_t tls_handshake(tls_t *tls);

// Reads or writes some bytes; *count is set with TLS_DONE. *count == 0 of tls_receive: the peer has closed the connection.
// `size` must hold a whole record (TLS_RECORD_MAX), so that GnuTLS keeps no bytes that poll() cannot see.
tls_state_t tls_receive(tls_t *tls, void *bytes, size_t size, size_t *count);
tls_state_t tls_send(tls_t *tls, const void *bytes, size_t len, size_t *count);

enum { TLS_RECORD_MAX = 16 << 10 };

bool tls_heard(const tls_t *tls);         // the peer has sent something
bool tls_peer_is_plain(const tls_t *tls); // the peer has sent what is no TLS

// The reason of the failure, in words for people; borrowed until the next call.
const char *tls_failure(const tls_t *tls);

// NULL is a plain connection.
const char *tls_version(const tls_t *tls);     // "TLS 1.3"; after the handshake
int64_t tls_certificate_end(const tls_t *tls); // seconds since 1970 at which the first certificate of the chain ends; 0 = unknown
int64_t tls_client_end(const tls_t *tls);      // the same of the client's own certificate; 0 = it has none
int64_t tls_first_end(const tls_t *tls);       // the same, or the end of the client's own certificate if it is earlier
