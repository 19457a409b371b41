/* Connections to the primary that sentinels name. A server that is no primary any more gets no request, whatever it says of
 * itself: each test here is one of the races of redis/sentinel/group.h. */
#include "base/wakeup.h"
#include "fixture.h"
#include "redis/reply.h"
#include "redis/sentinel/locator.h"
#include "sentinels.h"
#include "wait.h"

#include <poll.h>
#include <pthread.h>

enum { SOON_MS = 5000, UNWATCHED_MS = 1001, RATE_MS = 2000, BURST = 16, ASKS_PER_S = 4 };

typedef struct {
    sentinels_t *s;
    config_t *config;
    topology_t *topology;
    conn_t *conn;
    redis_error_t error;
} client_t;

static client_t client_begin(const char *more) {
    client_t c = {.s = sentinels_begin(NULL)};
    char *settings = sentinels_settings(c.s);
    c.config = fixture_config("redis = { %s %s }; queues = ( { name = \"q\"; } );", settings, more);
    c.topology = topology_new(&c.config->redis);
    locator_attach(c.topology);
    c.conn = conn_new(topology_shard(c.topology, 0), "queue-sidecar-test", NULL);
    free(settings);
    return c;
}

static void client_end(client_t *c) {
    conn_free(c->conn);
    topology_free(c->topology);
    config_free(c->config);
    sentinels_end(c->s);
}

static client_t c;

/* The number of the server that the connection leads to; -1 = it cannot be opened. */
static int client_open(void) {
    if (conn_open(c.conn, &c.error) != OUTCOME_OK) return -1;
    for (int i = 0; i < SENTINEL_SERVERS; i++) {
        const char *port = strrchr(conn_target(c.conn), ':');
        if (port && atoi(port + 1) == server_port(c.s->servers[i])) return i;
    }
    return -1;
}

static outcome_t client_set(const char *key) {
    request_begin(c.conn, "SET", key, "1");
    return request_ask(c.conn, NULL, &c.error);
}

static bool has_key(int server, const char *key) {
    scoped(redis_drop) redis_t *r = redis_open(c.s->servers[server]);
    return redis_int(r, "EXISTS %s", key) == 1;
}

static bool has_role(int server, const char *role) {
    scoped(redis_drop) redis_t *r = redis_open(c.s->servers[server]);
    redisReply *reply = redis_do(r, "ROLE");
    return strcmp(reply->element[0]->str, role) == 0;
}

static int kill_and_switch(void) {
    server_kill(c.s->servers[0]);
    int now = sentinels_await_switch(c.s, 0);
    server_restart(c.s->servers[0], SERVER_KEEP_DATA);
    cr_assert(has_role(0, "master"), "a killed primary must come back as a primary");
    return now;
}

SUITE(redis_sentinel_conn, c = client_begin(""), client_end(&c));

/* Role says master; the sentinels say no. */
Test(redis_sentinel_conn, returned_primary_is_not_believed) {
    cr_assert_eq(client_open(), 0, "%s", c.error.text);
    cr_assert_eq(client_set("before"), OUTCOME_OK);
    int now = kill_and_switch();
    conn_close(c.conn);
    int to = -1;
    cr_assert(wait_for((to = client_open()) >= 0, SOON_MS), "%s", c.error.text);
    cr_assert_eq(to, now, "the connection leads to a former primary that has come back");
    cr_assert_eq(client_set("after"), OUTCOME_OK);
    cr_assert_not(has_key(0, "after"));
}

/* Rule 1: the sentinels were asked just before the connect, and the old primary was back by then. */
Test(redis_sentinel_conn, connect_is_confirmed_after_it) {
    fixture_hold_boottime();
    cr_assert_eq(client_open(), 0, "%s", c.error.text);
    int now = kill_and_switch();
    conn_close(c.conn);
    fixture_step_boottime(500); /* the answer of the sentinels is still recent */
    cr_assert_eq(client_open(), -1);
    cr_assert_eq(c.error.outcome, OUTCOME_DISCONNECTED);
    cr_assert(strstr(c.error.text, "another server became the primary"), "%s", c.error.text);
    cr_assert_eq(client_open(), now, "%s", c.error.text);
}

/* Rule 2: the connection stays open while its server is frozen, and works when it goes on. */
Test(redis_sentinel_conn, open_connection_to_a_thawed_primary_sends_nothing) {
    cr_assert_eq(client_open(), 0, "%s", c.error.text);
    scoped(conn_drop) conn_t *other = conn_like(c.conn, "queue-sidecar-other");
    cr_assert_eq(conn_open(other, &c.error), OUTCOME_OK, "%s", c.error.text);
    server_freeze(c.s->servers[0]);
    int now = sentinels_await_switch(c.s, 0);
    shard_locate(topology_shard(c.topology, 0), mono_now(), NULL, &c.error); /* what the watcher does */
    server_thaw(c.s->servers[0]);
    cr_assert(has_role(0, "master"));
    cr_assert_eq(client_set("after"), OUTCOME_DISCONNECTED);
    cr_assert_not(conn_is_open(other), "connections of other roles must end, too");
    cr_assert_eq(client_open(), now, "%s", c.error.text);
    cr_assert_not(has_key(0, "after"));
}

/* Rule 3: this process was frozen during a failover by command. */
Test(redis_sentinel_conn, request_after_a_long_sleep_asks_first) {
    cr_assert_eq(client_open(), 0, "%s", c.error.text);
    sentinels_failover(c.s);
    int now = sentinels_await_switch(c.s, 0);
    cr_assert(has_role(0, "master"));
    fixture_step_boottime(UNWATCHED_MS);
    cr_assert_eq(client_set("after"), OUTCOME_DISCONNECTED);
    cr_assert_not(has_key(0, "after"), "a former primary got a write");
    cr_assert_eq(client_open(), now, "%s", c.error.text);
}

/* A failover and one back: the address is as before, but not the data that a connection may have seen. */
Test(redis_sentinel_conn, failing_over_and_back_ends_connections) {
    cr_assert_eq(client_open(), 0, "%s", c.error.text);
    redis_t *r = redis_open(c.s->servers[0]);
    redis_ok(r, "CONFIG SET replica-priority 1"); /* the first choice of a failover, once it is a replica */
    redis_close(r);
    for (int now = 0, round = 0; round < 2; round++) {
        int old = now;
        sentinels_failover(c.s);
        now = sentinels_await_switch(c.s, old);
        cr_assert_eq(now == 0, round == 1);
        sentinels_demote(c.s, old);
        sentinels_await_settled(c.s);
    }
    cr_assert(conn_is_open(c.conn));
    shard_locate(topology_shard(c.topology, 0), mono_now(), NULL, &c.error);
    cr_assert_not(conn_is_open(c.conn));
    cr_assert_eq(client_open(), 0, "%s", c.error.text);
}

/* Rule 6. */
Test(redis_sentinel_conn, without_sentinels_open_connections_go_on) {
    cr_assert_eq(client_open(), 0, "%s", c.error.text);
    for (int i = 0; i < SENTINELS; i++) sentinel_kill(c.s, i);
    fixture_step_boottime(UNWATCHED_MS);
    cr_assert_eq(client_set("after"), OUTCOME_OK, "%s", c.error.text);
    conn_close(c.conn);
    cr_assert_eq(client_open(), -1);
    cr_assert(strstr(c.error.text, "none of 3 sentinels answers"), "%s", c.error.text);
    for (int i = 0; i < SENTINELS; i++) sentinel_restart(c.s, i);
    cr_assert(wait_for(client_open() == 0, SOON_MS), "%s", c.error.text);
}

static bool wants_refresh(int fd) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, 0) == 1;
}

typedef struct {
    client_t *client;
    int fd;
    bool wished;
} helper_t;

/* Thaws the server once a refresh is wished. */
static void *thaw_on_wish(void *arg) {
    helper_t *helper = arg;
    helper->wished = wait_for(wants_refresh(helper->fd), SOON_MS);
    server_thaw(helper->client->s->servers[0]);
    return NULL;
}

Test(redis_sentinel_conn, slow_reply_makes_the_watcher_ask) {
    client_end(&c);
    c = client_begin("timeout = \"1m\";");
    helper_t helper = {.client = &c, .fd = wakeup_new()};
    pthread_t thread;
    topology_wake_on_refresh(c.topology, helper.fd);
    cr_assert_eq(client_open(), 0, "%s", c.error.text);
    cr_assert_eq(client_set("before"), OUTCOME_OK);
    cr_assert_not(wants_refresh(helper.fd));
    for (int i = 0; i < SENTINELS; i++) sentinel_freeze(c.s, i); /* no failover */
    server_freeze(c.s->servers[0]);
    pthread_create(&thread, NULL, thaw_on_wish, &helper);
    cr_assert_eq(client_set("after"), OUTCOME_OK, "%s", c.error.text);
    pthread_join(thread, NULL);
    cr_assert(helper.wished, "a reply that takes long raises no suspicion");
    for (int i = 0; i < SENTINELS; i++) sentinel_thaw(c.s, i);
    close(helper.fd);
}

static void expect_suspicion(const char *code) {
    shard_t *shard = topology_shard(c.topology, 0);
    unsigned epoch = shard_epoch(shard);
    cr_assert_neq(request_ask(c.conn, NULL, &c.error), OUTCOME_OK);
    cr_assert_not(conn_is_open(c.conn));
    cr_assert(strstr(c.error.text, code), "%s", c.error.text);
    cr_assert_gt(shard_epoch(shard), epoch, "%s", code);
}

Test(redis_sentinel_conn, errors_of_a_former_primary_end_all_connections) {
    cr_assert_eq(client_open(), 0, "%s", c.error.text);
    request_begin(c.conn, "CLIENT", "TRACKING", "ON", "REDIRECT", "99999");
    expect_suspicion("redirect to does not exist");

    cr_assert_eq(client_open(), 0, "%s", c.error.text);
    request_append(c.conn, "BLPOP", "nothing", "0");
    cr_assert_eq(conn_flush(c.conn, &c.error), OUTCOME_OK);
    redis_t *r = redis_open(c.s->servers[0]);
    cr_assert(wait_for(server_info_int(c.s->servers[0], "clients", "blocked_clients") == 1, SOON_MS));
    redis_ok(r, "REPLICAOF 127.0.0.1 %d", server_port(c.s->servers[1]));
    redis_close(r);
    unsigned epoch = shard_epoch(topology_shard(c.topology, 0));
    struct redisReply *reply = NULL;
    cr_assert_eq(conn_read(c.conn, 0, &reply, &c.error), OUTCOME_RETRY, "%s", c.error.text);
    cr_assert(strstr(c.error.text, "UNBLOCKED"), "%s", c.error.text);
    cr_assert_gt(shard_epoch(topology_shard(c.topology, 0)), epoch);
}

Test(redis_sentinel_conn, sentinels_are_not_asked_too_often) {
    locator_t *locator = topology_locator(c.topology);
    located_t located = {0};
    int64_t until = wait_now_us() + RATE_MS * 1000;
    while (wait_now_us() < until) locator_find(locator, mono_now(), NULL, &located, &c.error);
    cr_assert_leq(located.number, BURST + ASKS_PER_S * (RATE_MS / 1000 + 1));
    cr_assert_geq(located.number, BURST);
}
