/* All connections of a topology leave a server that is no longer the primary. */
#include "fixture.h"
#include "wait.h"

#include <hiredis/hiredis.h>

static fixture_t f;
SUITE(redis_topology, f = fixture_start(NULL), fixture_stop(&f));

Test(redis_topology, one_readonly_reply_replaces_all_connections) {
    scoped(conn_drop) conn_t *other = conn_new(f.shard, "other", NULL);
    cr_assert_eq(conn_open(other, &f.error), OUTCOME_OK);
    unsigned generation = conn_generation(other);
    redis_ok(f.r, "REPLICAOF 127.0.0.1 1"); /* no server listens there */
    request_begin(f.conn, "SET", "a", "b");
    cr_assert_eq(request_ask(f.conn, NULL, &f.error), OUTCOME_RETRY, "%s", f.error.text);
    cr_assert_not(conn_is_open(f.conn));
    cr_assert_not(conn_is_open(other), "the other connection still trusts its server");
    redis_ok(f.r, "REPLICAOF NO ONE");
    cr_assert_eq(conn_open(other, &f.error), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(conn_generation(other), generation + 1);
    cr_assert(conn_is_open(other), "the new connection is of the new epoch");
}

Test(redis_topology, a_new_primary_ends_the_wait_for_the_old_one) {
    fixture_stop(&f);
    f = fixture_start(&(fixture_options_t){.redis = "timeout = \"60s\";"});
    scoped(fixture_stop) fixture_t next = fixture_start(&(fixture_options_t){.tcp = true});
    redisReply *reply;
    server_freeze(f.server);
    request_append(f.conn, "PING");
    cr_assert_eq(conn_flush(f.conn, &f.error), OUTCOME_OK);
    int64_t start = wait_now_us();
    shard_move(f.shard, "127.0.0.1", server_port(next.server));
    cr_assert_eq(conn_read(f.conn, 0, &reply, &f.error), OUTCOME_DISCONNECTED);
    cr_assert_lt(wait_now_us() - start, 20 * 1000000, "the wait did not end");
    cr_assert_not_null(strstr(f.error.text, "another server became the primary"), "%s", f.error.text);
    server_thaw(f.server);
}

Test(redis_topology, connections_and_missing_primaries_are_counted) {
    metrics_t *metrics = topology_metrics(f.topology);
    scoped(conn_drop) conn_t *other = conn_new(f.shard, "other", NULL);
    cr_assert_eq(metric_get(&metrics->connections), 1);
    cr_assert_eq(conn_open(other, &f.error), OUTCOME_OK);
    cr_assert_eq(conn_open(other, &f.error), OUTCOME_OK);
    cr_assert_eq(metric_get(&metrics->connections), 2, "an open connection is counted once");
    conn_close(other);
    conn_close(other);
    cr_assert_eq(metric_get(&metrics->connections), 1, "a closed connection is subtracted once");
    server_stop(f.server);
    cr_assert_eq(conn_open(other, &f.error), OUTCOME_DISCONNECTED);
    cr_assert_eq(metric_get(&metrics->primaries_missing), 0, "a connection is still open");
    conn_close(f.conn);
    cr_assert_eq(conn_open(other, &f.error), OUTCOME_DISCONNECTED);
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_DISCONNECTED);
    cr_assert_eq(metric_get(&metrics->primaries_missing), 1, "two failed connects to one primary");
    cr_assert_eq(metric_get(&metrics->connections), 0);
}

Test(redis_topology, a_primary_that_refuses_the_password_is_missing) {
    metrics_t *metrics = topology_metrics(f.topology);
    conn_close(f.conn);
    redis_do(f.r, "CONFIG SET requirepass other");
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED, "%s", f.error.text);
    cr_assert_eq(metric_get(&metrics->primaries_missing), 1, "its queues stand still");
    redis_do(f.r, "CONFIG SET requirepass %s", "");
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
    cr_assert_eq(metric_get(&metrics->primaries_missing), 0);
}

Test(redis_topology, a_removed_topology_misses_no_primary) {
    scoped(metrics_drop) metrics_t *metrics = metrics_new(0);
    topology_t *topology = topology_new(&f.config->redis);
    topology_set_metrics(topology, metrics);
    conn_t *conn = conn_new(topology_shard(topology, 0), "other", NULL);
    cr_assert_eq(conn_open(conn, &f.error), OUTCOME_OK);
    conn_close(conn);
    server_stop(f.server);
    cr_assert_eq(conn_open(conn, &f.error), OUTCOME_DISCONNECTED);
    cr_assert_eq(metric_get(&metrics->primaries_missing), 1);
    conn_free(conn);
    topology_free(topology);
    cr_assert_eq(metric_get(&metrics->primaries_missing), 0);
    cr_assert_eq(metric_get(&metrics->connections), 0);
}

Test(redis_topology, only_another_address_is_a_change_of_primary) {
    scoped(config_drop) config_t *config = fixture_config("redis = { socket = \"/none\"; }; queues = ( { name = \"q\"; } );");
    scoped(topology_drop) topology_t *topology = topology_new(&config->redis);
    shard_t *shard = topology_shard(topology, 0);
    const metrics_t *metrics = topology_metrics(topology);
    shard_move(shard, "127.0.0.1", 1);
    cr_assert_eq(metric_get(&metrics->primary_changes), 0, "the first address is no change");
    shard_move(shard, "127.0.0.1", 2);
    shard_move(shard, "127.0.0.1", 2);
    cr_assert_eq(metric_get(&metrics->primary_changes), 1);
    shard_move(shard, "::1", 2);
    shard_move(shard, "0:0::1", 2);
    cr_assert_eq(metric_get(&metrics->primary_changes), 2, "another text of an address is no change");
}

Test(redis_topology, redirects_are_counted_by_kind) {
    static const char *const errors[] = {"MOVED 866 127.0.0.1:1", "ASK 866 127.0.0.1:1", "TRYAGAIN Multiple keys", "ASKEW more"};
    metrics_t *metrics = topology_metrics(f.topology);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        for (size_t n = 0; n <= i; n++) {
            request_append(f.conn, "EVAL", "return redis.error_reply(ARGV[1])", "0", errors[i]);
            cr_assert_neq(conn_read(f.conn, 0, &(redisReply *){0}, &f.error), OUTCOME_OK);
        }
    cr_assert_eq(metric_get(&metrics->redirects[REDIRECTED_moved]), 1);
    cr_assert_eq(metric_get(&metrics->redirects[REDIRECTED_ask]), 2);
    cr_assert_eq(metric_get(&metrics->redirects[REDIRECTED_tryagain]), 3);
}

/* After a failover to another server heartbeats may be missing for a while, so it matters for how long this server has led. */
Test(redis_topology, the_time_of_a_server_begins_anew_with_another_one) {
    static const struct {
        unsigned epoch;
        const char *id;
        bool same; /* as in the row before */
    } rows[] = {{1, "a", false}, {1, "a", true}, {1, "b", false}, {1, "b", true},
                {2, "b", false}, {2, "", false}, {2, "", false}};
    mono_t since = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mono_t now = shard_note_server(f.shard, rows[i].epoch, rows[i].id);
        cr_assert_eq(now.ns == since.ns, rows[i].same, "row %zu", i);
        since = now;
    }
}

static located_t answer; /* of the sentinels */

static outcome_t find_answer(locator_t *locator, mono_t since, const atomic_bool *stop, located_t *located,
                             redis_error_t *error) {
    (void)locator, (void)since, (void)stop;
    *located = answer;
    return error->outcome;
}

static void free_nothing(locator_t *locator) { (void)locator; }

/* Two threads ask the sentinels, and the one with the older answer is slower. */
Test(redis_topology, an_older_answer_of_the_sentinels_is_no_news) {
    static const locator_ops_t ops = {.find = find_answer, .free = free_nothing};
    scoped(config_drop) config_t *config = fixture_config("redis = { socket = \"/none\"; }; queues = ( { name = \"q\"; } );");
    scoped(topology_drop) topology_t *topology = topology_new(&config->redis);
    shard_t *shard = topology_shard(topology, 0);
    static const struct {
        located_t answer;
        int port;
        unsigned moves;
    } rows[] = {
        {{.address = {"127.0.0.1", 1}, .config_epoch = 1, .number = 7}, 1, 1},
        {{.address = {"127.0.0.1", 2}, .config_epoch = 2, .number = 9}, 2, 2},
        {{.address = {"127.0.0.1", 1}, .config_epoch = 1, .number = 8}, 2, 2}, /* older */
        {{.address = {"127.0.0.1", 1}, .config_epoch = 1, .number = 9}, 2, 2}, /* the same ask, as another thread has it */
        {{.address = {"127.0.0.1", 3}, .config_epoch = 3, .number = 10}, 3, 3},
    };
    topology_set_locator(topology, &ops, (locator_t *)&answer);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        endpoint_t endpoint;
        answer = rows[i].answer;
        unsigned epoch = shard_epoch(shard);
        cr_assert_eq(shard_locate(shard, mono_now(), NULL, &f.error), OUTCOME_OK);
        unsigned now = shard_address(shard, &endpoint);
        cr_assert_eq(endpoint.port, rows[i].port, "answer %zu", i);
        cr_assert_eq(shard_moves(shard), rows[i].moves, "answer %zu", i);
        bool news = i == 0 || rows[i].moves > rows[i - 1].moves;
        cr_assert_eq(now != epoch, news, "answer %zu: connections were replaced for nothing", i);
    }
}
