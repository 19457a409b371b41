// The reason why a TLS session failed, in words for people, and facts about certificates.
#pragma once

#include "config/config.h"
#include "redis/tls/gnutls.h"

typedef struct tls_failure {
    const gnutls_t *gnutls;
    const redis_config_t *redis;
    gnutls_session_t session;
    const char *name; // that the certificate should carry
    int code;         // of GnuTLS
    int system_error; // errno of the last call of the socket; 0 = it did not fail
    bool used;        // bytes have come over the session, so the server has accepted it
} tls_failure_t;

// Writes one line: what is wrong, and what to do.
void tls_failure_text(const tls_failure_t *failure, char *text, size_t size);

// Seconds since 1970 at which the first certificate of the server's chain ends; 0 = unknown.
int64_t tls_chain_end(const gnutls_t *gnutls, gnutls_session_t session);
// The same of the client's own certificates; 0 = it has none.
int64_t tls_own_end(const gnutls_t *gnutls, gnutls_certificate_credentials_t credentials);
// The earlier of two such times, of which 0 is none.
int64_t tls_earlier(int64_t a, int64_t b);
