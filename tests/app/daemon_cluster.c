/* The program on a real Redis Cluster: jobs move on every shard, through failovers and moves of slots. */
#include "daemon.h"
#include "redis_cluster.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UP_MS = 20000, ROUND_MS = 15000 };

/* Returns queues {q0}, {q1} ... for a config; owned. */
static char *queues_of(int count, const char *more) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    for (int i = 0; i < count; i++) fprintf(out, "%s{ name = \"{q%d}\"; %s }", i ? ", " : "", i, more);
    fclose(out);
    return text;
}

static daemon_t *start(nodes_t *nodes, const char *ttl, int count, const char *more) {
    char *seeds = nodes_seeds(nodes), *queues = queues_of(count, more);
    daemon_t *d = daemon_start("group = \"g\";\nredis = { nodes = [%s]; };\nlock = { ttl = \"%s\"; };\n"
                               "dispatcher = { safety_poll = \"1h\"; };\nhttp = { port = 0; };\nlog = { format = \"json\"; };\n"
                               "defaults = { heartbeat = \"off\"; };\nqueues = ( %s );\n",
                               seeds, ttl, queues);
    free(seeds);
    free(queues);
    return d;
}

static void delay(nodes_t *nodes, const char *queue, const char *job, int delay_ms) {
    redis_t *r = nodes_open(nodes, queue);
    redisReply *now = redis_do(r, "TIME");
    long long due = strtoll(now->element[0]->str, NULL, 10) * 1000 + strtoll(now->element[1]->str, NULL, 10) / 1000 + delay_ms;
    freeReplyObject(now);
    redis_ok(r, "ZADD %s:delayed %lld %s", queue, due, job);
    redis_close(r);
}

/* Whether the job is next in the ready list; takes it. */
static bool took(nodes_t *nodes, const char *queue, const char *job) {
    redis_t *r = nodes_open(nodes, queue);
    char *got = redis_str(r, "RPOP %s", queue);
    redis_close(r);
    bool same = got && strcmp(got, job) == 0;
    if (got) cr_assert(same, "%s came, not %s", got, job);
    free(got);
    return same;
}

static void expect_rounds(nodes_t *nodes, daemon_t *d, int count, const char *when) {
    static int number;
    char queue[16], job[32];
    number++;
    for (int i = 0; i < count; i++) {
        snprintf(queue, sizeof(queue), "{q%d}", i);
        snprintf(job, sizeof(job), "job-%d", number);
        delay(nodes, queue, job, 20);
    }
    for (int i = 0; i < count; i++) {
        snprintf(queue, sizeof(queue), "{q%d}", i);
        if (wait_for(took(nodes, queue, job), ROUND_MS)) continue;
        char *log = daemon_log(d);
        fprintf(stderr, "%s", log);
        free(log);
        cr_assert_fail("%s: the job of %s does not come", when, queue);
    }
}

Test(daemon_cluster, serves_all_shards_through_failovers_and_moves) {
    enum { QUEUES = 8 };
    nodes_t nodes = nodes_start(3, 1);
    daemon_t *d = start(&nodes, "600ms", QUEUES, "");
    expect_rounds(&nodes, d, QUEUES, "at the start");
    unsigned slot = nodes_slot(&nodes, "{q0}");
    nodes_fail_over(&nodes, slot);
    expect_rounds(&nodes, d, QUEUES, "after CLUSTER FAILOVER");
    size_t killed = nodes_kill_primary(&nodes, slot);
    expect_rounds(&nodes, d, QUEUES, "after a kill");
    nodes_revive(&nodes, killed);
    size_t to = nodes_owner(&nodes, nodes_slot(&nodes, "{q1}")), from = nodes_owner(&nodes, slot);
    for (int i = 2; to == from; i++) {
        char queue[16];
        snprintf(queue, sizeof(queue), "{q%d}", i);
        to = nodes_owner(&nodes, nodes_slot(&nodes, queue));
    }
    for (int i = 0; i < 3; i++) {
        nodes_move(&nodes, slot, i % 2 ? from : to);
        expect_rounds(&nodes, d, QUEUES, "after a move");
    }
    daemon_stop(d);
    nodes_free(&nodes);
}
