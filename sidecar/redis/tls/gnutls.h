// GnuTLS, loaded only when a connection wants TLS: a process without TLS pays neither its memory nor its start.
#pragma once

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "redis/error.h"

// The functions in use, without the prefix gnutls_.
#define GNUTLS_FUNCTIONS(USE)                                                                                                    \
    USE(alert_get)                                                                                                               \
    USE(alert_get_name)                                                                                                          \
    USE(alert_send_appropriate)                                                                                                  \
    USE(certificate_allocate_credentials)                                                                                        \
    USE(certificate_client_get_request_status)                                                                                   \
    USE(certificate_free_credentials)                                                                                            \
    USE(certificate_get_crt_raw)                                                                                                 \
    USE(certificate_get_peers)                                                                                                   \
    USE(certificate_set_trust_list)                                                                                              \
    USE(certificate_set_x509_key_mem2)                                                                                           \
    USE(certificate_set_x509_system_trust)                                                                                       \
    USE(certificate_set_x509_trust_mem)                                                                                          \
    USE(credentials_set)                                                                                                         \
    USE(deinit)                                                                                                                  \
    USE(error_is_fatal)                                                                                                          \
    USE(handshake)                                                                                                               \
    USE(init)                                                                                                                    \
    USE(priority_set_direct)                                                                                                     \
    USE(protocol_get_version)                                                                                                    \
    USE(record_check_pending)                                                                                                    \
    USE(record_get_direction)                                                                                                    \
    USE(record_recv)                                                                                                             \
    USE(record_send)                                                                                                             \
    USE(server_name_set)                                                                                                         \
    USE(session_get_verify_cert_status)                                                                                          \
    USE(session_set_verify_cert2)                                                                                                \
    USE(strerror)                                                                                                                \
    USE(transport_set_ptr)                                                                                                       \
    USE(transport_set_pull_function)                                                                                             \
    USE(transport_set_vec_push_function)                                                                                         \
    USE(x509_crt_deinit)                                                                                                         \
    USE(x509_crt_get_activation_time)                                                                                            \
    USE(x509_crt_get_dn_by_oid)                                                                                                  \
    USE(x509_crt_get_expiration_time)                                                                                            \
    USE(x509_crt_get_issuer_dn)                                                                                                  \
    USE(x509_crt_get_subject_alt_name)                                                                                           \
    USE(x509_crt_import)                                                                                                         \
    USE(x509_crt_init)

typedef struct gnutls {
#define GNUTLS_MEMBER(name) __typeof__ (&gnutls_##name)(name);
    GNUTLS_FUNCTIONS(GNUTLS_MEMBER)
#undef GNUTLS_MEMBER
} gnutls_t;

// Loads the library at the first call. Returns its functions, borrowed for ever. NULL: OUTCOME_REFUSED in *error. Thread-safe.
const gnutls_t *gnutls_load(redis_error_t *error);
