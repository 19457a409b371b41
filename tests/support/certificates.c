#include "certificates.h"

#include "tempdir.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct certificate {
    gnutls_x509_crt_t crt;
    gnutls_x509_privkey_t key;
    bool damaged;
};

#define GOOD(call) cr_assert_geq((call), 0, "%s", #call)

static void add_names(gnutls_x509_crt_t crt, const char *names) {
    char *copy = strdup(names), *rest = NULL;
    for (char *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        GOOD(gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, name, (unsigned)strlen(name), GNUTLS_FSAN_APPEND));
    free(copy);
}

static void add_addresses(gnutls_x509_crt_t crt, const char *addresses) {
    char *copy = strdup(addresses), *rest = NULL;
    for (char *text = strtok_r(copy, " ", &rest); text; text = strtok_r(NULL, " ", &rest)) {
        unsigned char bytes[16];
        bool v4 = inet_pton(AF_INET, text, bytes) == 1;
        cr_assert(v4 || inet_pton(AF_INET6, text, bytes) == 1);
        GOOD(gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, bytes, v4 ? 4 : 16, GNUTLS_FSAN_APPEND));
    }
    free(copy);
}

static void add_usage(gnutls_x509_crt_t crt, const certificate_spec_t *spec) {
    GOOD(gnutls_x509_crt_set_basic_constraints(crt, spec->ca, spec->ca ? 3 : -1));
    unsigned usage = spec->ca ? GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN
                              : GNUTLS_KEY_DIGITAL_SIGNATURE | (spec->rsa_bits ? GNUTLS_KEY_KEY_ENCIPHERMENT : 0);
    GOOD(gnutls_x509_crt_set_key_usage(crt, usage));
    if (!spec->purpose) return;
    bool server = strcmp(spec->purpose, "server") == 0;
    GOOD(gnutls_x509_crt_set_key_purpose_oid(crt, server ? GNUTLS_KP_TLS_WWW_SERVER : GNUTLS_KP_TLS_WWW_CLIENT, 0));
}

certificate_t *certificate_new(const certificate_t *issuer, certificate_spec_t spec) {
    static unsigned char serial[4] = {1};
    certificate_t *made = calloc(1, sizeof(*made));
    if (!made) abort();
    made->damaged = spec.damaged_signature;
    GOOD(gnutls_x509_privkey_init(&made->key));
    if (spec.rsa_bits) {
        GOOD(gnutls_x509_privkey_generate(made->key, GNUTLS_PK_RSA, (unsigned)spec.rsa_bits, 0));
    } else {
        GOOD(gnutls_x509_privkey_generate(made->key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    }
    GOOD(gnutls_x509_crt_init(&made->crt));
    GOOD(gnutls_x509_crt_set_version(made->crt, 3));
    serial[3]++;
    GOOD(gnutls_x509_crt_set_serial(made->crt, serial, sizeof(serial)));
    const char *name = spec.common_name;
    if (name) GOOD(gnutls_x509_crt_set_dn_by_oid(made->crt, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned)strlen(name)));
    if (spec.names) add_names(made->crt, spec.names);
    if (spec.addresses) add_addresses(made->crt, spec.addresses);
    add_usage(made->crt, &spec);
    time_t now = time(NULL);
    bool usual = spec.from_s == 0 && spec.until_s == 0;
    GOOD(gnutls_x509_crt_set_activation_time(made->crt, now + (usual ? -DAY_S : spec.from_s)));
    GOOD(gnutls_x509_crt_set_expiration_time(made->crt, now + (usual ? 30 * DAY_S : spec.until_s)));
    GOOD(gnutls_x509_crt_set_key(made->crt, made->key));
    const certificate_t *signer = issuer ? issuer : made;
    GOOD(gnutls_x509_crt_sign2(made->crt, signer->crt, signer->key, spec.sha1 ? GNUTLS_DIG_SHA1 : GNUTLS_DIG_SHA256, 0));
    return made;
}

void certificate_free(certificate_t *certificate) {
    if (!certificate) return;
    gnutls_x509_crt_deinit(certificate->crt);
    gnutls_x509_privkey_deinit(certificate->key);
    free(certificate);
}

static void print_pem(const certificate_t *certificate, FILE *out) {
    gnutls_datum_t der, pem;
    GOOD(gnutls_x509_crt_export2(certificate->crt, GNUTLS_X509_FMT_DER, &der));
    if (certificate->damaged) der.data[der.size - 1] ^= 1;
    GOOD(gnutls_pem_base64_encode2("CERTIFICATE", &der, &pem));
    fwrite(pem.data, 1, pem.size, out);
    gnutls_free(der.data);
    gnutls_free(pem.data);
}

static FILE *open_new(const char *dir, const char *name, const char *end, char **path, char **fresh) {
    if (asprintf(path, "%s/%s.%s", dir, name, end) < 0 || asprintf(fresh, "%s/%s.%s.new", dir, name, end) < 0) abort();
    FILE *file = fopen(*fresh, "w");
    cr_assert_not_null(file);
    return file;
}

static void close_new(FILE *file, char *path, char *fresh) {
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(rename(fresh, path), 0);
    free(path);
    free(fresh);
}

void certificate_write(const certificate_t *certificate, const certificate_t *const *chain, const char *dir, const char *name) {
    char *path, *fresh;
    gnutls_datum_t pem;
    FILE *file = open_new(dir, name, "key", &path, &fresh);
    GOOD(gnutls_x509_privkey_export2(certificate->key, GNUTLS_X509_FMT_PEM, &pem));
    fwrite(pem.data, 1, pem.size, file);
    gnutls_free(pem.data);
    close_new(file, path, fresh);
    file = open_new(dir, name, "crt", &path, &fresh);
    print_pem(certificate, file);
    for (size_t i = 0; chain && chain[i]; i++) print_pem(chain[i], file);
    close_new(file, path, fresh);
}

char *certificate_dir(void) {
    char *dir = temp_dir("certificates");
    certificate_t *issuer = certificate_new(NULL, (certificate_spec_t){.common_name = "test CA", .ca = true});
    certificate_t *server =
        certificate_new(issuer, (certificate_spec_t){.names = "localhost", .addresses = "127.0.0.1 ::1", .purpose = "server"});
    certificate_t *client = certificate_new(issuer, (certificate_spec_t){.common_name = "sidecar", .purpose = "client"});
    certificate_write(issuer, NULL, dir, "ca");
    certificate_write(server, NULL, dir, "server");
    certificate_write(client, NULL, dir, "client");
    certificate_free(issuer);
    certificate_free(server);
    certificate_free(client);
    return dir;
}

const char *certificate_shared_dir(void) {
    static char *dir; /* reachable until the exit, so that the leak checker does not report it */
    if (!dir) dir = certificate_dir();
    return dir;
}
