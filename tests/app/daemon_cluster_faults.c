/* The program on a Redis Cluster in trouble: nodes that are away at the start, slots without a node, nodes with an old map. */
#include "cluster.h"
#include "daemon.h"
#include "redis_cluster.h"
#include "wait.h"

#include <signal.h>

enum { QUEUES = 6, UP_MS = 15000, SOON_MS = 5000 };

static daemon_t *start_with(nodes_t *nodes, int queues, const char *lock) {
    char *seeds = nodes_seeds(nodes), *names = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&names, &size);
    for (int i = 0; i < queues; i++) fprintf(out, "%s{ name = \"{q%d}\"; }", i ? ", " : "", i);
    fclose(out);
    daemon_t *d = daemon_start("group = \"g\";\nredis = { nodes = [%s]; };\nlock = { %s };\n"
                               "dispatcher = { safety_poll = \"1h\"; };\nhttp = { port = 0; };\nlog = { format = \"json\"; };\n"
                               "defaults = { heartbeat = \"off\"; };\nqueues = ( %s );\n",
                               seeds, lock, names);
    free(seeds);
    free(names);
    return d;
}

static daemon_t *start(nodes_t *nodes, int queues) { return start_with(nodes, queues, "ttl = \"1s\";"); }

static bool is_sound(redis_t *r) {
    char *info = redis_str(r, "CLUSTER INFO");
    return strstr(info, "cluster_state:ok") != NULL;
}

static bool is_up(const nodes_t *nodes) {
    bool up = true;
    for (size_t i = 0; i < nodes->count; i++) {
        scoped(redis_drop) redis_t *r = redis_open(nodes->servers[i]);
        up = up && is_sound(r);
    }
    return up;
}

/* Whether a job that is due now is promoted on this node within the time. */
static bool promotes(const nodes_t *nodes, size_t node, const char *queue, int ms) {
    static int number;
    char job[32];
    scoped(redis_drop) redis_t *r = redis_open(nodes->servers[node]);
    snprintf(job, sizeof job, "job-%d", ++number);
    redis_ok(r, "ZADD %s:delayed 1 %s", queue, job);
    bool came = wait_for(redis_int(r, "LLEN %s", queue) > 0, ms);
    if (came) redis_expect(r, job, "RPOP %s", queue);
    return came;
}

static void expect_all(nodes_t *nodes, int ms) {
    for (int i = 0; i < QUEUES; i++) {
        char queue[16];
        snprintf(queue, sizeof queue, "{q%d}", i);
        size_t node = nodes_owner(nodes, nodes_slot(nodes, queue));
        cr_assert(promotes(nodes, node, queue, ms), "the job of %s does not come", queue);
    }
}

/* The number of a metric in the newest line that SIGUSR1 has caused. */
static long long metric(daemon_t *d, const char *name) {
    int before = daemon_log_count(d, "\"redis_up\"");
    daemon_signal(d, SIGUSR1);
    cr_assert(wait_for(daemon_log_count(d, "\"redis_up\"") > before, SOON_MS));
    char *log = daemon_log(d), *newest = NULL, field[64];
    for (char *at = log; (at = strstr(at, "\"redis_up\"")); at++) newest = at;
    while (newest > log && newest[-1] != '\n') newest--;
    snprintf(field, sizeof field, "\"%s\":", name);
    char *found = strstr(newest, field);
    cr_assert_not_null(found, "no %s in %s", name, newest);
    return strtoll(found + strlen(field), NULL, 10);
}

static void kill_all(nodes_t *nodes) {
    for (size_t i = 0; i < nodes->count; i++) server_kill(nodes->servers[i]);
}

static void restart_all(nodes_t *nodes) {
    for (size_t i = 0; i < nodes->count; i++) server_restart(nodes->servers[i], SERVER_LOSE_DATA);
    cr_assert(wait_for(is_up(nodes), UP_MS));
}

static nodes_t nodes;
SUITE(daemon_cluster_faults, , nodes_free(&nodes));

Test(daemon_cluster_faults, nodes_that_are_away_at_the_start_are_found_soon_after_they_come) {
    nodes = nodes_start(3, 0);
    kill_all(&nodes);
    scoped(daemon_end) daemon_t *d = start(&nodes, QUEUES);
    cr_assert(daemon_wait_log(d, "cannot learn where the primary is", SOON_MS));
    restart_all(&nodes);
    expect_all(&nodes, SOON_MS);
}

Test(daemon_cluster_faults, a_slot_that_gets_a_node_is_served_soon) {
    nodes = nodes_start(3, 0);
    char drop[64], add[64];
    unsigned slot = nodes_slot(&nodes, "{q0}");
    size_t owner = nodes_owner(&nodes, slot);
    snprintf(drop, sizeof drop, "CLUSTER DELSLOTS %u", slot);
    snprintf(add, sizeof add, "CLUSTER ADDSLOTS %u", slot);
    nodes_do(&nodes, "CONFIG SET cluster-require-full-coverage no");
    nodes_do(&nodes, drop);
    scoped(daemon_end) daemon_t *d = start(&nodes, 1);
    cr_assert(cluster_stays(daemon_log_count(d, "\"leading\"") == 0, 1000));
    redis_t *r = redis_open(nodes.servers[owner]);
    redis_ok(r, add);
    redis_close(r);
    cr_assert(promotes(&nodes, owner, "{q0}", SOON_MS), "the job does not come");
}

/* Returns the longest time that a job of this queue at node 1 takes. */
static int64_t worst_of_4_s(const char *queue) {
    int64_t worst_ms = 0;
    for (int64_t until = wait_now_us() + 4000000; wait_now_us() < until;) {
        int64_t began = wait_now_us();
        cr_assert(promotes(&nodes, 1, queue, UP_MS));
        if ((wait_now_us() - began) / 1000 > worst_ms) worst_ms = (wait_now_us() - began) / 1000;
    }
    return worst_ms;
}

/* The owner alone says that nobody serves the slot. Node 0, which is asked first, names it still. */
Test(daemon_cluster_faults, a_slot_that_its_node_does_not_serve_delays_no_other_queue) {
    nodes = nodes_start(2, 0);
    char queue[16], cut_off[16] = "", other[16] = "";
    for (int i = 0; i < QUEUES; i++) {
        snprintf(queue, sizeof queue, "{q%d}", i);
        if (nodes_owner(&nodes, nodes_slot(&nodes, queue)) == 1) memcpy(*cut_off ? other : cut_off, queue, sizeof queue);
    }
    cr_assert(*other);
    unsigned slot = nodes_slot(&nodes, cut_off);
    nodes_do(&nodes, "CONFIG SET cluster-require-full-coverage no");
    scoped(daemon_end) daemon_t *d = start(&nodes, QUEUES);
    expect_all(&nodes, UP_MS);
    scoped(redis_drop) redis_t *r = redis_open(nodes.servers[1]);
    redis_ok(r, "CLUSTER DELSLOTS %u", slot);
    int64_t worst_ms = worst_of_4_s(other);
    for (int i = 0; i < 2 && worst_ms >= wait_scaled_ms(500); i++) worst_ms = worst_of_4_s(other); /* the machine was busy */
    redis_ok(r, "CLUSTER ADDSLOTS %u", slot);
    cr_assert(promotes(&nodes, 1, cut_off, SOON_MS), "its queue is not served again");
    fprintf(stderr, "worst %lld ms, lost terms %d\n", (long long)worst_ms, daemon_log_count(d, "no longer leading"));
    cr_assert_lt(worst_ms, wait_scaled_ms(500), "a job of another queue comes after %lld ms", (long long)worst_ms);
    cr_assert_leq(daemon_log_count(d, "no longer leading"), 1);
}

/* Gives a slot of a dead node to another one, as `redis-cli --cluster fix` does. */
static void adopt_slot(unsigned slot, size_t to) {
    redis_t *r = redis_open(nodes.servers[to]);
    char *id = redis_str(r, "CLUSTER MYID");
    redis_ok(r, "CLUSTER DELSLOTS %u", slot);
    redis_ok(r, "CLUSTER ADDSLOTS %u", slot);
    redis_close(r);
    for (size_t i = 0; i < nodes.count; i++) {
        if (i == to || nodes.down[i]) continue;
        r = redis_open(nodes.servers[i]);
        redis_ok(r, "CLUSTER SETSLOT %u NODE %s", slot, id);
        redis_close(r);
    }
}

Test(daemon_cluster_faults, a_dead_node_without_queues_of_ours_is_not_missed) {
    nodes = nodes_start(3, 0);
    nodes_do(&nodes, "CONFIG SET cluster-require-full-coverage no");
    scoped(daemon_end) daemon_t *d = start(&nodes, QUEUES);
    expect_all(&nodes, UP_MS);
    cr_assert_eq(metric(d, "redis_up"), 1);
    size_t dead = nodes_owner(&nodes, nodes_slot(&nodes, "{q0}")), heir = dead ? 0 : 1;
    unsigned slots[QUEUES];
    bool lost[QUEUES];
    for (int i = 0; i < QUEUES; i++) {
        char queue[16];
        snprintf(queue, sizeof queue, "{q%d}", i);
        slots[i] = nodes_slot(&nodes, queue);
        lost[i] = nodes_owner(&nodes, slots[i]) == dead;
    }
    server_kill(nodes.servers[dead]);
    nodes.down[dead] = true;
    cr_assert(wait_for(metric(d, "redis_up") == 0 && metric(d, "primaries_missing") == 1, SOON_MS));
    for (int i = 0; i < QUEUES; i++)
        if (lost[i]) adopt_slot(slots[i], heir);
    for (int i = 0; i < QUEUES; i++) {
        char queue[16];
        snprintf(queue, sizeof queue, "{q%d}", i);
        cr_assert(promotes(&nodes, nodes_owner(&nodes, slots[i]), queue, UP_MS), "%s", queue);
    }
    bool good = wait_for(metric(d, "redis_up") == 1 && metric(d, "primaries_missing") == 0, SOON_MS);
    cr_assert(good, "redis_up %lld, missing %lld", metric(d, "redis_up"), metric(d, "primaries_missing"));
}

static long long epoch_of(size_t node) {
    scoped(redis_drop) redis_t *r = redis_open(nodes.servers[node]);
    char *info = redis_str(r, "CLUSTER INFO"), *found = strstr(info, "cluster_current_epoch:");
    return strtoll(found + strlen("cluster_current_epoch:"), NULL, 10);
}

/* Node 0 is asked first. It has the highest epoch, too, but does not hear of the move, as in a net that is cut in two. */
Test(daemon_cluster_faults, the_old_map_of_a_node_that_is_cut_off_is_not_believed) {
    nodes = nodes_start(4, 0);
    if (server_major(nodes.servers[0]) > 7) { /* a node tells the others to forget, too (redis src/cluster_legacy.c) */
        nodes_free(&nodes);
        cr_skip_test("CLUSTER FORGET cuts off one node only before Redis 7.2");
    }
    scoped(daemon_end) daemon_t *d = start(&nodes, QUEUES);
    expect_all(&nodes, UP_MS);
    unsigned slot = 0, any = 0;
    size_t from = 0, to = 0;
    char queue[16];
    for (int i = 0; i < QUEUES && !from; i++) {
        snprintf(queue, sizeof queue, "{q%d}", i);
        slot = nodes_slot(&nodes, queue);
        from = nodes_owner(&nodes, slot);
    }
    to = from == 1 ? 2 : 1;
    while (nodes_owner(&nodes, any) != from || any == slot) any += 100;
    nodes_move(&nodes, any, to); /* this gives the target the highest epoch, so the next move raises none */
    cr_assert(wait_for(epoch_of(0) == epoch_of(to), UP_MS));
    scoped(redis_drop) redis_t *target = redis_open(nodes.servers[to]), *r = redis_open(nodes.servers[0]);
    char *id = redis_str(target, "CLUSTER MYID");
    redis_ok(r, "CLUSTER FORGET %s", id);
    cr_assert(wait_for(!is_sound(r), UP_MS));
    nodes.down[0] = true; /* so that nobody waits for it */
    nodes_move(&nodes, slot, to);
    cr_assert(promotes(&nodes, to, queue, UP_MS), "the job does not come");
    int before = daemon_log_count(d, "still leading");
    (void)cluster_stays(daemon_log_count(d, "still leading") < before + 10, 4000);
    cr_assert_lt(daemon_log_count(d, "still leading"), before + 10, "the roles of the queue are replaced again and again");
    cr_assert(promotes(&nodes, to, queue, SOON_MS), "the job does not come");
}

Test(daemon_cluster_faults, an_instance_that_starts_during_the_move_of_its_only_slot_serves_it_soon_after) {
    nodes = nodes_start(2, 0);
    unsigned slot = nodes_slot(&nodes, "{q0}");
    size_t from = nodes_owner(&nodes, slot);
    nodes_move_begin(&nodes, slot, 1 - from);
    scoped(daemon_end) daemon_t *d = start(&nodes, 1);
    cr_assert(cluster_stays(daemon_log_count(d, "\"leading\"") == 0, 2000));
    for (size_t i = 0; i < 2; i++) {
        scoped(redis_drop) redis_t *r = redis_open(nodes.servers[i]);
        redis_ok(r, "CLUSTER SETSLOT %u STABLE", slot);
    }
    int64_t began = wait_now_us();
    cr_assert(promotes(&nodes, from, "{q0}", UP_MS));
    int64_t took_ms = (wait_now_us() - began) / 1000;
    cr_assert_lt(took_ms, wait_scaled_ms(2000), "the job comes after %lld ms", (long long)took_ms);
}

static void delay(redis_t *r, const char *queue, const char *job, int delay_ms) {
    redis_ok(r, "ZADD %s:delayed %lld %s", queue, redis_ms(r) + delay_ms, job);
}

/* A move that is given up ends without MOVED. */
Test(daemon_cluster_faults, a_queue_goes_on_soon_after_the_move_of_its_slot_is_given_up) {
    nodes = nodes_start(2, 0);
    unsigned slot = nodes_slot(&nodes, "{q0}");
    size_t from = nodes_owner(&nodes, slot);
    scoped(daemon_end) daemon_t *d = start(&nodes, QUEUES);
    expect_all(&nodes, UP_MS);
    scoped(redis_drop) redis_t *r = redis_open(nodes.servers[from]);
    delay(r, "{q0}", "held", 500);
    nodes_move_begin(&nodes, slot, 1 - from);
    cr_assert(wait_for(cluster_says(d, "redis refuses to promote", "its slot is being moved"), UP_MS));
    for (size_t i = 0; i < 2; i++) {
        scoped(redis_drop) redis_t *node = redis_open(nodes.servers[i]);
        redis_ok(node, "CLUSTER SETSLOT %u STABLE", slot);
    }
    int64_t began = wait_now_us();
    cr_assert(wait_for(redis_int(r, "LLEN {q0}") == 1, UP_MS), "the job does not come");
    int64_t took_ms = (wait_now_us() - began) / 1000;
    cr_assert_lt(took_ms, wait_scaled_ms(1500), "the job comes after %lld ms", (long long)took_ms);
}

/* Stops an instance beside a frozen node. Returns after how many ms it has released the lock of this queue at node 1. */
static int64_t release_ms(const char *queue) {
    scoped(daemon_drop) daemon_t *d = start_with(&nodes, QUEUES, "ttl = \"10s\";");
    expect_all(&nodes, UP_MS);
    scoped(redis_drop) redis_t *r = redis_open(nodes.servers[1]);
    server_freeze(nodes.servers[0]);
    int64_t began = wait_now_us();
    daemon_signal(d, SIGTERM);
    cr_assert(wait_for(!redis_int(r, "EXISTS sidecar:%s:lock", queue), UP_MS));
    int64_t took_ms = (wait_now_us() - began) / 1000;
    cr_assert_eq(daemon_wait_exit(d, UP_MS).code, 0);
    server_thaw(nodes.servers[0]);
    return took_ms;
}

/* The roles of the frozen node wait for replies when they are stopped. */
Test(daemon_cluster_faults, a_silent_node_delays_no_release_at_the_end) {
    nodes = nodes_start(3, 0);
    char name[16] = "";
    nodes_do(&nodes, "CONFIG SET cluster-require-full-coverage no");
    for (int i = 0; i < QUEUES; i++) {
        char queue[16];
        snprintf(queue, sizeof queue, "{q%d}", i);
        if (nodes_owner(&nodes, nodes_slot(&nodes, queue)) == 1) memcpy(name, queue, sizeof name);
    }
    int64_t took_ms = release_ms(name);
    for (int i = 0; i < 2 && took_ms >= wait_scaled_ms(300); i++) took_ms = release_ms(name); /* the machine was busy */
    cr_assert_lt(took_ms, wait_scaled_ms(300), "released after %lld ms", (long long)took_ms);
}
