/* Idle connections, subscribed ones too, send PING, and a connection without a reply is replaced. */
#include "redis/keepalive.h"

#include "fixture.h"
#include "redis/failure.h"
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
    fixture_t f = open_pair(&subscriber, "timeout = \"3s\";");
    proxy_stall(f.proxy, PROXY_DOWN);
    fixture_step_boottime(ALMOST_MS + 1001);
    cr_assert_eq(conn_keep_subscriber_alive(subscriber, &f.error), OUTCOME_OK);
    cr_assert(conn_is_open(subscriber));
    fixture_step_boottime(3001);
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
        .closed = true,
        .proxy = true,
        .config = "group = \"app\"; lock = { ttl = \"30s\"; }; queues = ( { name = \"email\"; heartbeat = \"off\"; } );"});
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

/* The server closes all connections of this type after `ms` without a byte. */
static void close_idle(fixture_t *f, int64_t ms, const char *type) {
    fixture_step_boottime(ms);
    redis_ok(f->r, "CLIENT KILL TYPE %s SKIPME yes", type);
}

static void expect_idle(fixture_t *f, const conn_t *conn) {
    cr_assert_eq(f->error.outcome, OUTCOME_DISCONNECTED, "%s", f->error.text);
    cr_assert_eq(f->error.kind, ERROR_IDLE, "%s", f->error.text);
    conn_report_failure((conn_t *)conn, "test", &f->error);
}

static void close_data(fixture_t *f, int64_t ms) {
    cr_assert_eq(conn_open(f->conn, &f->error), OUTCOME_OK, "%s", f->error.text);
    close_idle(f, ms, "normal");
    cr_assert(wait_for(conn_keep_alive(f->conn, &f->error) != OUTCOME_OK, 5000));
    expect_idle(f, f->conn);
}

/* Somebody kills connections now and then, or several at once. */
Test(redis_keepalive, idle_connections_that_are_killed_show_no_limit) {
    scoped(fixture_stop) fixture_t f = fixture_start(NULL);
    fixture_hold_boottime();
    close_data(&f, 5000);
    conn_report_failure(f.conn, "test", &f.error); /* another role had been idle for as long */
    close_data(&f, 20000);
    close_data(&f, 9000);
    cr_assert_eq(conn_keep_alive_ms(f.conn), KEEPALIVE_S * 1000);
    cr_assert_eq(fixture_log_count("redis closed an idle connection"), 1, "told once");
    cr_assert_eq(fixture_log_count("cannot reach redis"), 0);
}

/* A server that restarts closes idle connections too. What its former process did says nothing about the new one. */
Test(redis_keepalive, restarts_show_no_limit) {
    scoped(fixture_stop) fixture_t f = fixture_start(NULL);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
        cr_assert_eq(shard_note_idle_close(f.shard, 1100 + i, mono_add(mono_now(), i * 7 * NS_PER_S)), IDLE_FIRST);
        conn_close(f.conn);
        server_restart(f.server, SERVER_LOSE_DATA);
    }
    cr_assert_eq(conn_keep_alive_ms(f.conn), KEEPALIVE_S * 1000);
}

Test(redis_keepalive, ping_comes_before_the_limit_of_the_server) {
    scoped(fixture_stop) fixture_t f = fixture_start(NULL);
    fixture_hold_boottime();
    close_data(&f, 30500);
    close_data(&f, 31200);
    cr_assert_eq(conn_keep_alive_ms(f.conn), 15250);
    close_data(&f, 61000); /* this process was frozen */
    cr_assert_eq(conn_keep_alive_ms(f.conn), 15250);
    close_data(&f, 3000);
    close_data(&f, 2000);
    cr_assert_eq(conn_keep_alive_ms(f.conn), 1000);
    close_data(&f, 1000);
    cr_assert_eq(conn_keep_alive_ms(f.conn), 500);
    close_data(&f, 1000);
    cr_assert_eq(fixture_log_count("sending PING sooner"), 3, "%s", fixture_log());
    cr_assert_eq(fixture_log_count("cannot reach redis"), 0);
}

/* A balancer closes subscribed connections too, perhaps in the moment of the PING. */
Test(redis_keepalive, a_subscriber_may_be_closed_while_it_is_idle) {
    conn_t *subscriber;
    fixture_t f = open_pair(&subscriber, NULL);
    close_idle(&f, 2000, "pubsub");
    cr_assert(wait_for(tracking_read(subscriber, NULL, NULL, NULL, &f.error) != OUTCOME_OK, 5000));
    expect_idle(&f, subscriber);
    cr_assert_eq(tracking_start(f.conn, subscriber, &f.error), OUTCOME_OK, "%s", f.error.text);
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_DROP, .match = "PING"});
    fixture_step_boottime(ALMOST_MS + 1001);
    cr_assert_eq(conn_keep_subscriber_alive(subscriber, &f.error), OUTCOME_OK);
    cr_assert(wait_for(tracking_read(subscriber, NULL, NULL, NULL, &f.error) != OUTCOME_OK, 5000));
    expect_idle(&f, subscriber);
    close_pair(&f, subscriber);
}

static redis_error_kind_t lose_request(fixture_t *f, const char *command, int64_t ms) {
    redisReply *reply;
    cr_assert_eq(conn_open(f->conn, &f->error), OUTCOME_OK, "%s", f->error.text);
    cr_assert_eq(conn_flush(f->conn, &f->error), OUTCOME_OK, "%s", f->error.text);
    request_begin(f->conn, "BRPOP", "list", "0");
    if (strcmp(command, "wait") == 0) conn_expect_wait(f->conn);
    request_end(f->conn);
    cr_assert_eq(conn_flush(f->conn, &f->error), OUTCOME_OK, "%s", f->error.text);
    close_idle(f, ms, "normal");
    cr_assert(wait_for(conn_try_read(f->conn, &reply, &f->error) != OUTCOME_OK, 5000));
    return f->error.kind;
}

Test(redis_keepalive, a_lost_request_is_a_failure) {
    scoped(fixture_stop) fixture_t f = fixture_start(NULL);
    fixture_hold_boottime();
    cr_assert_eq(lose_request(&f, "wait", 2000), ERROR_IDLE, "it waited for news");
    cr_assert_eq(lose_request(&f, "wait", 500), ERROR_OTHER, "no limit is as short");
    cr_assert_eq(lose_request(&f, "work", 2000), ERROR_OTHER);
    conn_report_failure(f.conn, "test", &f.error);
    cr_assert_eq(fixture_log_count("cannot reach redis"), 1);
}

/* PING would get the reply to the other request. */
Test(redis_keepalive, a_connection_that_awaits_a_reply_sends_no_ping, .signal = SIGABRT) {
    fixture_t f = fixture_start(NULL);
    request_append(f.conn, "ECHO", "x");
    fixture_step_boottime(KEEPALIVE_S * 1000 + 1000);
    cr_assert(conn_is_open(f.conn));
    conn_keep_alive(f.conn, &f.error);
}
