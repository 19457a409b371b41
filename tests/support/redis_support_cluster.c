/* Tests of the test support: a real Redis Cluster. */
#include "redis_cluster.h"
#include "suite.h"
#include "wait.h"

static void expect_value(nodes_t *nodes, const char *key, const char *value) {
    scoped(redis_drop) redis_t *r = nodes_open(nodes, key);
    redis_expect(r, value, "GET %s", key);
}

static void put(nodes_t *nodes, const char *key, const char *value) {
    scoped(redis_drop) redis_t *r = nodes_open(nodes, key);
    redis_ok(r, "SET %s %s", key, value);
    cr_assert_eq(redis_int(r, "WAIT 1 5000"), 1);
}

Test(redis_support_cluster, fails_over_by_command_and_by_kill) {
    scoped(nodes_free) nodes_t nodes = nodes_start(3, 1);
    unsigned slot = nodes_slot(&nodes, "k");
    size_t first = nodes_owner(&nodes, slot);
    put(&nodes, "k", "v");
    nodes_fail_over(&nodes, slot);
    size_t second = nodes_owner(&nodes, slot);
    cr_assert_neq(first, second);
    expect_value(&nodes, "k", "v");
    cr_assert_eq(nodes_kill_primary(&nodes, slot), second);
    cr_assert_eq(nodes_owner(&nodes, slot), first);
    expect_value(&nodes, "k", "v");
    nodes_revive(&nodes, second);
}

Test(redis_support_cluster, moves_a_slot_in_steps) {
    scoped(nodes_free) nodes_t nodes = nodes_start(2, 0);
    unsigned slot = nodes_slot(&nodes, "{t}");
    size_t from = nodes_owner(&nodes, slot), to = 1 - from;
    scoped(redis_drop) redis_t *r = redis_open(nodes.servers[from]);
    redis_ok(r, "SET {t}1 a");
    redis_ok(r, "SET {t}2 b");
    nodes_move_begin(&nodes, slot, to);
    char *error = redis_error(r, "GET {t}3");
    cr_assert_eq(strncmp(error, "ASK ", 4), 0, "%s", error);
    error = redis_error(r, "MGET {t}1 {t}3");
    cr_assert_eq(strncmp(error, "TRYAGAIN ", 9), 0, "%s", error);
    cr_assert_eq(nodes_move_keys(&nodes, slot, to, 1), 1);
    nodes_move_finish(&nodes, slot, to);
    error = redis_error(r, "GET {t}1");
    cr_assert_eq(strncmp(error, "MOVED ", 6), 0, "%s", error);
    expect_value(&nodes, "{t}1", "a");
    expect_value(&nodes, "{t}2", "b");
}

Test(redis_support_cluster, adds_and_removes_a_node) {
    scoped(nodes_free) nodes_t nodes = nodes_start(2, 0);
    unsigned slot = nodes_slot(&nodes, "k");
    size_t old = nodes_owner(&nodes, slot), added = nodes_add(&nodes);
    redis_t *r = nodes_open(&nodes, "k");
    redis_ok(r, "SET k v");
    redis_close(r);
    nodes_move(&nodes, slot, added);
    expect_value(&nodes, "k", "v");
    nodes_move(&nodes, slot, old);
    nodes_remove(&nodes, added);
    expect_value(&nodes, "k", "v");
}
