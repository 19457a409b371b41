/* Every kind of certificate that a server may show, against a real redis-server. */
#include "tls_fixture.h"

enum issuer { BY_CA, BY_ITSELF, BY_OTHER_CA, BY_INTERMEDIATE, BY_INTERMEDIATE_NOT_SENT, BY_EXPIRED, BY_NO_CA, ISSUERS };

typedef struct {
    const char *what;
    certificate_spec_t spec;
    enum issuer issuer;
    const char *host;     /* to connect to; NULL: localhost */
    const char *settings; /* more settings of redis */
    bool own_ca_file;     /* tls_ca_file is the server's own certificate */
    const char *expected; /* part of the error; NULL: connects */
} row_t;

#define SERVER_NAME(name) .settings = "tls_server_name = \"" name "\";"
#define CA_ONLY           .settings = "tls_verify = \"ca\";"
#define NOTHING           .settings = "tls_verify = \"none\";"

static const row_t rows[] = {
    {.what = "name", .spec = {.names = "localhost"}},
    {.what = "name in other letters", .spec = {.names = "LocalHost"}},
    {.what = "absolute name", .spec = {.names = "a.redis.example"}, SERVER_NAME("a.redis.example.")},
    {.what = "second name", .spec = {.names = "redis.example localhost", .purpose = "server"}},
    {.what = "address", .spec = {.addresses = "127.0.0.1"}, .host = "127.0.0.1"},
    {.what = "common name without other names", .spec = {.common_name = "localhost"}},
    {.what = "RSA key", .spec = {.names = "localhost", .rsa_bits = 2048}},
    {.what = "wildcard", .spec = {.names = "*.redis.example"}, SERVER_NAME("a.redis.example")},
    {.what = "chain with an intermediate CA", .spec = {.names = "localhost"}, .issuer = BY_INTERMEDIATE},
    {.what = "self-signed and in the CA file", .spec = {.names = "localhost"}, .issuer = BY_ITSELF, .own_ca_file = true},
    {.what = "other name, CA alone checked", .spec = {.names = "other.example"}, CA_ONLY},
    {.what = "all wrong, nothing checked",
     .spec = {.names = "other.example", .from_s = -9 * DAY_S, .until_s = -DAY_S},
     .issuer = BY_OTHER_CA,
     NOTHING},
    {.what = "other name",
     .spec = {.names = "other.example"},
     .expected = "the certificate is for other.example, not for localhost: set host"},
    {.what = "names that fill a line",
     .spec = {.names = "a-name-of-a-cloud-that-is-long-enough-for-a-line.cache.example.com "
                       "b-name-of-a-cloud-that-is-long-enough-for-a-line.cache.example.com "
                       "c-name-of-a-cloud-that-is-long-enough-for-a-line.cache.example.com"},
     .expected = "cac..., not for localhost: set host or redis.tls_server_name to a name of the certificate"},
    {.what = "common name beside other names",
     .spec = {.common_name = "localhost", .names = "other.example"},
     .expected = "not for localhost"},
    {.what = "other address",
     .spec = {.addresses = "127.0.0.9"},
     .host = "127.0.0.1",
     .expected = "is for 127.0.0.9, not for 127.0.0.1"},
    {.what = "address as a name", .spec = {.names = "127.0.0.1"}, .host = "127.0.0.1", .expected = "not for 127.0.0.1"},
    {.what = "wildcard for two labels",
     .spec = {.names = "*.redis.example"},
     SERVER_NAME("a.b.redis.example"),
     .expected = "not for a.b.redis"},
    {.what = "no name at all", .spec = {.common_name = NULL}, .expected = "the certificate is for no name, not for localhost"},
    {.what = "expired",
     .spec = {.names = "localhost", .from_s = -9 * DAY_S, .until_s = -DAY_S},
     .expected = "the certificate expired at 20"},
    {.what = "not yet valid",
     .spec = {.names = "localhost", .from_s = DAY_S, .until_s = 9 * DAY_S},
     .expected = "is not valid before 20"},
    {.what = "unknown CA",
     .spec = {.names = "localhost"},
     .issuer = BY_OTHER_CA,
     .expected = "issuer, CN=other CA, is not in redis.tls_ca_file"},
    {.what = "unknown CA, CA alone checked",
     .spec = {.names = "localhost"},
     .issuer = BY_OTHER_CA,
     CA_ONLY,
     .expected = "CN=other CA, is not in"},
    {.what = "self-signed",
     .spec = {.names = "localhost", .common_name = "itself"},
     .issuer = BY_ITSELF,
     .expected = "issuer, CN=itself, is not in"},
    {.what = "intermediate CA not sent",
     .spec = {.names = "localhost"},
     .issuer = BY_INTERMEDIATE_NOT_SENT,
     .expected = "issuer, CN=intermediate, is not"},
    {.what = "expired intermediate CA",
     .spec = {.names = "localhost"},
     .issuer = BY_EXPIRED,
     .expected = "a CA certificate of the chain expired at 20"},
    {.what = "signed by no CA",
     .spec = {.names = "localhost"},
     .issuer = BY_NO_CA,
     .expected = "the signer of the certificate is no CA"},
    {.what = "for clients",
     .spec = {.names = "localhost", .purpose = "client"},
     .expected = "the certificate is not for servers"},
    {.what = "SHA-1", .spec = {.names = "localhost", .sha1 = true}, .expected = "insecure algorithm"},
    {.what = "short key",
     .spec = {.names = "localhost", .rsa_bits = 768},
     .expected = "insecure algorithm, or its key is too short"},
    {.what = "damaged signature",
     .spec = {.names = "localhost", .damaged_signature = true},
     .expected = "signature of the certificate is wrong"},
    {.what = "expired and for another name",
     .spec = {.names = "other.example", .from_s = -9 * DAY_S, .until_s = -DAY_S},
     .expected = "; the certificate is for other.example"},
};

/* The signers of the rows; BY_CA is in ca.crt. */
static void make_issuers(const char *dir, certificate_t *issuers[ISSUERS]) {
    issuers[BY_CA] = certificate_new(NULL, (certificate_spec_t){.common_name = "test CA", .ca = true});
    issuers[BY_OTHER_CA] = certificate_new(NULL, (certificate_spec_t){.common_name = "other CA", .ca = true});
    const certificate_t *ca = issuers[BY_CA];
    issuers[BY_INTERMEDIATE] = certificate_new(ca, (certificate_spec_t){.common_name = "intermediate", .ca = true});
    issuers[BY_INTERMEDIATE_NOT_SENT] = certificate_new(ca, (certificate_spec_t){.common_name = "intermediate", .ca = true});
    issuers[BY_EXPIRED] =
        certificate_new(ca, (certificate_spec_t){.common_name = "expired", .ca = true, .from_s = -9 * DAY_S, .until_s = -DAY_S});
    issuers[BY_NO_CA] = certificate_new(ca, (certificate_spec_t){.common_name = "no CA", .names = "no-ca.example"});
    certificate_write(ca, NULL, dir, "ca");
}

static void show(const tls_fixture_t *f, const row_t *row, certificate_t *const issuers[ISSUERS]) {
    certificate_t *server = certificate_new(issuers[row->issuer], row->spec);
    bool chain = row->issuer == BY_INTERMEDIATE || row->issuer == BY_EXPIRED || row->issuer == BY_NO_CA;
    certificate_write(server, (const certificate_t *const[]){chain ? issuers[row->issuer] : NULL, NULL}, f->dir, "server");
    certificate_free(server);
    redis_ok(f->r, "CONFIG SET tls-cert-file %s/server.crt tls-key-file %s/server.key", f->dir, f->dir);
}

Test(redis_tls_certificates, each_certificate_is_accepted_or_refused_with_its_reason) {
    scoped(tls_stop) tls_fixture_t f = tls_start(NULL);
    certificate_t *issuers[ISSUERS] = {0};
    make_issuers(f.dir, issuers);
    cr_assert_geq(sizeof rows / sizeof *rows, 24);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row_t *row = &rows[i];
        show(&f, row, issuers);
        char *settings = kept_printf("tls = true; tls_ca_file = \"%s/%s.crt\"; %s", f.dir, row->own_ca_file ? "server" : "ca",
                                     row->settings ? row->settings : "");
        tls_expect(row->what, row->host ? row->host : "localhost", server_tls_port(f.server), settings, row->expected);
    }
    for (size_t i = 0; i < ISSUERS; i++) certificate_free(issuers[i]);
}
