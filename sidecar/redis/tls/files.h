// The files of TLS: CA, client certificate and its key. They are read at each connect, so that renewed files need no restart.
#pragma once

#include "config/config.h"
#include "redis/tls/gnutls.h"

// Reads the files of `redis` into new credentials; owned. NULL: OUTCOME_REFUSED, and the error names the key and the file.
gnutls_certificate_credentials_t tls_files_read(const gnutls_t *gnutls, const redis_config_t *redis, redis_error_t *error);

// Reads the files as a connect does, and forgets them: they are readable, hold what they must, and the key fits the certificate.
// Returns NULL, or the key of the config at fault ("tls_ca_file") with the reason in *error.
const char *tls_files_check(const redis_config_t *redis, redis_error_t *error);
