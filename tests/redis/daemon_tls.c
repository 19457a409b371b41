/* The whole program over TLS: certificates that are swapped under load, and every command by a rediss:// url. */
#include "audit_log.h"
#include "certificates.h"
#include "cluster.h"
#include "tempdir.h"
#include "tls_harness.h"

enum { SWAPS = 5, JOBS_A_SWAP = 200 };

/* A server that wants client certificates, and sidecars that connect to it with TLS. */
static cluster_t begin(void) {
    setenv("QS_TLS", "1", 1);
    return cluster_begin(&(server_options_t){.args = (const char *const[]){"--tls-auth-clients", "yes", NULL}});
}

static const char *pair(void) {
    static char text[1024];
    const char *dir = certificate_shared_dir();
    snprintf(text, sizeof(text), "tls_cert_file = \"%s/client.crt\"; tls_key_file = \"%s/client.key\";", dir, dir);
    return text;
}

static certificate_t *new_ca(int swap) {
    static char name[32];
    snprintf(name, sizeof(name), "CA %d", swap);
    return certificate_new(NULL, (certificate_spec_t){.common_name = name, .ca = true});
}

/* The server reads its files. */
static void reload(redis_t *r) {
    const char *dir = certificate_shared_dir();
    redis_ok(r, "CONFIG SET tls-ca-cert-file %s/ca.crt tls-cert-file %s/server.crt tls-key-file %s/server.key", dir, dir, dir);
}

static void write_pairs(const certificate_t *ca) {
    certificate_t *server =
        certificate_new(ca, (certificate_spec_t){.names = "localhost", .addresses = "127.0.0.1", .purpose = "server"});
    certificate_t *client = certificate_new(ca, (certificate_spec_t){.common_name = "sidecar", .purpose = "client"});
    certificate_write(server, NULL, certificate_shared_dir(), "server");
    certificate_write(client, NULL, certificate_shared_dir(), "client");
    certificate_free(server);
    certificate_free(client);
}

/* Jobs that fall due over the next two seconds. */
static void delay_jobs(redis_t *r, int swap) {
    char job[32];
    for (int i = 0; i < JOBS_A_SWAP; i++) {
        snprintf(job, sizeof(job), "%d/%d", swap, i);
        cluster_delay(r, "busy", job, i * 10);
    }
}

static cluster_t s;

/* The connections of the old certificates go; new ones must work. */
static void reconnect(void) {
    cr_assert_gt(cluster_kill_connections(s.r, ""), 0);
    cluster_works(&s, "q");
}

SUITE(daemon_tls, , cluster_end(&s));

Test(daemon_tls, five_swaps_of_certificate_and_ca_under_load_end_no_term, .timeout = 120) {
    s = begin();
    daemon_t *d = cluster_sidecar_up(
        &s, (sidecar_t){.ttl = "5s", .redis = pair(), .queues = "{ name = \"q\"; }, { name = \"busy\"; }", .poll = "1s"});
    char *token = redis_str(s.r, "GET sidecar:g:lock");
    certificate_t *old = new_ca(0);
    for (int swap = 1; swap <= SWAPS; swap++) {
        certificate_t *ca = new_ca(swap);
        delay_jobs(s.r, swap);
        /* As an operator changes a CA: trust both, then change the pairs, then trust the new one alone. At the first swap the
         * sidecar does not trust the old one any more, so its connections must stay open. */
        certificate_write(ca, (const certificate_t *const[]){old, NULL}, certificate_shared_dir(), "ca");
        write_pairs(ca);
        reload(s.r);
        cluster_works(&s, "q");
        reconnect();
        certificate_write(ca, NULL, certificate_shared_dir(), "ca");
        reload(s.r);
        reconnect();
        certificate_free(old);
        old = ca;
    }
    if (!wait_for(redis_int(s.r, "LLEN busy") == (long long)SWAPS * JOBS_A_SWAP, 15000)) cluster_fail(&s, "jobs are missing");
    redis_expect(s.r, token, "GET sidecar:g:lock");
    cr_assert_eq(daemon_log_count(d, "no longer leading"), 0);
    certificate_free(old);
}

/* The sidecar reports a certificate that it cannot accept, goes on to try, and works once it is mended. */
Test(daemon_tls, certificate_that_expires_is_named_in_the_log_and_its_renewal_needs_no_restart, .timeout = 60) {
    s = begin();
    certificate_t *ca = new_ca(1);
    certificate_write(ca, NULL, certificate_shared_dir(), "ca");
    write_pairs(ca);
    reload(s.r);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.redis = pair()});
    certificate_t *expired = certificate_new(
        ca, (certificate_spec_t){.names = "localhost", .addresses = "127.0.0.1", .from_s = -9 * DAY_S, .until_s = -DAY_S});
    certificate_write(expired, NULL, certificate_shared_dir(), "server");
    reload(s.r);
    cluster_kill_connections(s.r, "");
    cr_assert(daemon_wait_log(d, "by TLS: the certificate expired at 20", 10000));
    write_pairs(ca);
    reload(s.r);
    cluster_await_leader(&s, "g", NULL, 10000);
    cluster_works(&s, "q");
    certificate_free(expired);
    certificate_free(ca);
}

static const daemon_output_t *run_cli(const daemon_t *d, const char *const *args) {
    char *audit = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", daemon_audit_path(d));
    const daemon_output_t *output = daemon_run_argv(&(daemon_options_t){.env = (const char *const[]){audit, NULL}}, args);
    return output;
}

#define CLI(d, ...) run_cli(d, (const char *const[]){__VA_ARGS__, NULL})

Test(daemon_tls, every_command_works_by_a_rediss_url, .timeout = 60) {
    setenv("QS_TLS", "1", 1);
    s = cluster_begin(NULL);
    daemon_t *d = daemon_start("redis = { url = \"rediss://localhost:%d/0\"; tls_ca_file = \"%s/ca.crt\"; };\n"
                               "group = \"g\"; monitor = { scan_interval = \"50ms\"; }; http = { port = 0; };\n"
                               "queues = ( { name = \"q\"; heartbeat = \"off\"; protected_timeout = \"1h\"; } );\n",
                               server_tls_port(s.server), certificate_shared_dir());
    s.sidecars[s.count++] = d;
    cluster_works(&s, "q");
    redis_ok(s.r, "LPUSH q:backup job");
    redis_ok(s.r, "HSET q:errors job !no");
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(d)) == 1, 10000));
    const char *config = daemon_config_path(d);
    const daemon_output_t *check = CLI(d, "check", "--redis", "-c", config);
    cr_assert_not_null(strstr(check->err, "is led by"), "%s%s", check->out, check->err);
    const daemon_output_t *status = CLI(d, "status", "-c", config, "-o", "json");
    cr_assert_eq(status->code, 0, "%s%s", status->out, status->err);
    const daemon_output_t *requeue = CLI(d, "audit", "requeue", "--where", "-q", "q", "-c", config, "--yes");
    cr_assert_eq(requeue->code, 0, "%s%s", requeue->out, requeue->err);
    redis_expect(s.r, "job", "RPOP q");
    /* Each connection is one of the TLS port: the server's other one is the unix socket. */
    char *list = redis_str(s.r, "CLIENT LIST");
    for (const char *at = list; (at = strstr(at, " name=queue-sidecar")); at++) {
        const char *line = at;
        while (line > list && line[-1] != '\n') line--;
        cr_assert_neq(strncmp(strstr(line, "laddr="), "laddr=/", 7), 0, "%s", line);
    }
}

/* The name is checked before the password is sent. */
Test(daemon_tls, wrong_server_name_is_refused_by_check) {
    setenv("QS_TLS", "1", 1);
    s = cluster_begin(NULL);
    char *path = cluster_config_file(&s, (sidecar_t){.redis = "tls_server_name = \"redis.example\";"});
    const daemon_output_t *check = daemon_run("check", "--redis", "-c", path);
    cr_assert_eq(check->code, 69, "%d: %s", check->code, check->err);
    cr_assert_not_null(strstr(check->err, "the certificate is for localhost, 127.0.0.1, ::1, not for redis.example"), "%s",
                       check->err);
}

static int troubles(const daemon_t *d) {
    return daemon_log_count(d, "\"level\":\"warn\"") + daemon_log_count(d, "\"level\":\"error\"");
}

/* Roles give up their handshakes because they are to stop. */
Test(daemon_tls, handshakes_that_a_stop_ends_are_no_failures) {
    scoped(server_drop) server_t *plain = server_start(&(server_options_t){.tcp = true});
    scoped(daemon_drop) daemon_t *d =
        daemon_start("group = \"g\";\nredis = { sentinels = [\"127.0.0.1:%d\"]; master = \"m\"; sentinel_tls = true; "
                     "tls_verify = \"none\"; };\nhttp = { port = 0; };\nlog = { format = \"json\"; };\n"
                     "queues = ( { name = \"q\"; } );\n",
                     server_port(plain));
    cr_assert(daemon_wait_log(d, "the port speaks no TLS", 10000));
    cr_assert(daemon_wait_log(d, "cannot learn where the primary is", 10000));
    int before = troubles(d);
    cr_assert_eq(daemon_terminate(d, 10000).code, 0);
    char *log = daemon_log(d);
    cr_assert_eq(troubles(d), before, "%s", log);
}
