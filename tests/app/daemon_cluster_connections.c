/* The connections of an instance to the nodes of a Cluster: at most 6 to each node for the queues that it leads, 3 for those that
 * it stands by for, and one in all. */
#include "daemon.h"
#include "redis_cluster.h"
#include "suite.h"
#include "wait.h"

enum { NODES = 3, QUEUES = 12, LEADER = 6, STANDBY = 3, MORE = 1, TTL_S = 12 };

static daemon_t *start(nodes_t *nodes, int ttl_s) {
    char *seeds = nodes_seeds(nodes), *queues = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&queues, &size);
    for (int i = 0; i < QUEUES; i++) fprintf(out, "%s{ name = \"{q%d}\"; }", i ? ", " : "", i);
    fclose(out);
    daemon_t *d = daemon_start("group = \"g\";\nredis = { nodes = [%s]; };\nlock = { ttl = \"%ds\"; };\n"
                               "http = { port = 0; };\nlog = { format = \"json\"; };\nqueues = ( %s );\n",
                               seeds, ttl_s, queues);
    free(seeds);
    free(queues);
    return d;
}

/* The connections of all sidecars to a node whose name begins with this. */
static int count_at(const nodes_t *nodes, size_t node, const char *name) {
    int count = 0;
    if (!nodes->servers[node] || nodes->down[node]) return 0;
    scoped(redis_drop) redis_t *r = redis_open(nodes->servers[node]);
    char *list = redis_str(r, "CLIENT LIST");
    char *word = kept_printf(" name=queue-sidecar%s", name);
    for (const char *at = list; (at = strstr(at, word)); at++) count++;
    return count;
}

static int count_all(const nodes_t *nodes, const char *name) {
    int count = 0;
    for (size_t i = 0; i < nodes->count; i++) count += count_at(nodes, i, name);
    return count;
}

/* Asserts that no more connections come than `node_most` to a node beside `before`, and `most` in all. */
static int expect_connections(const nodes_t *nodes, const int before[NODES_MAX], int node_most, int most) {
    int64_t until = wait_now_us() + 2000000;
    int sum = 0;
    while (wait_now_us() < until) {
        sum = 0;
        for (size_t i = 0; i < nodes->count; i++) {
            int count = count_at(nodes, i, "") - before[i];
            cr_assert_leq(count, node_most, "%d connections to node %zu", count, i);
            sum += count;
        }
        cr_assert_leq(sum, most, "%d connections", sum);
    }
    return sum;
}

static nodes_t nodes;
SUITE(daemon_cluster_connections, , nodes_free(&nodes));

Test(daemon_cluster_connections, are_limited, .timeout = 120) {
    nodes = nodes_start(NODES, 0);
    int before[NODES_MAX] = {0};
    scoped(daemon_end) daemon_t *leader = start(&nodes, TTL_S);
    cr_assert(wait_for(daemon_log_count(leader, "\"msg\":\"leading\"") == QUEUES, 20000));
    cr_assert(wait_for(count_all(&nodes, "") >= LEADER * NODES, 10000));
    int led = expect_connections(&nodes, before, LEADER + MORE, LEADER * NODES + MORE);
    for (size_t i = 0; i < nodes.count; i++) before[i] = count_at(&nodes, i, "");
    scoped(daemon_end) daemon_t *standby = start(&nodes, TTL_S);
    cr_assert(wait_for(daemon_log_count(standby, "\"msg\":\"standing by\"") == QUEUES, 20000));
    int stood = expect_connections(&nodes, before, STANDBY + MORE, STANDBY * NODES + MORE);
    fprintf(stderr, "%d connections to %d nodes while leading, %d while standing by\n", led, NODES, stood);
}

/* For takeovers: a slow machine has more time before the locks expire. */
static int ttl_s(void) { return wait_scaled_ms(TTL_S * 1000) / 1000; }

static void expect_takeover(daemon_t *leader, daemon_t *standby, int locks) {
    daemon_stop(leader);
    int64_t began = wait_now_us();
    cr_assert(wait_for(daemon_log_count(standby, "\"msg\":\"leading\"") == locks, 10000), "a release was not heard of");
    cr_assert_lt(wait_now_us() - began, (int64_t)ttl_s() * 1000000 / 2, "the locks have expired instead");
}

/* Begins with a leader and a standby. */
static void begin(daemon_t **leader, daemon_t **standby) {
    *leader = start(&nodes, ttl_s());
    cr_assert(wait_for(daemon_log_count(*leader, "\"msg\":\"leading\"") == QUEUES, 20000));
    *standby = start(&nodes, ttl_s());
    cr_assert(wait_for(daemon_log_count(*standby, "\"msg\":\"standing by\"") == QUEUES, 20000));
    cr_assert(wait_for(count_all(&nodes, "-vacant") == NODES, 10000), "the standby listens at each node");
}

Test(daemon_cluster_connections, standby_hears_of_released_locks_after_a_failover, .timeout = 120) {
    nodes = nodes_start(NODES, 1);
    daemon_t *leader;
    scoped(daemon_end) daemon_t *standby;
    begin(&leader, &standby);
    nodes_kill_primary(&nodes, nodes_slot(&nodes, "{q0}"));
    cr_assert(wait_for(count_all(&nodes, "-leader") == 2 * NODES, 20000));
    cr_assert(wait_for(count_all(&nodes, "-vacant") == NODES, 20000), "the standby does not listen after the failover");
    expect_takeover(leader, standby, QUEUES);
}

/* Freezes the node of the first queue; its connections stay open. Returns the number of locks that are at other nodes. */
static int freeze_node(size_t *node) {
    int locks = 0;
    *node = nodes_owner(&nodes, nodes_slot(&nodes, "{q0}"));
    for (int i = 0; i < QUEUES; i++) {
        char queue[16];
        snprintf(queue, sizeof(queue), "{q%d}", i);
        locks += nodes_owner(&nodes, nodes_slot(&nodes, queue)) != *node;
    }
    server_freeze(nodes.servers[*node]);
    nodes.down[*node] = true;
    return locks;
}

/* No replica takes over. */
Test(daemon_cluster_connections, standby_hears_of_released_locks_beside_a_frozen_node, .timeout = 120) {
    nodes = nodes_start(NODES, 0);
    daemon_t *leader;
    scoped(daemon_end) daemon_t *standby;
    size_t node;
    nodes_do(&nodes, "CONFIG SET cluster-require-full-coverage no");
    begin(&leader, &standby);
    int locks = freeze_node(&node);
    expect_takeover(leader, standby, locks);
    server_thaw(nodes.servers[node]);
}

Test(daemon_cluster_connections, a_takeover_after_a_kill_does_not_wait_for_a_frozen_node, .timeout = 120) {
    nodes = nodes_start(NODES, 0);
    scoped(daemon_drop) daemon_t *leader;
    scoped(daemon_end) daemon_t *standby;
    size_t node;
    nodes_do(&nodes, "CONFIG SET cluster-require-full-coverage no");
    begin(&leader, &standby);
    int locks = freeze_node(&node);
    daemon_kill(leader);
    int64_t began = wait_now_us();
    cr_assert(wait_for(daemon_log_count(standby, "\"msg\":\"leading\"") == locks, 30000));
    cr_assert_leq(wait_now_us() - began, ttl_s() * INT64_C(1000000) + wait_scaled_ms(1000) * 1000);
    server_thaw(nodes.servers[node]);
}

/* Calls of scripts in all nodes: nearly all requests of idle instances are. */
static long long scripts(void) {
    long long count = 0;
    for (size_t i = 0; i < nodes.count; i++) count += server_commandstat(nodes.servers[i], "evalsha");
    return count;
}

/* With a TTL of a second: the number for each lock in a TTL, over some TTLs. */
static double scripts_of_lock(void) {
    enum { TTLS = 8 };
    long long before = scripts();
    int64_t began = wait_now_us();
    wait_for(wait_now_us() - began > TTLS * 1000000, 2 * TTLS * 1000);
    return (double)(scripts() - before) * 1e6 / (double)(wait_now_us() - began) / QUEUES;
}

/* A TTL has three renewals by the leader, and one look by the standby. The rest does not depend on the TTL: 0.3 a second at most.
 */
Test(daemon_cluster_connections, idle_locks_cost_few_requests, .timeout = 120) {
    nodes = nodes_start(NODES, 0);
    scoped(daemon_end) daemon_t *leader = start(&nodes, 1);
    cr_assert(wait_for(daemon_log_count(leader, "\"msg\":\"leading\"") == QUEUES, 20000));
    scripts_of_lock(); /* what begins settles */
    double led = scripts_of_lock();
    for (int i = 0; i < 2 && led > 3.3 + 0.3; i++) led = scripts_of_lock(); /* the machine was busy */
    scoped(daemon_end) daemon_t *standby = start(&nodes, 1);
    cr_assert(wait_for(daemon_log_count(standby, "\"msg\":\"standing by\"") == QUEUES, 20000));
    scripts_of_lock();
    double stood = scripts_of_lock() - led;
    for (int i = 0; i < 2 && stood > 1.1 + 0.3; i++) stood = scripts_of_lock() - led;
    fprintf(stderr, "%.2f scripts a lock and TTL by the leader, %.2f by the standby\n", led, stood);
    cr_assert_leq(led, 3.3 + 0.3);
    cr_assert_leq(stood, 1.1 + 0.3);
}
