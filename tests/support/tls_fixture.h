/* A redis-server with TLS, and connections of the product to it. */
#pragma once

#include "certificates.h"
#include "fixture.h"
#include "tempdir.h"

typedef struct {
    char *dir; /* of the certificates */
    server_t *server;
    redis_t *r;
} tls_fixture_t;

/* OpenSSL would refuse to show weak certificates. */
static const char TLS_WEAK_OPENSSL[] = "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nCipherString = "
                                       "DEFAULT:@SECLEVEL=0\n";

static inline tls_fixture_t tls_start(const char *const *args) {
    if (!server_has_tls()) cr_skip_test("this redis-server is built without TLS");
    tls_fixture_t f = {.dir = certificate_dir()};
    char *path = temp_file("openssl.cnf", TLS_WEAK_OPENSSL), *variable = kept_printf("OPENSSL_CONF=%s", path);
    const char *const env[] = {variable, NULL};
    f.server = server_start(&(server_options_t){.tls = f.dir, .tcp = true, .args = args, .env = env});
    f.r = redis_open(f.server);
    return f;
}

static inline void tls_stop(tls_fixture_t *f) {
    redis_close(f->r);
    server_free(f->server);
    *f = (tls_fixture_t){0};
}

/* One connection of the product with a config of its own. */
typedef struct {
    config_t *config;
    topology_t *topology;
    conn_t *conn;
    redis_error_t error;
} tls_client_t;

/* `redis` holds settings of redis = { }, beside host and port. Does not open the connection. */
static inline tls_client_t tls_client(const char *host, int port, const char *redis) {
    tls_client_t client = {0};
    client.config = fixture_config(
        "redis = { host = \"%s\"; port = %d; %s };\ngroup = \"app\"; queues = ( { name = \"email\"; } );\n", host, port, redis);
    client.topology = topology_new(&client.config->redis);
    client.conn = conn_new(topology_shard(client.topology, 0), "test", NULL);
    return client;
}

static inline void tls_client_free(tls_client_t *client) {
    conn_free(client->conn);
    topology_free(client->topology);
    config_free(client->config);
}

/* Connects once. `expected` NULL: it must succeed; otherwise it must fail with a text that contains this. */
static inline void tls_expect(const char *what, const char *host, int port, const char *redis, const char *expected) {
    scoped(tls_client_free) tls_client_t client = tls_client(host, port, redis);
    outcome_t outcome = conn_open(client.conn, &client.error);
    if (expected) {
        cr_expect_neq(outcome, OUTCOME_OK, "%s: connected", what);
        cr_expect(strstr(client.error.text, expected), "%s: \"%s\" is not in: %s", what, expected, client.error.text);
    } else {
        cr_expect_eq(outcome, OUTCOME_OK, "%s: %s", what, client.error.text);
    }
}
