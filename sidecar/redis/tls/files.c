#include "redis/tls/files.h"

#include "redis/socket/secret_file.h"

enum { MAX_FILE_KB = 8 << 10 }; // the CAs of a system have some 200 KB

static gnutls_datum_t tls_datum(const buffer_t *text) {
    return (gnutls_datum_t){.data = (unsigned char *)text->data, .size = (unsigned)text->len};
}

// Returns NULL, or the key of the config at fault, as the functions below.
static const char *tls_files_read_ca(const gnutls_t *gnutls, gnutls_certificate_credentials_t credentials,
                                     const redis_config_t *redis, redis_error_t *error) {
    if (redis->tls_verify == TLS_VERIFY_NONE) return NULL;
    if (!*redis->tls_ca_file) {
        int count = gnutls->certificate_set_x509_system_trust(credentials);
        if (count > 0) return NULL;
        redis_error_set(error, OUTCOME_REFUSED,
                        "this system has no CA certificates: set redis.tls_ca_file (or install the package "
                        "ca-certificates)");
        return "tls";
    }
    buffer_t text = {0};
    bool good = secret_file_read("redis.tls_ca_file", redis->tls_ca_file, SECRET_PATH_SHOWN, MAX_FILE_KB, &text, error);
    if (good) {
        gnutls_datum_t pem = tls_datum(&text);
        int count = gnutls->certificate_set_x509_trust_mem(credentials, &pem, GNUTLS_X509_FMT_PEM);
        good = count > 0;
        if (!good)
            redis_error_set(error, OUTCOME_REFUSED, "redis.tls_ca_file %s holds no certificate in PEM (%s)", redis->tls_ca_file,
                            count < 0 ? gnutls->strerror(count) : "none found");
    }
    secret_file_free(&text);
    return good ? NULL : "tls_ca_file";
}

static const char *tls_pair_refuse(const gnutls_t *gnutls, const redis_config_t *redis, const buffer_t *certificate,
                                   const buffer_t *key, int code, redis_error_t *error) {
    const char *cert_file = redis->tls_cert_file;
    const char *key_file = redis->tls_key_file;
    if (!strstr(buffer_text(certificate), "-----BEGIN CERTIFICATE")) {
        redis_error_set(error, OUTCOME_REFUSED, "redis.tls_cert_file %s holds no certificate in PEM", cert_file);
        return "tls_cert_file";
    }
    if (strstr(buffer_text(key), "ENCRYPTED"))
        redis_error_set(error, OUTCOME_REFUSED,
                        "redis.tls_key_file %s is encrypted, and no passphrase can be given: write it without one "
                        "(openssl pkey -in FILE -out NEW)",
                        key_file);
    else if (!strstr(buffer_text(key), "PRIVATE KEY-----"))
        redis_error_set(error, OUTCOME_REFUSED, "redis.tls_key_file %s holds no private key in PEM", key_file);
    else if (code == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
        redis_error_set(error, OUTCOME_REFUSED,
                        "redis.tls_key_file %s is not the key of the certificate in redis.tls_cert_file %s", key_file, cert_file);
    else
        redis_error_set(error, OUTCOME_REFUSED, "cannot use redis.tls_cert_file %s with redis.tls_key_file %s: %s", cert_file,
                        key_file, gnutls->strerror(code));
    return "tls_key_file";
}

static const char *tls_files_read_pair(const gnutls_t *gnutls, gnutls_certificate_credentials_t credentials,
                                       const redis_config_t *redis, redis_error_t *error) {
    if (!*redis->tls_cert_file) return NULL;
    buffer_t certificate = {0};
    buffer_t key = {0};
    const char *fault = NULL;
    if (!secret_file_read("redis.tls_cert_file", redis->tls_cert_file, SECRET_PATH_SHOWN, MAX_FILE_KB, &certificate, error)) {
        fault = "tls_cert_file";
    } else if (!secret_file_read("redis.tls_key_file", redis->tls_key_file, SECRET_PATH_GUARDED, MAX_FILE_KB, &key, error)) {
        fault = "tls_key_file";
    } else {
        gnutls_datum_t certificate_pem = tls_datum(&certificate);
        gnutls_datum_t key_pem = tls_datum(&key);
        int code = gnutls->certificate_set_x509_key_mem2(credentials, &certificate_pem, &key_pem, GNUTLS_X509_FMT_PEM, NULL, 0);
        if (code < 0) fault = tls_pair_refuse(gnutls, redis, &certificate, &key, code, error);
    }
    secret_file_free(&certificate);
    secret_file_free(&key);
    return fault;
}

// Sets *fault to the key of the config at fault, or leaves it.
static gnutls_certificate_credentials_t tls_files_load(const gnutls_t *gnutls, const redis_config_t *redis, const char **fault,
                                                       redis_error_t *error) {
    gnutls_certificate_credentials_t credentials;
    int code = gnutls->certificate_allocate_credentials(&credentials);
    if (code < 0) {
        redis_error_set(error, OUTCOME_REFUSED, "TLS: %s", gnutls->strerror(code));
        *fault = "tls";
        return NULL;
    }
    *fault = tls_files_read_ca(gnutls, credentials, redis, error);
    if (!*fault) *fault = tls_files_read_pair(gnutls, credentials, redis, error);
    if (!*fault) return credentials;
    gnutls->certificate_free_credentials(credentials);
    return NULL;
}

gnutls_certificate_credentials_t tls_files_read(const gnutls_t *gnutls, const redis_config_t *redis, redis_error_t *error) {
    const char *fault;
    return tls_files_load(gnutls, redis, &fault, error);
}

const char *tls_files_check(const redis_config_t *redis, redis_error_t *error) {
    *error = (redis_error_t){0};
    const char *fault = "tls";
    const gnutls_t *gnutls = gnutls_load(error);
    gnutls_certificate_credentials_t credentials = gnutls ? tls_files_load(gnutls, redis, &fault, error) : NULL;
    if (credentials) gnutls->certificate_free_credentials(credentials);
    return fault;
}
