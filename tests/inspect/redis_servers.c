/* Facts that servers and sentinels tell of themselves, and their text for people. */
#include "fixture.h"
#include "operate/status/servers_text.h"
#include "replica.h"
#include "sentinels.h"
#include "tls_fixture.h"
#include "wait.h"

static servers_t read_primary(conn_t *conn) {
    servers_t servers = {0};
    redis_error_t error;
    cr_assert_eq(servers_add_primary(&servers, conn, "sidecar:email:none", &error), OUTCOME_OK, "%s", error.text);
    cr_assert_eq(servers.primary_count, 1);
    return servers;
}

static void expect_primary(conn_t *conn, const char *expected) {
    scoped(servers_free) servers_t servers = read_primary(conn);
    scoped(buffer_free) buffer_t text = {0};
    servers_text_primary(&servers.primaries[0], &text);
    const char *facts = strstr(buffer_text(&text), "; "); /* behind those of TLS */
    cr_assert_str_eq(facts ? facts : "", expected);
}

static bool loses(conn_t *conn) {
    scoped(servers_free) servers_t servers = read_primary(conn);
    scoped(buffer_free) buffer_t text = {0};
    return servers_failover_loses(&servers, 0, &text) != 0;
}

Test(redis_servers, a_primary_tells_of_its_replicas_and_its_eviction_policy) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.tcp = true});
    expect_primary(f.conn, "; 0 replicas; maxmemory-policy noeviction");
    cr_assert_not(loses(f.conn), "there is nothing to fail over to");
    scoped(server_drop) server_t *replica = replica_start(f.server, NULL);
    redis_ok(f.r, "CONFIG SET maxmemory-policy allkeys-lru");
    expect_primary(f.conn, "; 1 replica, min-replicas-to-write 0; maxmemory-policy allkeys-lru");
    cr_assert(loses(f.conn));
    redis_ok(f.r, "CONFIG SET min-replicas-to-write 1");
    cr_assert(wait_for(redis_int(f.r, "WAIT 1 100") == 1, 10000));
    cr_assert_not(loses(f.conn));
    scoped(servers_free) servers_t servers = read_primary(f.conn);
    cr_assert_geq(servers.primaries[0].good_replicas, 0);
    cr_assert_str_eq(servers.primaries[0].mode, "standalone");
}

/* The question changes nothing. */
Test(redis_servers, says_why_a_server_takes_no_writes) {
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){.tcp = true});
    scoped(buffer_free) buffer_t text = {0};
    redis_ok(f.r, "HSET sidecar:app:queues email token");
    char *before = fixture_digest(f.r);
    scoped(servers_free) servers_t servers = read_primary(f.conn);
    cr_assert_eq(servers_refuse_writes(&servers, 0, &text), 0);
    redis_ok(f.r, "CONFIG SET min-replicas-to-write 1");
    servers_free(&servers);
    servers = read_primary(f.conn);
    cr_assert_eq(servers_refuse_writes(&servers, 0, &text), 1);
    cr_assert_not_null(strstr(buffer_text(&text), " takes no writes: NOREPLICAS Not enough good replicas to write"), "%s",
                       buffer_text(&text));
    redis_expect(f.r, before, "DEBUG DIGEST");
}

Test(redis_servers, reports_the_end_of_the_sidecars_own_certificate) {
    scoped(tls_stop) tls_fixture_t f = tls_start(NULL);
    certificate_t *own = certificate_new(NULL, (certificate_spec_t){.common_name = "own", .until_s = 10 * DAY_S});
    certificate_write(own, NULL, f.dir, "own");
    redis_ok(f.r, "CONFIG SET tls-auth-clients no"); /* own.crt is of no CA */
    char *redis = kept_printf("tls = true; tls_ca_file = \"%s/ca.crt\"; tls_cert_file = \"%s/own.crt\"; tls_key_file = "
                              "\"%s/own.key\";",
                              f.dir, f.dir, f.dir);
    scoped(tls_client_free) tls_client_t client = tls_client("127.0.0.1", server_tls_port(f.server), redis);
    cr_assert_eq(conn_open(client.conn, &client.error), OUTCOME_OK, "%s", client.error.text);
    scoped(servers_free) servers_t servers = read_primary(client.conn);
    scoped(buffer_free) buffer_t text = {0};
    cr_assert_gt(servers_certificate_ends(&servers, (int64_t)time(NULL) * 1000, &text), 0,
                 "that of the server lasts for 30 days");
    cr_assert_not_null(strstr(buffer_text(&text), "the certificate of the sidecar (redis.tls_cert_file) ends in "), "%s",
                       buffer_text(&text));
    certificate_free(own);
}

Test(redis_servers, a_primary_tells_its_tls_version_and_the_end_of_its_certificate) {
    scoped(tls_stop) tls_fixture_t f = tls_start(NULL);
    char *redis = kept_printf("tls = true; tls_ca_file = \"%s/ca.crt\"; tls_min = \"1.3\";", f.dir);
    scoped(tls_client_free) tls_client_t client = tls_client("127.0.0.1", server_tls_port(f.server), redis);
    cr_assert_eq(conn_open(client.conn, &client.error), OUTCOME_OK, "%s", client.error.text);
    scoped(servers_free) servers_t servers = read_primary(client.conn);
    scoped(buffer_free) buffer_t text = {0};
    int64_t now_ms = (int64_t)time(NULL) * 1000;
    servers_text_primary(&servers.primaries[0], &text);
    cr_assert_eq(strncmp(buffer_text(&text), "TLS 1.3, certificate until 20", 29), 0, "%s", buffer_text(&text));
    cr_assert_eq(servers_certificate_ends(&servers, now_ms + 15 * (int64_t)DAY_S * 1000, &text), 0);
    cr_assert_gt(servers_certificate_ends(&servers, now_ms + 17 * (int64_t)DAY_S * 1000, &text), 0, "it lasts for 30 days");
    cr_assert_leq(llabs(metric_get(&topology_metrics(client.topology)->certificate_end_s) - now_ms / 1000 - 30 * DAY_S), 60);
}

/* The metric covers the client's certificate, which Redis does not know; the texts are about the server. */
Test(redis_servers, the_clients_certificate_may_end_first) {
    scoped(tls_stop) tls_fixture_t f = tls_start(NULL);
    certificate_t *own =
        certificate_new(NULL, (certificate_spec_t){.common_name = "client", .from_s = -DAY_S, .until_s = 10 * (int64_t)DAY_S});
    certificate_write(own, NULL, f.dir, "own");
    char *redis = kept_printf("tls = true; tls_ca_file = \"%s/ca.crt\"; tls_cert_file = \"%s/own.crt\"; "
                              "tls_key_file = \"%s/own.key\";",
                              f.dir, f.dir, f.dir);
    scoped(tls_client_free) tls_client_t client = tls_client("127.0.0.1", server_tls_port(f.server), redis);
    cr_assert_eq(conn_open(client.conn, &client.error), OUTCOME_OK, "%s", client.error.text);
    int64_t now_s = (int64_t)time(NULL);
    cr_assert_leq(llabs(conn_certificate_end(client.conn) - now_s - 30 * (int64_t)DAY_S), 60);
    cr_assert_leq(llabs(metric_get(&topology_metrics(client.topology)->certificate_end_s) - now_s - 10 * (int64_t)DAY_S), 60);
    certificate_free(own);
}

Test(redis_servers, a_refused_info_leaves_numbers_unknown) {
    scoped(fixture_stop) fixture_t f = fixture_start(NULL);
    redis_ok(f.r, "ACL SETUSER default -info");
    expect_primary(f.conn, "");
    cr_assert_not(loses(f.conn));
}

Test(redis_servers, sentinels_tell_who_they_name_and_who_is_silent, .timeout = 60) {
    sentinels_t *s = sentinels_begin(NULL);
    char *settings = sentinels_settings(s);
    scoped(config_drop) config_t *config =
        fixture_config("redis = { %s }; group = \"app\"; queues = ( { name = \"email\"; } );", settings);
    scoped(servers_free) servers_t servers = {0};
    scoped(buffer_free) buffer_t text = {0};
    servers_read_sentinels(&servers, &config->redis, NULL);
    servers_text_mode(&servers, &config->redis, &text);
    char *expected = kept_printf("3 of 3 sentinels answer: \"" SENTINEL_MASTER "\" is 127.0.0.1:%d; quorum 2, epoch 0",
                                 server_port(s->servers[sentinels_primary(s, NULL)]));
    cr_assert_str_eq(buffer_text(&text), expected);
    cr_assert_eq(servers_sentinels_silent(&servers, 0, &text), 0);
    sentinel_kill(s, 1);
    buffer_clear(&text);
    servers_read_sentinels(&servers, &config->redis, NULL);
    servers_text_mode(&servers, &config->redis, &text);
    cr_assert_eq(strncmp(buffer_text(&text), "2 of 3 sentinels answer", 23), 0, "%s", buffer_text(&text));
    buffer_clear(&text);
    cr_assert_eq(servers_sentinels_silent(&servers, 0, &text), 1);
    char *silent = kept_printf("127.0.0.1:%d", s->sentinels[1].port);
    cr_assert(strstr(buffer_text(&text), silent), "%s", buffer_text(&text));
    sentinels_end(s);
}

Test(redis_servers, sentinels_that_disagree_are_named, .timeout = 60) {
    sentinels_t *s = sentinels_begin(NULL);
    char *settings = sentinels_settings(s);
    scoped(config_drop) config_t *config =
        fixture_config("redis = { %s }; group = \"app\"; queues = ( { name = \"email\"; } );", settings);
    scoped(servers_free) servers_t servers = {0};
    scoped(buffer_free) buffer_t text = {0};
    servers_read_sentinels(&servers, &config->redis, NULL);
    cr_assert_eq(servers_sentinels_quarrel(&servers, 0, &text), 0);
    scoped(redis_drop) redis_t *liar = sentinel_open(s, 2);
    int other = (sentinels_primary(s, NULL) + 1) % SENTINEL_SERVERS;
    redis_ok(liar, "SENTINEL REMOVE " SENTINEL_MASTER);
    redis_ok(liar, "SENTINEL MONITOR " SENTINEL_MASTER " 127.0.0.1 %d 2", server_port(s->servers[other]));
    buffer_clear(&text);
    servers_read_sentinels(&servers, &config->redis, NULL);
    cr_assert_eq(servers_sentinels_quarrel(&servers, 0, &text), 1);
    char *port = kept_printf(":%d (config epoch", server_port(s->servers[other]));
    cr_assert(strstr(buffer_text(&text), port), "%s", buffer_text(&text));
    sentinels_end(s);
}

Test(redis_servers, sentinels_that_the_config_lacks_are_asked_too, .timeout = 60) {
    sentinels_t *s = sentinels_begin(NULL);
    scoped(config_drop) config_t *config =
        fixture_config("redis = { sentinels = [\"127.0.0.1:%d\"]; master = \"" SENTINEL_MASTER "\"; };"
                       "group = \"app\"; queues = ( { name = \"email\"; } );",
                       s->sentinels[0].port);
    scoped(servers_free) servers_t servers = {0};
    servers_read_sentinels(&servers, &config->redis, NULL);
    cr_assert_eq(servers.sentinel_count, SENTINELS);
    sentinels_end(s);
}
