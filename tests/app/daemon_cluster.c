/* The program on a real Redis Cluster: jobs move on every shard, through failovers and moves of slots. */
#include "daemon.h"
#include "redis_cluster.h"
#include "relay.h"
#include "suite.h"
#include "tls_harness.h"
#include "wait.h"

#include <signal.h>

enum { ROUND_MS = 15000, SOON_MS = 700, QUEUES = 8 };

/* Returns queues {q0}, {q1} ... for a config; owned. */
static char *queues_of(int count, const char *more) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (int i = 0; i < count; i++) fprintf(out, "%s{ name = \"{q%d}\"; %s }", i ? ", " : "", i, more);
    fclose(out);
    return text;
}

static daemon_t *start_at(const char *seeds, const char *ttl, int count, const char *more) {
    char *queues = queues_of(count, more);
    daemon_t *d = daemon_start("group = \"g\";\nredis = { nodes = [%s]; };\nlock = { ttl = \"%s\"; };\n"
                               "dispatcher = { safety_poll = \"1h\"; };\nhttp = { port = 0; };\nlog = { format = \"json\"; };\n"
                               "defaults = { heartbeat = \"off\"; };\nqueues = ( %s );\n",
                               seeds, ttl, queues);
    free(queues);
    return d;
}

static daemon_t *start(nodes_t *nodes, const char *ttl, int count, const char *more) {
    char *seeds = nodes_seeds(nodes);
    daemon_t *d = start_at(seeds, ttl, count, more);
    free(seeds);
    return d;
}

static void delay(nodes_t *nodes, const char *queue, const char *job, int delay_ms) {
    scoped(redis_drop) redis_t *r = nodes_open(nodes, queue);
    redis_ok(r, "ZADD %s:delayed %lld %s", queue, redis_ms(r) + delay_ms, job);
}

/* Whether the job is next in the ready list; takes it. */
static bool took(nodes_t *nodes, const char *queue, const char *job) {
    redis_t *r = nodes_open(nodes, queue);
    char *got = redis_str(r, "RPOP %s", queue);
    redis_close(r);
    bool same = got && strcmp(got, job) == 0;
    if (got) cr_assert(same, "%s came, not %s", got, job);
    return same;
}

static void expect_rounds_from(nodes_t *nodes, daemon_t *d, int first, int round_ms, const char *when) {
    static int number;
    char queue[16], job[32];
    number++;
    for (int i = first; i < QUEUES; i++) {
        snprintf(queue, sizeof(queue), "{q%d}", i);
        snprintf(job, sizeof(job), "job-%d", number);
        delay(nodes, queue, job, 20);
    }
    for (int i = first; i < QUEUES; i++) {
        snprintf(queue, sizeof(queue), "{q%d}", i);
        if (wait_for(took(nodes, queue, job), round_ms)) continue;
        char *log = daemon_log(d);
        fprintf(stderr, "%s", log);
        cr_assert_fail("%s: the job of %s does not come", when, queue);
    }
}

static void expect_rounds(nodes_t *nodes, daemon_t *d, const char *when) { expect_rounds_from(nodes, d, 0, ROUND_MS, when); }

static nodes_t nodes;
SUITE(daemon_cluster, , nodes_free(&nodes));

Test(daemon_cluster, serves_all_shards_through_failovers_and_moves) {
    nodes = nodes_start(3, 1);
    scoped(daemon_end) daemon_t *d = start(&nodes, "600ms", QUEUES, "");
    expect_rounds(&nodes, d, "at the start");
    unsigned slot = nodes_slot(&nodes, "{q0}");
    nodes_fail_over(&nodes, slot);
    expect_rounds(&nodes, d, "after CLUSTER FAILOVER");
    size_t killed = nodes_kill_primary(&nodes, slot);
    expect_rounds(&nodes, d, "after a kill");
    nodes_revive(&nodes, killed);
    size_t to = nodes_owner(&nodes, nodes_slot(&nodes, "{q1}")), from = nodes_owner(&nodes, slot);
    for (int i = 2; to == from; i++) {
        char queue[16];
        snprintf(queue, sizeof(queue), "{q%d}", i);
        to = nodes_owner(&nodes, nodes_slot(&nodes, queue));
    }
    for (int i = 0; i < 3; i++) {
        nodes_move(&nodes, slot, i % 2 ? from : to);
        expect_rounds(&nodes, d, "after a move");
    }
}

/* The seed is one address that outlives the restart, such as that of a service. */
Test(daemon_cluster, serves_a_cluster_that_comes_back_on_other_ports) {
    if (tls_harness_is_on()) cr_skip_test("behind the relay a node would name its plain port");
    nodes = nodes_start(3, 0);
    relay_t *seed = relay_start(&(relay_options_t){.socket = server_socket(nodes.servers[0])});
    char address[32];
    snprintf(address, sizeof(address), "\"127.0.0.1:%d\"", relay_port(seed));
    daemon_t *d = start_at(address, "600ms", QUEUES, "");
    expect_rounds(&nodes, d, "at the start");
    for (int i = 0; i < 2; i++) {
        delay(&nodes, "{q0}", "kept", 2500);
        nodes_restart_elsewhere(&nodes);
        cr_assert(wait_for(took(&nodes, "{q0}", "kept"), ROUND_MS), "the job from before the restart does not come");
        expect_rounds(&nodes, d, "after a restart on other ports");
    }
    daemon_stop(d);
    relay_stop(seed);
}

/* A primary other than that of the slot. */
static size_t other_primary(unsigned slot) {
    size_t from = nodes_owner(&nodes, slot);
    for (unsigned other = 0; other < SLOTS; other += 100)
        if (nodes_owner(&nodes, other) != from) return nodes_owner(&nodes, other);
    cr_assert_fail("one primary has all slots");
    abort();
}

static bool says(daemon_t *d, const char *one, const char *two) {
    char *log = daemon_log(d), *rest = log;
    bool found = false;
    for (char *line; !found && (line = strsep(&rest, "\n"));) found = strstr(line, one) && strstr(line, two);
    return found;
}

/* Adds a job as a producer does that follows ASK: where the zset is. */
static void produce_during_move(size_t node, const char *job) {
    scoped(redis_drop) redis_t *r = redis_open(nodes.servers[node]);
    redis_ok(r, "ASKING");
    redis_ok(r, "ZADD {q0}:delayed 1 %s", job);
}

/* Moves the keys of the slot, or none, waits for 3 s, and ends the move. */
static void hold_move(daemon_t *d, bool with_keys) {
    unsigned slot = nodes_slot(&nodes, "{q0}");
    size_t from = nodes_owner(&nodes, slot), to = other_primary(slot);
    delay(&nodes, "{q0}", "held", 500);
    nodes_move_begin(&nodes, slot, to);
    if (with_keys) cr_assert_eq(nodes_move_keys(&nodes, slot, to, 1000), 0);
    int64_t until = wait_now_us() + 3000000;
    while (wait_now_us() < until) expect_rounds_from(&nodes, d, 1, SOON_MS, "during the move");
    cr_assert(says(d, "its slot is being moved", "{q0}"));
    produce_during_move(with_keys ? to : from, "late");
    nodes_move_finish(&nodes, slot, to);
    cr_assert(wait_for(took(&nodes, "{q0}", "late"), ROUND_MS), "the job of the moved queue does not come");
    cr_assert(wait_for(took(&nodes, "{q0}", "held"), ROUND_MS), "the job that was held does not come");
    /* If the lock has moved as well, nobody can renew or acquire it. */
    if (!with_keys) cr_assert_not(says(d, "no longer leading", ""), "a term has ended");
    expect_rounds(&nodes, d, "after the move");
}

Test(daemon_cluster, a_move_that_takes_long_holds_its_queue_and_no_other) {
    nodes = nodes_start(3, 0);
    scoped(daemon_end) daemon_t *d = start(&nodes, "1500ms", QUEUES, "");
    expect_rounds(&nodes, d, "at the start");
    hold_move(d, false);
    hold_move(d, true);
}

/* Nobody holds the lock of the moving slot yet, so each attempt to acquire it is refused. */
Test(daemon_cluster, an_instance_that_starts_during_a_move_serves_other_queues) {
    nodes = nodes_start(3, 0);
    unsigned slot = nodes_slot(&nodes, "{q0}");
    size_t to = other_primary(slot);
    nodes_move_begin(&nodes, slot, to);
    scoped(daemon_end) daemon_t *d = start(&nodes, "1500ms", QUEUES, "");
    expect_rounds_from(&nodes, d, 1, ROUND_MS, "at the start");
    int64_t until = wait_now_us() + 3000000;
    while (wait_now_us() < until) expect_rounds_from(&nodes, d, 1, SOON_MS, "during the move");
    cr_assert_not(says(d, "no longer leading", ""), "a term has ended");
    nodes_move_finish(&nodes, slot, to);
    expect_rounds(&nodes, d, "after the move");
}

/* The keys come from a single Redis. The lock of the group is in another slot, so no script may name it. */
Test(daemon_cluster, takes_over_a_queue_of_a_group_in_another_slot) {
    nodes = nodes_start(3, 0);
    redis_t *r = nodes_open(&nodes, "{q0}");
    redis_ok(r, "HSET sidecar:{q0}:meta group mail-app");
    redis_close(r);
    scoped(daemon_end) daemon_t *d = start(&nodes, "600ms", QUEUES, "");
    expect_rounds(&nodes, d, "at the start");
    cr_assert(says(d, "took over the queue of a group without a leader", "mail-app"));
}

static bool is_up(void) {
    bool up = true;
    for (size_t i = 0; i < nodes.count; i++) {
        scoped(redis_drop) redis_t *r = redis_open(nodes.servers[i]);
        char *info = redis_str(r, "CLUSTER INFO");
        up = up && strstr(info, "cluster_state:ok");
    }
    return up;
}

Test(daemon_cluster, a_cluster_that_was_away_at_the_start_is_found) {
    nodes = nodes_start(3, 0);
    char *queues = queues_of(QUEUES, "");
    server_kill(nodes.servers[0]);
    daemon_t *d = daemon_start("group = \"g\";\nredis = { host = \"127.0.0.1\"; port = %d; };\nlock = { ttl = \"600ms\"; };\n"
                               "http = { port = 0; };\nlog = { format = \"json\"; };\n"
                               "defaults = { heartbeat = \"off\"; };\nqueues = ( %s );\n",
                               server_port(nodes.servers[0]), queues);
    cr_assert(daemon_wait_log(d, "cannot reach redis", 5000));
    server_restart(nodes.servers[0], SERVER_LOSE_DATA);
    cr_assert(daemon_wait_log(d, "\"changes\":\"redis is a Cluster\"", 10000));
    cr_assert(wait_for(is_up(), ROUND_MS));
    expect_rounds(&nodes, d, "after Redis was away");
    cr_assert_eq(daemon_log_count(d, "redis is a Cluster"), 1);
    daemon_stop(d);
    free(queues);
}

/* A refused password does not tell what Redis is. */
Test(daemon_cluster, a_cluster_that_refused_the_password_at_the_start_is_found) {
    nodes = nodes_start(3, 0);
    char *queues = queues_of(QUEUES, "");
    daemon_t *d = daemon_start("group = \"g\";\nredis = { host = \"127.0.0.1\"; port = %d; username = \"sidecar\"; "
                               "password = \"late\"; };\nlock = { ttl = \"600ms\"; };\n"
                               "http = { port = 0; };\nlog = { format = \"json\"; };\n"
                               "defaults = { heartbeat = \"off\"; };\nqueues = ( %s );\n",
                               server_port(nodes.servers[0]), queues);
    cr_assert(daemon_wait_log(d, "WRONGPASS", 5000));
    for (size_t i = 0; i < nodes.count; i++) {
        scoped(redis_drop) redis_t *r = redis_open(nodes.servers[i]);
        redis_ok(r, "ACL SETUSER sidecar on >late ~* &* +@all");
    }
    cr_assert(daemon_wait_log(d, "\"changes\":\"redis is a Cluster\"", 10000));
    expect_rounds(&nodes, d, "after the user was made");
    daemon_stop(d);
    free(queues);
}

/* Whether each of the first queues has its lock, and no other has. */
static bool locks_are(int count) {
    bool are = true;
    for (int i = 0; i < QUEUES; i++) {
        char queue[16];
        snprintf(queue, sizeof(queue), "{q%d}", i);
        scoped(redis_drop) redis_t *r = nodes_open(&nodes, queue);
        are = are && redis_int(r, "EXISTS sidecar:%s:lock", queue) == (i < count);
    }
    return are;
}

Test(daemon_cluster, a_reload_releases_the_locks_of_removed_queues) {
    static const char config[] = "group = \"g\";\nredis = { nodes = [%s]; };\nlock = { ttl = \"60s\"; };\nhttp = { port = 0; };\n"
                                 "log = { format = \"json\"; };\ndefaults = { heartbeat = \"off\"; };\nqueues = ( %s );\n";
    enum { KEPT = 2 };
    nodes = nodes_start(3, 0);
    char *seeds = nodes_seeds(&nodes), *all = queues_of(QUEUES, ""), *kept = queues_of(KEPT, "");
    daemon_t *d = daemon_start(config, seeds, all);
    cr_assert(wait_for(locks_are(QUEUES), ROUND_MS));
    cr_assert(wait_for(daemon_log_count(d, "\"msg\":\"leading\"") == QUEUES, ROUND_MS));
    daemon_write_config(d, config, seeds, kept);
    daemon_signal(d, SIGHUP);
    cr_assert(daemon_wait_log(d, "new configuration in effect", ROUND_MS));
    cr_assert(wait_for(locks_are(KEPT), 5000), "the lock of a removed queue stays, or that of another one goes");
    cr_assert(wait_for(daemon_log_count(d, "\"msg\":\"still leading\"") == KEPT, ROUND_MS));
    daemon_stop(d);
    free(kept);
    free(all);
    free(seeds);
}

Test(daemon_cluster, one_address_of_a_cluster_is_enough) {
    nodes = nodes_start(3, 0);
    char *seeds = nodes_seeds(&nodes), *queues = queues_of(QUEUES, ""), host[64];
    int port;
    cr_assert_eq(sscanf(seeds, "\"%63[^:]:%d\"", host, &port), 2, "%s", seeds);
    daemon_t *d = daemon_start("group = \"g\";\nredis = { host = \"%s\"; port = %d; };\nlock = { ttl = \"600ms\"; };\n"
                               "http = { port = 0; };\nlog = { format = \"json\"; };\n"
                               "defaults = { heartbeat = \"off\"; };\nqueues = ( %s );\n",
                               host, port, queues);
    expect_rounds(&nodes, d, "with one address");
    cr_assert_eq(daemon_log_count(d, "redis is a Cluster"), 1);
    daemon_write_config(d,
                        "group = \"g\";\nredis = { host = \"%s\"; port = %d; };\nlock = { ttl = \"600ms\"; };\n"
                        "http = { port = 0; };\nlog = { format = \"json\"; };\ndispatcher = { batch = 7; };\n"
                        "defaults = { heartbeat = \"off\"; };\nqueues = ( %s );\n",
                        host, port, queues);
    daemon_signal(d, SIGHUP);
    cr_assert(daemon_wait_log(d, "\"changes\":\"dispatcher.batch 5000 -> 7\"", 5000));
    expect_rounds(&nodes, d, "after a reload");
    daemon_stop(d);
    free(queues);
    free(seeds);
}
