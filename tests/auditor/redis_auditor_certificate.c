/* Over TLS the auditor connects anew each hour, so that the end of a renewed certificate is known. */
#include "auditor_fixture.h"
#include "tls_fixture.h"

#include <time.h>

enum { HOUR_MS = 3600 * 1000 };

/* Days until the certificate ends, as the metric says. */
static int64_t days(setup_t *d) {
    int64_t end = metric_get(&d->instance.metrics->certificate_end_s);
    return end ? (end - (int64_t)time(NULL) + DAY_S / 2) / DAY_S : 0;
}

static void renew(const tls_fixture_t *tls, int64_t until_s) {
    certificate_t *issuer = certificate_new(
        NULL, (certificate_spec_t){.common_name = "new CA", .ca = true, .from_s = -DAY_S, .until_s = 200 * (int64_t)DAY_S});
    certificate_t *server = certificate_new(
        issuer, (certificate_spec_t){.names = "localhost", .addresses = "127.0.0.1", .from_s = -DAY_S, .until_s = until_s});
    certificate_write(issuer, NULL, tls->dir, "ca");
    certificate_write(server, NULL, tls->dir, "server");
    redis_ok(tls->r, "CONFIG SET tls-cert-file %s/server.crt tls-key-file %s/server.key", tls->dir, tls->dir);
    certificate_free(server);
    certificate_free(issuer);
}

Test(redis_auditor_certificate, a_renewed_certificate_is_seen_within_an_hour) {
    scoped(tls_stop) tls_fixture_t tls = tls_start(NULL);
    setup_t d = {.dir = temp_dir("log")};
    d.f.config = fixture_config("redis = { host = \"127.0.0.1\"; port = %d; tls = true; tls_ca_file = \"%s/ca.crt\"; };\n"
                                "group = \"app\"; audit = { path = \"%s/audit.db\"; }; queues = ( { name = \"email\"; } );",
                                server_tls_port(tls.server), tls.dir, d.dir);
    d.f.keys = keyspace_new(d.f.config);
    fixture_capture_log();
    /* Without a stream to wait for, no reply is overdue after a step of the clock, and the connection stays. */
    redis_ok(tls.r, "SET sidecar:email:failures x");
    start(&d);
    cr_assert(driver_until(&d.instance.driver, days(&d) == 30, 10000), "%lld days", (long long)days(&d));
    renew(&tls, 90 * (int64_t)DAY_S);
    driver_run(&d.instance.driver, 300);
    cr_assert_eq(days(&d), 30, "open connections keep their certificate");
    fixture_step_boottime(HOUR_MS + 1000);
    cr_assert(driver_until(&d.instance.driver, days(&d) == 90, 10000), "%lld days", (long long)days(&d));
    cr_assert_eq(metric_get(&d.instance.metrics->connections), 1, "the connection that looked is closed");
    renew(&tls, -10);
    fixture_step_boottime(HOUR_MS + 1000);
    cr_assert(driver_until(&d.instance.driver, fixture_log_count("cannot open another connection to redis"), 10000));
    cr_assert_eq(metric_get(&d.instance.metrics->primaries_missing), 0, "the open connection still works");
    stop(&d);
    keyspace_free(d.f.keys);
    config_free(d.f.config);
    free(d.dir);
}
