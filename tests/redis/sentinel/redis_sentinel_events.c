/* The connections to sentinels grow old: they are idle, and their sentinel vanishes without a word. */
#include "certificates.h"
#include "fixture.h"
#include "redis/sentinel/locator.h"
#include "relay.h"
#include "role/watcher.h"
#include "sentinels.h"
#include "tempdir.h"
#include "wait.h"

#include <time.h>

enum { SOON_MS = 5000, PERIOD_MS = 11000, MINUTE_MS = 60000, PONG_MS = 5001, HOUR_MS = 3601 * 1000 };

/* The sidecar reaches each sentinel through a proxy. */
typedef struct {
    sentinels_t *s;
    proxy_t *proxies[SENTINELS];
    relay_t *relays[SENTINELS];
    char *password_file; /* NULL = none */
    char *tls;           /* a directory of certificates of the relays; NULL = plain */
    config_t *config;
    topology_t *topology;
    metrics_t *metrics;
    watcher_t *watcher;
    driver_t driver;
} world_t;

static world_t w;

static void write_password(const char *password) {
    char *next = temp_file("next", password);
    cr_assert_eq(rename(next, w.password_file), 0);
}

static config_t *world_config(void) {
    char *more = NULL;
    if (w.password_file && asprintf(&more, "sentinel_password_file = \"%s\";", w.password_file) < 0) abort();
    if (w.tls && asprintf(&more, "tls = true; tls_ca_file = \"%s/ca.crt\";", w.tls) < 0) abort();
    for (int i = 0; i < SENTINELS; i++) {
        w.proxies[i] = proxy_start(w.s->sentinels[i].socket);
        w.relays[i] = relay_start(&(relay_options_t){.socket = proxy_socket(w.proxies[i]), .tls = w.tls});
    }
    config_t *config =
        fixture_config("redis = { sentinels = [\"127.0.0.1:%d\", \"127.0.0.1:%d\", \"127.0.0.1:%d\"]; master = \"" SENTINEL_MASTER
                       "\"; %s }; queues = ( { name = \"q\"; } );",
                       relay_port(w.relays[0]), relay_port(w.relays[1]), relay_port(w.relays[2]), more ? more : "");
    free(more);
    return config;
}

static long requests(const char *match) {
    long count = 0;
    for (int i = 0; i < SENTINELS; i++) count += proxy_requests(w.proxies[i], match);
    return count;
}

/* `password` NULL: the sentinels demand none. */
static void begin(const char *password, bool tls) {
    w = (world_t){.s = sentinels_begin(&(sentinels_options_t){.password = password}), .metrics = metrics_new(1)};
    if (password) w.password_file = temp_file("password", password);
    if (tls) w.tls = certificate_dir();
    w.config = world_config();
    w.topology = topology_new(&w.config->redis);
    topology_set_metrics(w.topology, w.metrics);
    locator_attach(w.topology);
    driver_open(&w.driver);
    w.watcher = watcher_new(w.topology, w.metrics, &w.driver.role);
    driver_add(&w.driver, watcher_tick, w.watcher);
    fixture_capture_log();
    cr_assert(driver_until(&w.driver, requests("SUBSCRIBE") == SENTINELS, SOON_MS));
    cr_assert(driver_until(&w.driver, metric_get(&w.metrics->sentinels_answering) == SENTINELS, SOON_MS));
}

static void end(world_t *of) {
    watcher_free(of->watcher);
    driver_close(&of->driver);
    topology_free(of->topology);
    metrics_free(of->metrics);
    config_free(of->config);
    for (int i = 0; i < SENTINELS; i++) relay_stop(of->relays[i]), proxy_stop(of->proxies[i]);
    sentinels_end(of->s);
    free(of->password_file);
    free(of->tls);
}

static int port_of_primary(void) {
    endpoint_t endpoint;
    shard_address(topology_shard(w.topology, 0), &endpoint);
    return endpoint.port;
}

/* Lets time pass in steps after which the watcher asks. */
static void pass_ms(int64_t ms) {
    fixture_step_boottime(ms);
    driver_run(&w.driver, 100);
}

SUITE(redis_sentinel_events, , end(&w));

Test(redis_sentinel_events, idle_subscriptions_send_ping_each_minute, .timeout = 60) {
    begin(NULL, false);
    proxy_rule(w.proxies[1], (proxy_rule_t){.action = PROXY_REFUSE, .match = "PING", .times = -1, .error = "-NOPERM no"});
    for (int minute = 1; minute <= 2; minute++) {
        pass_ms(MINUTE_MS - 15000);
        cr_assert_eq(requests("PING"), (minute - 1) * SENTINELS, "after %ld", requests("PING"));
        fixture_step_boottime(15000);
        cr_assert(driver_until(&w.driver, requests("PING") == minute * SENTINELS, SOON_MS));
        driver_run(&w.driver, 200); /* the replies */
    }
    pass_ms(PONG_MS);
    cr_assert_eq(requests("SUBSCRIBE"), SENTINELS, "a subscription with a sign of life was replaced");
}

/* The sentinels' hosts have vanished and come back, and only they do not know the connections any more. */
Test(redis_sentinel_events, silent_subscriptions_are_replaced, .timeout = 60) {
    begin(NULL, false);
    for (int i = 0; i < SENTINELS; i++) proxy_stall(w.proxies[i], PROXY_DOWN);
    pass_ms(MINUTE_MS);
    cr_assert(driver_until(&w.driver, requests("PING") == SENTINELS, SOON_MS));
    pass_ms(PONG_MS);
    for (int i = 0; i < SENTINELS; i++)
        cr_assert(driver_until(&w.driver, proxy_connections(w.proxies[i]) == 0, SOON_MS), "a dead connection is still open");
    for (int i = 0; i < SENTINELS; i++) proxy_pass(w.proxies[i]);
    cr_assert(driver_until(&w.driver, metric_get(&w.metrics->sentinels_answering) == SENTINELS, SOON_MS));
    cr_assert(driver_until(&w.driver, requests("SUBSCRIBE") >= 2L * SENTINELS, SOON_MS));

    pass_ms(PERIOD_MS);
    fixture_hold_boottime(); /* the period does not pass: only an event tells */
    sentinels_failover(w.s);
    cr_assert(driver_until(&w.driver, port_of_primary() != sentinels_port(w.s, 0), SENTINELS_SWITCH_MS), "no event was heard");
}

static void accept_password(const char *password) {
    for (int i = 0; i < SENTINELS; i++) {
        scoped(redis_drop) redis_t *r = sentinel_open(w.s, i);
        redis_ok(r, "ACL SETUSER default >%s", password);
    }
}

static int connections(world_t *of) {
    int count = 0;
    for (int i = 0; i < SENTINELS; i++) count += proxy_connections_total(of->proxies[i]);
    return count;
}

/* An open connection stays logged in. */
Test(redis_sentinel_events, new_password_is_for_new_connections, .timeout = 60) {
    begin("p0", false);
    int opened = connections(&w);
    accept_password("p1");
    write_password("p1\n");
    pass_ms(PERIOD_MS);
    cr_assert_eq(connections(&w), opened);
    cr_assert_eq(metric_get(&w.metrics->sentinels_answering), SENTINELS);
    for (int i = 0; i < SENTINELS; i++) proxy_disconnect(w.proxies[i]);
    cr_assert(driver_until(&w.driver, requests("AUTH p1") == 2L * SENTINELS, SOON_MS), "an ask and a subscription for each");
    cr_assert(driver_until(&w.driver, requests("SUBSCRIBE") == 2L * SENTINELS, SOON_MS));
}

/* The earliest end of all certificates in use is a metric. A sentinel that has a new one shows it within an hour. */
Test(redis_sentinel_events, certificates_of_sentinels_are_watched, .timeout = 60) {
    begin(NULL, true);
    int64_t left_s = metric_get(&w.metrics->certificate_end_s) - (int64_t)time(NULL);
    cr_assert_leq(llabs(left_s - 30 * (int64_t)DAY_S), 60, "%lld", (long long)left_s);
    int opened = connections(&w);
    pass_ms(PERIOD_MS);
    cr_assert_eq(connections(&w), opened, "asks use open connections");
    fixture_step_boottime(HOUR_MS);
    cr_assert(driver_until(&w.driver, connections(&w) == opened + SENTINELS, SOON_MS), "the next ask connects anew");
    cr_assert_eq(metric_get(&w.metrics->sentinels_answering), SENTINELS);
}
