/* Certificate files that cannot work: `check` and `run` refuse them before they connect, with file, line and key. */
#include <gnutls/x509.h>

#include "base/buffer.h"
#include "certificates.h"
#include "daemon.h"
#include "suite.h"
#include "tempdir.h"

TestSuite(daemon_tls_files);

/* Writes a key that a passphrase protects. */
static void write_encrypted(const char *path) {
    gnutls_x509_privkey_t key;
    gnutls_datum_t pem;
    char text[8192];
    size_t size = sizeof text;
    cr_assert_eq(gnutls_x509_privkey_init(&key), 0);
    cr_assert_eq(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0), 0);
    cr_assert_eq(gnutls_x509_privkey_export_pkcs8(key, GNUTLS_X509_FMT_PEM, "secret", GNUTLS_PKCS_PBES2_AES_256, text, &size), 0);
    pem = (gnutls_datum_t){(unsigned char *)text, (unsigned)size};
    cr_assert_neq(gnutls_x509_privkey_import(key, &pem, GNUTLS_X509_FMT_PEM), 0, "the key is not encrypted");
    gnutls_x509_privkey_deinit(key);
    char *whole = kept_printf("%.*s", (int)size, text);
    temp_write(path, whole);
}

typedef struct {
    const char *ca, *cert, *key; /* names in the directory; NULL = not set */
    int line;                    /* where the fault is; 0 = there is none */
    const char *words;
} row_t;

static char *config_of(const char *dir, const row_t *row, const char *more) {
    buffer_t text = {0};
    buffer_str(&text, "redis = { port = 1; tls = true;\n");
    buffer_printf(&text, row->ca ? "tls_ca_file = \"%s/%s\";\n" : "\n", dir, row->ca);
    buffer_printf(&text, row->cert ? "tls_cert_file = \"%s/%s\";\n" : "\n", dir, row->cert);
    buffer_printf(&text, row->key ? "tls_key_file = \"%s/%s\";\n" : "\n", dir, row->key);
    buffer_printf(&text, "}; http = { port = 0; };\n%s queues = ( { name = \"q\"; } );\n", more);
    return kept(text.data);
}

Test(daemon_tls_files, check_names_the_file_the_line_and_the_key) {
    static const row_t rows[] = {
        {.ca = "ca.crt"},
        {"ca.crt", "client.crt", "client.key", 0, NULL},
        {.ca = "none", .line = 2, .words = "cannot read redis.tls_ca_file "},
        {.ca = ".", .line = 2, .words = "cannot read redis.tls_ca_file "},
        {.ca = "empty", .line = 2, .words = " is empty"},
        {.ca = "text", .line = 2, .words = " holds no certificate in PEM"},
        {.ca = "client.key", .line = 2, .words = " holds no certificate in PEM"},
        {"ca.crt", "none", "client.key", 3, "cannot read redis.tls_cert_file "},
        {"ca.crt", "empty", "client.key", 3, " is empty"},
        {"ca.crt", "text", "client.key", 3, " holds no certificate in PEM"},
        {"ca.crt", "client.crt", "none", 4, "cannot read redis.tls_key_file "},
        {"ca.crt", "client.crt", "empty", 4, " is empty"},
        {"ca.crt", "client.crt", "text", 4, " holds no private key in PEM"},
        {"ca.crt", "client.crt", "encrypted", 4, " is encrypted, and no passphrase can be given: write it without one"},
        {"ca.crt", "client.crt", "server.key", 4, " is not the key of the certificate in redis.tls_cert_file "},
    };
    char *dir = certificate_dir(), *empty = temp_path(dir, "empty"), *text = temp_path(dir, "text");
    char *encrypted = temp_path(dir, "encrypted");
    temp_write(empty, "");
    temp_write(text, "no PEM\n");
    write_encrypted(encrypted);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *config = config_of(dir, &rows[i], ""), *path = temp_file("tls.cfg", config);
        const daemon_output_t *output = daemon_run("check", "-c", path);
        char *place = kept_printf("%s:%d: ", path, rows[i].line);
        cr_expect_eq(output->code, rows[i].line ? 78 : 0, "row %zu: %d: %s", i, output->code, output->err);
        if (rows[i].line) {
            cr_expect_eq(strncmp(output->err, place, strlen(place)), 0, "row %zu: %s", i, output->err);
            cr_expect_not_null(strstr(output->err, rows[i].words), "row %zu: %s", i, output->err);
        }
    }
}

Test(daemon_tls_files, run_refuses_what_check_refuses) {
    char *dir = certificate_dir();
    char *config = config_of(dir, &(row_t){"ca.crt", "client.crt", "server.key", 0, NULL}, "");
    char *path = temp_file("tls.cfg", config);
    const daemon_output_t *output = daemon_run("run", "-c", path);
    cr_expect_eq(output->code, 78);
    cr_expect_not_null(strstr(output->err, "tls.cfg:4: redis.tls_key_file "), "%s", output->err);
}

Test(daemon_tls_files, a_variable_is_named_in_place_of_the_file) {
    char *dir = certificate_dir(), *config = config_of(dir, &(row_t){.ca = "ca.crt"}, ""), *path = temp_file("tls.cfg", config);
    setenv("QUEUE_SIDECAR_REDIS_TLS_CA_FILE", "/no/such/file", 1);
    const daemon_output_t *output = daemon_run("check", "-c", path);
    cr_expect_eq(output->code, 78);
    cr_expect_str_eq(output->err, "QUEUE_SIDECAR_REDIS_TLS_CA_FILE: cannot read redis.tls_ca_file /no/such/file: No such file or "
                                  "directory\n");
    unsetenv("QUEUE_SIDECAR_REDIS_TLS_CA_FILE");
}

Test(daemon_tls_files, a_key_in_the_place_of_its_file_is_not_shown) {
    char *dir = certificate_dir();
    char *text =
        mem_printf("redis = { tls = true; tls_ca_file = \"%s/ca.crt\"; tls_cert_file = \"%s/client.crt\"; tls_key_file = "
                   "\"s3cret\"; };\nqueues = ( { name = \"q\"; } );\n",
                   dir, dir);
    char *path = temp_file("tls.cfg", text);
    const daemon_output_t *output = daemon_run("check", "-c", path);
    cr_expect_eq(output->code, 78);
    cr_expect_null(strstr(output->err, "s3cret"), "%s", output->err);
    cr_expect_null(strstr(output->out, "s3cret"));
    free(text);
}

Test(daemon_tls_files, a_relative_path_is_shown) {
    char *path =
        temp_file("tls.cfg", "redis = { tls = true; tls_ca_file = \"no-such-dir/ca.crt\"; };\nqueues = ( { name = \"q\"; } );\n");
    const daemon_output_t *output = daemon_run("check", "-c", path);
    cr_expect_eq(output->code, 78);
    cr_expect_not_null(strstr(output->err, "cannot read redis.tls_ca_file no-such-dir/ca.crt: No such file"), "%s", output->err);
    free(path);
}
