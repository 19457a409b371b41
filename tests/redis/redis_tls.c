/* Connections with TLS: ports of the wrong kind, client certificates, versions, addresses, and streams that are cut. */
#include "relay.h"
#include "tls_fixture.h"
#include "wait.h"

#include <dlfcn.h>
#include <limits.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>

static tls_fixture_t f;

static char *trust(const char *more) { return kept_printf("tls = true; tls_ca_file = \"%s/ca.crt\"; %s", f.dir, more); }

static void expect(const char *host, int port, const char *more, const char *expected) {
    char *settings = trust(more);
    tls_expect(more, host, port, settings, expected);
}

SUITE(redis_tls, , tls_stop(&f));

Test(redis_tls, port_of_the_wrong_kind_is_named) {
    f = tls_start(NULL);
    for (int again = 0; again < 2; again++) {
        expect("localhost", server_port(f.server), "timeout = \"500ms\";", "the port speaks no TLS");
        tls_expect("plain to TLS", "localhost", server_tls_port(f.server), "", "perhaps the port wants TLS");
    }
    /* The text leaves it open: a plain server may end a connection, too. */
    relay_t *relay = relay_start(&(relay_options_t){.port = server_port(f.server)});
    relay_cut_after(relay, 0);
    tls_expect("plain, cut", "127.0.0.1", relay_port(relay), "", "connection lost: the server closed the connection");
    relay_stop(relay);
}

/* The server asks for a certificate and does without it, so its later death has another reason. */
Test(redis_tls, death_of_a_server_in_use_does_not_ask_for_a_client_certificate) {
    static const char *const versions[] = {"TLSv1.2", "TLSv1.3"};
    for (int i = 0; i < 2; i++) {
        f = tls_start((const char *const[]){"--tls-auth-clients", "optional", "--tls-protocols", versions[i], NULL});
        char *settings = trust("");
        tls_client_t client = tls_client("localhost", server_tls_port(f.server), settings);
        cr_assert_eq(conn_open(client.conn, &client.error), OUTCOME_OK, "%s", client.error.text);
        server_kill(f.server);
        request_begin(client.conn, "PING");
        cr_assert_eq(request_ask(client.conn, NULL, &client.error), OUTCOME_DISCONNECTED);
        cr_assert_null(strstr(client.error.text, "certificate"), "%s", client.error.text);
        cr_assert_not_null(strstr(client.error.text, "the server closed the connection"), "%s", client.error.text);
        tls_client_free(&client);
        tls_stop(&f);
    }
}

Test(redis_tls, missing_client_certificate_is_named_in_both_versions) {
    f = tls_start((const char *const[]){"--tls-auth-clients", "yes", NULL});
    char *pair = kept_printf("tls_cert_file = \"%s/client.crt\"; tls_key_file = \"%s/client.key\";", f.dir, f.dir);
    certificate_t *other_ca = certificate_new(NULL, (certificate_spec_t){.common_name = "other CA", .ca = true});
    certificate_t *other = certificate_new(other_ca, (certificate_spec_t){.common_name = "other", .purpose = "client"});
    certificate_write(other, NULL, f.dir, "other");
    char *stranger = kept_printf("tls_cert_file = \"%s/other.crt\"; tls_key_file = \"%s/other.key\";", f.dir, f.dir);
    static const char *const versions[] = {"TLSv1.2", "TLSv1.3"};
    for (int i = 0; i < 2; i++) {
        redis_ok(f.r, "CONFIG SET tls-protocols %s", versions[i]);
        for (int again = 0; again < 10; again++)
            expect("localhost", server_tls_port(f.server), "", "the server wants a client certificate: set redis.tls_cert_file");
        expect("localhost", server_tls_port(f.server), pair, NULL);
        expect("localhost", server_tls_port(f.server), stranger, "the server refuses the client certificate");
    }
    certificate_free(other);
    certificate_free(other_ca);
}

Test(redis_tls, version_and_end_of_the_certificate_are_known) {
    f = tls_start(NULL);
    static const char *const versions[] = {"TLSv1.2", "TLSv1.3"};
    char *settings = trust("");
    for (int i = 0; i < 2; i++) {
        redis_ok(f.r, "CONFIG SET tls-protocols %s", versions[i]);
        scoped(tls_client_free) tls_client_t client = tls_client("localhost", server_tls_port(f.server), settings);
        cr_assert_str_eq(conn_tls_text(client.conn), "");
        cr_assert_eq(conn_open(client.conn, &client.error), OUTCOME_OK, "%s", client.error.text);
        cr_assert_str_eq(conn_tls_text(client.conn), i ? "TLS 1.3" : "TLS 1.2");
        int64_t left = conn_certificate_end(client.conn) - time(NULL);
        cr_assert(left > 29 * DAY_S && left <= 30 * DAY_S, "%lld", (long long)left);
        conn_close(client.conn);
        cr_assert_eq(conn_certificate_end(client.conn), 0);
    }
    redis_ok(f.r, "CONFIG SET tls-protocols TLSv1.2");
    expect("localhost", server_tls_port(f.server), "tls_min = \"1.3\";", "does not speak TLS 1.3: set redis.tls_min to 1.2");
    redis_ok(f.r, "CONFIG SET tls-protocols TLSv1.3");
    expect("localhost", server_tls_port(f.server), "tls_min = \"1.3\";", NULL);
}

Test(redis_tls, files_that_cannot_be_used_are_named) {
    f = tls_start(NULL);
    char *text = temp_file("text.pem", "no PEM\n"), *empty = temp_file("empty.pem", "");
    char *encrypted =
        temp_file("encrypted.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIG=\n-----END ENCRYPTED PRIVATE KEY-----\n");
    char *crt = kept_printf("%s/client.crt", f.dir), *key = kept_printf("%s/client.key", f.dir),
         *ca_key = kept_printf("%s/ca.key", f.dir);
    const struct {
        const char *ca, *crt, *key, *expected;
    } rows[] = {
        {text, NULL, NULL, "redis.tls_ca_file %s holds no certificate in PEM"},
        {empty, NULL, NULL, "redis.tls_ca_file %s is empty"},
        {"/nonexistent/ca.crt", NULL, NULL, "cannot read redis.tls_ca_file %s: No such file or directory"},
        {crt, text, key, "redis.tls_cert_file %s holds no certificate in PEM"},
        {crt, empty, key, "redis.tls_cert_file %s is empty"},
        {crt, crt, text, "redis.tls_key_file %s holds no private key in PEM"},
        {crt, crt, encrypted, "redis.tls_key_file %s is encrypted"},
        {crt, crt, ca_key, "redis.tls_key_file %s is not the key of the certificate in redis.tls_cert_file"},
        {crt, crt, "/nonexistent/key", "cannot read redis.tls_key_file %s: No such file or directory"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *settings = rows[i].crt
                             ? mem_printf("tls = true; tls_ca_file = \"%s\"; tls_cert_file = \"%s\"; tls_key_file = \"%s\";",
                                          rows[i].ca, rows[i].crt, rows[i].key)
                             : mem_printf("tls = true; tls_ca_file = \"%s\";", rows[i].ca);
        const char *file = !rows[i].crt ? rows[i].ca : strstr(rows[i].expected, "cert_file %s") ? rows[i].crt : rows[i].key;
        char before[128], *part = strstr(rows[i].expected, "%s");
        snprintf(before, sizeof before, "%.*s", (int)(part - rows[i].expected), rows[i].expected);
        char *expected = kept_printf("%s%s%s", before, file, part + 2);
        tls_expect(expected, "localhost", server_tls_port(f.server), settings, expected);
        free(settings);
    }
    free(encrypted);
}

/* Bytes that the server has sent when a connection is open. */
static long bytes_to_open(relay_t *relay, tls_client_t *client) {
    relay_cut_after(relay, -1);
    cr_assert_eq(conn_open(client->conn, &client->error), OUTCOME_OK, "%s", client->error.text);
    long bytes = relay_passed(relay);
    conn_close(client->conn);
    return bytes;
}

Test(redis_tls, stream_cut_at_any_place_is_a_loss_and_the_next_connect_succeeds, .timeout = 120) {
    enum { CUTS = 200 };
    f = tls_start(NULL);
    relay_t *relay = relay_start(&(relay_options_t){.port = server_tls_port(f.server)});
    char *settings = trust("");
    tls_client_t client = tls_client("127.0.0.1", relay_port(relay), settings);
    bytes_to_open(relay, &client); /* loads the scripts, so that each later connect is of the same kind */
    long all = LONG_MAX;
    for (int i = 0; i < 5; i++) {                        /* last bytes of the connection before may be counted, too */
        long bytes = bytes_to_open(relay, &client) - 60; /* signatures and uptimes differ in length */
        if (bytes < all) all = bytes;
    }
    cr_assert_gt(all, CUTS);
    for (int i = 0; i < CUTS; i++) {
        relay_cut_after(relay, all * i / CUTS);
        cr_expect_eq(conn_open(client.conn, &client.error), OUTCOME_DISCONNECTED, "after %ld bytes", all * i / CUTS);
        cr_expect(*client.error.text && !conn_is_open(client.conn), "after %ld bytes", all * i / CUTS);
        relay_cut_after(relay, -1);
        cr_assert_eq(conn_open(client.conn, &client.error), OUTCOME_OK, "after %ld: %s", all * i / CUTS, client.error.text);
        conn_close(client.conn);
    }
    tls_client_free(&client);
    relay_stop(relay);
}

/* A reply of many records is read to its end, and nothing stays inside of GnuTLS while poll() sees nothing. */
Test(redis_tls, replies_of_all_sizes_arrive_without_another_byte) {
    f = tls_start(NULL);
    char *settings = trust(""), *bytes = kept(calloc(1, 3 << 20));
    tls_client_t client = tls_client("localhost", server_tls_port(f.server), settings);
    cr_assert_eq(conn_open(client.conn, &client.error), OUTCOME_OK, "%s", client.error.text);
    static const size_t sizes[] = {0, 1, 16000, 16383, 16384, 16385, 16398, 32768, 100000, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int many = 0; many < 3; many++) {
            request_begin(client.conn, "ECHO");
            request_bytes(client.conn, bytes, sizes[i]);
            request_end(client.conn);
        }
        for (int many = 0; many < 3; many++) {
            struct redisReply *reply;
            cr_assert_eq(conn_read(client.conn, 5000, &reply, &client.error), OUTCOME_OK, "%zu: %s", sizes[i], client.error.text);
            cr_assert_eq(((redisReply *)reply)->len, sizes[i]);
            conn_reply_free(reply);
        }
    }
    tls_client_free(&client);
}

/* Requests to a TLS session whose keys the other side renews again and again. (RFC 8446, 4.6.3) */
Test(redis_tls, renewed_keys_lose_no_byte) {
    enum { ROUNDS = 6, BYTES = 4 << 20 };
    f = tls_start(NULL);
    relay_t *relay = relay_start(&(relay_options_t){.port = server_port(f.server), .tls = f.dir});
    char *settings = trust("tls_min = \"1.3\";"), *bytes = kept(calloc(1, BYTES));
    tls_client_t client = tls_client("127.0.0.1", relay_port(relay), settings);
    cr_assert_eq(conn_open(client.conn, &client.error), OUTCOME_OK, "%s", client.error.text);
    for (int i = 0; i < ROUNDS; i++) {
        relay_renew_keys(relay);
        for (int many = 0; many < 2; many++) {
            request_begin(client.conn, "ECHO");
            request_bytes(client.conn, bytes, i % 2 ? BYTES : 1);
            request_end(client.conn);
        }
        for (int many = 0; many < 2; many++) {
            struct redisReply *reply;
            cr_assert_eq(conn_read(client.conn, 9000, &reply, &client.error), OUTCOME_OK, "%d: %s", i, client.error.text);
            cr_assert_eq(((redisReply *)reply)->len, (size_t)(i % 2 ? BYTES : 1));
            conn_reply_free(reply);
        }
    }
    cr_assert_eq(relay_renewals(relay), ROUNDS);
    tls_client_free(&client);
    relay_stop(relay);
}

/* This binary's getaddrinfo: names below .test are the test's own, "slow.test" has a name server that never answers. */
static pthread_mutex_t resolver = PTHREAD_MUTEX_INITIALIZER; /* the test holds it: "slow.test" gets no answer meanwhile */
static atomic_int slow_lookups;

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&real, &symbol, sizeof symbol);
    if (hints->ai_flags & AI_NUMERICHOST || !host) return real(host, port, hints, found);
    if (strstr(host, "slow.test")) {
        atomic_fetch_add(&slow_lookups, 1);
        pthread_mutex_lock(&resolver);
        pthread_mutex_unlock(&resolver);
    }
    if (strcmp(host, "two.test") != 0) return real(host, port, hints, found);
    struct addrinfo *first;
    struct addrinfo numeric = *hints;
    numeric.ai_flags |= AI_NUMERICHOST;
    int failed = real("127.9.9.9", port, &numeric, &first); /* nobody listens there */
    return failed ? failed
                  : real("::1", port, &numeric, &first->ai_next) ||
                        ((*found = first), real("127.0.0.1", port, &numeric, &first->ai_next->ai_next));
}

Test(redis_tls, every_address_of_a_name_is_tried) {
    f = tls_start(NULL);
    tls_expect("plain", "two.test", server_port(f.server), "", NULL);
    expect("two.test", server_tls_port(f.server), "tls_server_name = \"localhost\";", NULL);
    expect("two.test", server_tls_port(f.server), "",
           "by TLS: the certificate is for localhost, 127.0.0.1, ::1, not for two.test");
}

Test(redis_tls, name_server_that_never_answers_delays_a_connect_by_its_timeout_and_no_stop) {
    fixture_capture_log();
    pthread_mutex_lock(&resolver);
    tls_client_t client = tls_client("slow.test", 6379, "timeout = \"300ms\";");
    int64_t start = wait_now_us();
    cr_assert_eq(conn_open(client.conn, &client.error), OUTCOME_DISCONNECTED);
    cr_assert_str_eq(client.error.text, "cannot look up slow.test: the name server does not answer in time");
    int64_t took_ms = (wait_now_us() - start) / 1000;
    cr_assert(took_ms >= 299 && took_ms < wait_scaled_ms(2000), "%lld ms", (long long)took_ms);
    tls_client_free(&client);
    atomic_bool stop = true;
    client = tls_client("slow.test", 6379, "timeout = \"1m\";");
    conn_t *conn = conn_new(topology_shard(client.topology, 0), "stopped", &stop);
    start = wait_now_us();
    cr_assert_eq(conn_open(conn, &client.error), OUTCOME_DISCONNECTED);
    cr_assert_not_null(strstr(client.error.text, "before the stop"), "%s", client.error.text);
    cr_assert_lt((wait_now_us() - start) / 1000, wait_scaled_ms(3000));
    conn_free(conn);
    /* All who ask for a name share one lookup, so a dead name server takes no place of other names. */
    conn_limit_timeout(client.conn, 1);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(conn_open(client.conn, &client.error), OUTCOME_DISCONNECTED);
        cr_assert(strstr(client.error.text, "does not answer in time"), "%s", client.error.text);
    }
    cr_assert_eq(atomic_load(&slow_lookups), 1);
    tls_client_free(&client);
    /* A bound, so that many names cannot fill the process with threads. */
    bool bounded = false;
    for (int i = 0; i < 100 && !bounded; i++) {
        char *name = kept_printf("%d.slow.test", i);
        client = tls_client(name, 6379, "");
        conn_limit_timeout(client.conn, 1);
        cr_assert_eq(conn_open(client.conn, &client.error), OUTCOME_DISCONNECTED);
        bounded = strstr(client.error.text, "too many lookups");
        if (!bounded) tls_client_free(&client);
    }
    cr_assert(bounded, "%s", client.error.text);
    pthread_mutex_unlock(&resolver);
    cr_assert(wait_for(conn_open(client.conn, &client.error) != OUTCOME_OK && !strstr(client.error.text, "too many"), 5000));
    tls_client_free(&client);
}
