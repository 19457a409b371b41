/* All connections of a topology leave a server that is no longer the primary. */
#include "fixture.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <hiredis/hiredis.h>
#include <string.h>

Test(redis_topology, one_readonly_reply_replaces_all_connections) {
    fixture_t f = fixture_start(NULL);
    conn_t *other = conn_new(f.shard, "other", NULL);
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
    conn_free(other);
    fixture_stop(&f);
}

Test(redis_topology, a_new_primary_ends_the_wait_for_the_old_one) {
    fixture_t f = fixture_start(&(fixture_options_t){.redis = "timeout = \"60s\";"}),
              next = fixture_start(&(fixture_options_t){.tcp = true});
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
    fixture_stop(&next);
    fixture_stop(&f);
}
