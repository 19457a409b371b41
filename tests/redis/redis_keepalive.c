/* Idle connections, subscribed ones too, send PING, and a connection without a reply is replaced. */
#include "redis/keepalive.h"

#include "fixture.h"
#include "redis/tracking.h"
#include "wait.h"

#include <signal.h>

enum { ALMOST_MS = KEEPALIVE_S * 1000 - 1000 };

static long start_pings; /* tracking_start sends one */

/* Without the scripts, whose texts name the command too. */
static long all_pings(const fixture_t *f) { return proxy_requests(f->proxy, "PING") - proxy_requests(f->proxy, "{'PING"); }

static long pings(const fixture_t *f) { return all_pings(f) - start_pings; }

static fixture_t open_pair(conn_t **subscriber, const char *redis) {
    fixture_t f = fixture_start(&(fixture_options_t){.proxy = true, .redis = redis});
    *subscriber = conn_new(f.shard, "subscriber", NULL);
    cr_assert_eq(tracking_start(f.conn, *subscriber, &f.error), OUTCOME_OK, "%s", f.error.text);
    start_pings = all_pings(&f);
    fixture_hold_boottime();
    return f;
}

static void close_pair(fixture_t *f, conn_t *subscriber) {
    conn_free(subscriber);
    fixture_stop(f);
}

static int64_t ms_until(mono_t at) { return mono_diff(at, mono_now()) / NS_PER_MS; }

Test(redis_keepalive, an_idle_connection_sends_ping_each_minute) {
    conn_t *subscriber;
    fixture_t f = open_pair(&subscriber, NULL);
    for (int minute = 0; minute < 3; minute++) {
        fixture_step_boottime(ALMOST_MS);
        cr_assert_eq(conn_keep_alive(f.conn, &f.error), OUTCOME_OK);
        cr_assert_eq(pings(&f), minute);
        cr_assert_leq(ms_until(conn_keep_alive_at(f.conn)), 1000);
        fixture_step_boottime(1001);
        cr_assert_eq(conn_keep_alive(f.conn, &f.error), OUTCOME_OK);
        cr_assert_eq(pings(&f), minute + 1);
        cr_assert_geq(ms_until(conn_keep_alive_at(f.conn)), ALMOST_MS);
    }
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "PING", .error = "-NOPERM no"});
    fixture_step_boottime(ALMOST_MS + 1001);
    cr_assert_eq(conn_keep_alive(f.conn, &f.error), OUTCOME_OK, "a refusal is a sign of life");
    close_pair(&f, subscriber);
}

Test(redis_keepalive, an_idle_subscriber_sends_ping_each_minute) {
    conn_t *subscriber;
    fixture_t f = open_pair(&subscriber, NULL);
    for (int minute = 0; minute < 4; minute++) {
        if (minute == 2) proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "PING", .error = "-NOPERM no"});
        fixture_step_boottime(ALMOST_MS);
        cr_assert_eq(conn_keep_subscriber_alive(subscriber, &f.error), OUTCOME_OK);
        cr_assert_eq(pings(&f), minute);
        fixture_step_boottime(1001);
        cr_assert_eq(conn_keep_subscriber_alive(subscriber, &f.error), OUTCOME_OK);
        int64_t timeout_ms = ms_until(conn_keep_subscriber_alive_at(subscriber));
        cr_assert_leq(timeout_ms, 5000, "the reply is due within redis.timeout");
        cr_assert(wait_for((tracking_read(subscriber, NULL, NULL, NULL, &f.error),
                            ms_until(conn_keep_subscriber_alive_at(subscriber)) > timeout_ms),
                           5000));
        cr_assert_eq(f.error.outcome, OUTCOME_OK, "%s", f.error.text);
        cr_assert_eq(pings(&f), minute + 1);
    }
    close_pair(&f, subscriber);
}

Test(redis_keepalive, connections_without_a_reply_are_lost) {
    conn_t *subscriber;
    fixture_t f = open_pair(&subscriber, "timeout = \"100ms\";");
    proxy_stall(f.proxy, PROXY_DOWN);
    fixture_step_boottime(ALMOST_MS + 1001);
    cr_assert_eq(conn_keep_subscriber_alive(subscriber, &f.error), OUTCOME_OK);
    cr_assert(conn_is_open(subscriber));
    fixture_step_boottime(101);
    cr_assert_eq(conn_keep_subscriber_alive(subscriber, &f.error), OUTCOME_DISCONNECTED);
    cr_assert(strstr(f.error.text, "no reply to PING"), "%s", f.error.text);
    cr_assert_not(conn_is_open(subscriber));
    cr_assert_eq(conn_keep_subscriber_alive_at(subscriber).ns, mono_never().ns);
    close_pair(&f, subscriber);
}

/* A leader, a dispatcher and a monitor with nothing to do, for two minutes: no connection is silent for longer than a minute. */
Test(redis_keepalive, every_connection_of_the_roles_is_in_use) {
    enum { CONNECTIONS = 5, SECONDS = 130 };
    scoped(fixture_stop) fixture_t f = fixture_start(&(fixture_options_t){
        .closed = true, .proxy = true, .config = "group = \"app\"; queues = ( { name = \"email\"; heartbeat = \"off\"; } );"});
    scoped(instance_stop) instance_t instance;
    instance_start(&instance, f.keys, INSTANCE_LEADER | INSTANCE_DISPATCHER | INSTANCE_MONITOR);
    driver_settle(&instance.driver, f.r);
    cr_assert_eq(proxy_connections(f.proxy), CONNECTIONS);
    start_pings = all_pings(&f);
    fixture_hold_boottime();
    int opened = proxy_connections_total(f.proxy);
    for (int s = 0; s < SECONDS; s++) {
        fixture_step_boottime(1000);
        driver_settle(&instance.driver, f.r);
    }
    cr_assert(pings(&f) >= 4 && pings(&f) <= 2 * CONNECTIONS, "%ld", pings(&f));
    cr_assert_eq(metric_get(&instance.metrics->terms), 1);
    cr_assert_eq(proxy_connections_total(f.proxy), opened);
}

/* PING would get the reply to the other request. */
Test(redis_keepalive, a_connection_that_awaits_a_reply_sends_no_ping, .signal = SIGABRT) {
    fixture_t f = fixture_start(NULL);
    request_append(f.conn, "ECHO", "x");
    fixture_step_boottime(KEEPALIVE_S * 1000 + 1000);
    conn_keep_alive(f.conn, &f.error);
}
