/* G2, G3 and G9 while the test kills, pauses, terminates and starts sidecars at random, and while connections break at random.
 * QS_SEED=n repeats the random numbers of a run; QS_LONG=1 runs twenty times as long. */
#include "cluster.h"
#include "proxy.h"

#include <signal.h>

enum { BATCH = 50, TAKE = 500, MIN_FAULTS = 15, SLOWEST_JOB_MS = 1500, SETTLE_MS = 15000 };

typedef enum { RUNS, PAUSED, DEAD } state_t; /* of a sidecar */

typedef struct {
    cluster_t cluster;
    proxy_t *proxy; /* NULL = no proxy */
    uint64_t random;
    size_t total, added, arrived;
    unsigned char *seen;
    int64_t began_us, span_us; /* start and duration of the faults; span_us 0 = the faults are over */
    state_t states[CLUSTER_SIDECARS];
    int connected[CLUSTER_SIDECARS]; /* number of lines "connected" when the sidecar was last started */
    int faults;
} storm_t;

static size_t pick(storm_t *storm, size_t below) { return (size_t)cluster_random(&storm->random, below); }

static storm_t storm_begin(const char *test, size_t jobs, int span_ms) {
    const char *stress = getenv("QS_LONG");
    int times = stress && stress[0] == '1' ? 20 : 1;
    storm_t storm = {.random = cluster_seed(test), .total = jobs * (size_t)times, .span_us = (int64_t)span_ms * 1000 * times};
    storm.cluster = cluster_begin(NULL);
    storm.seen = calloc(storm.total, 1);
    return storm;
}

/* Adds the next jobs. A job is "NUMBER:DUE_MS", so that it is unique and consume can check its time. */
static void produce(storm_t *storm) {
    static const char script[] =
        "local t = redis.call('TIME') local now, id = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[1]) "
        "for delay in string.gmatch(ARGV[2], '%d+') do local due = string.format('%.0f', now + delay) "
        "redis.call('ZADD', KEYS[1], due, id .. ':' .. due) id = id + 1 end return id";
    char delays[BATCH * 8] = "";
    size_t count = storm->total - storm->added < BATCH ? storm->total - storm->added : BATCH, at = 0;
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(delays + at, sizeof(delays) - at, "%d,", (int)pick(storm, SLOWEST_JOB_MS));
    storm->added = (size_t)redis_int(storm->cluster.r, "EVAL %s 1 q:delayed %d %s", script, (int)storm->added, delays);
}

/* Takes ready jobs together with Redis's time, and checks each job. */
static void consume(storm_t *storm) {
    static const char script[] = "local t = redis.call('TIME') local reply = redis.call('RPOP', KEYS[1], ARGV[1]) or {} "
                                 "reply[#reply + 1] = string.format('%s%06d', t[1], t[2]) return reply";
    redisReply *reply = redis_do(storm->cluster.r, "EVAL %s 1 q %d", script, TAKE);
    cr_assert_eq(reply->type, REDIS_REPLY_ARRAY);
    long long now_us = strtoll(reply->element[reply->elements - 1]->str, NULL, 10);
    for (size_t i = 0; i + 1 < reply->elements; i++) {
        char *colon = NULL;
        unsigned long long id = strtoull(reply->element[i]->str, &colon, 10);
        cr_assert(*colon == ':' && id < storm->added, "job %s was never added", reply->element[i]->str);
        long long due_us = strtoll(colon + 1, NULL, 10) * 1000;
        cr_assert_geq(now_us, due_us, "job %llu came %lld us early", id, due_us - now_us);
        if (storm->seen[id]++) cluster_fail(&storm->cluster, "a job came twice");
        storm->arrived++;
    }
    freeReplyObject(reply);
}

static void start_again(storm_t *storm, size_t i) {
    storm->connected[i] = daemon_log_count(storm->cluster.sidecars[i], "\"msg\":\"connected\"");
    daemon_restart(storm->cluster.sidecars[i]);
    storm->states[i] = RUNS;
}

/* Does nothing to a sidecar that is not yet connected: SIGTERM could end it by the default action. */
static void terminate(storm_t *storm, size_t i) {
    daemon_t *d = storm->cluster.sidecars[i];
    if (daemon_log_count(d, "\"msg\":\"connected\"") == storm->connected[i]) return;
    daemon_exit_t end = daemon_terminate(d, 10000);
    cr_assert_eq(end.code, 0, "sidecar %zu ended with code %d, signal %d", i, end.code, end.signal);
    storm->states[i] = DEAD;
}

/* Kills, pauses or terminates one sidecar, or continues or restarts it. */
static void disturb_a_sidecar(storm_t *storm) {
    size_t i = pick(storm, storm->cluster.count);
    daemon_t *d = storm->cluster.sidecars[i];
    daemon_t *leader = cluster_leader(&storm->cluster, "g");
    for (size_t n = 0; leader && pick(storm, 2) && n < storm->cluster.count; n++) /* choose leaders more often */
        if (storm->cluster.sidecars[n] == leader) i = n, d = leader;
    storm->faults++;
    if (storm->states[i] == PAUSED) {
        daemon_continue(d);
        storm->states[i] = RUNS;
    } else if (storm->states[i] == DEAD) {
        start_again(storm, i);
    } else if (pick(storm, 3) == 0) {
        daemon_kill(d);
        storm->states[i] = DEAD;
    } else if (pick(storm, 2) == 0) {
        daemon_pause(d);
        storm->states[i] = PAUSED;
    } else {
        terminate(storm, i);
    }
}

/* Rules of the proxy add up; proxy_pass removes them. */
static void disturb_the_network(storm_t *storm) {
    storm->faults++;
    switch (pick(storm, 6)) {
    case 0: proxy_disconnect(storm->proxy); break;
    case 1: proxy_cut_after(storm->proxy, PROXY_UP, (long)pick(storm, 2000)); break;
    case 2: proxy_cut_after(storm->proxy, PROXY_DOWN, (long)pick(storm, 2000)); break;
    case 3: proxy_pass(storm->proxy); break;
    case 4: proxy_rule(storm->proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = "EVALSHA"}); break;
    default: /* lose the reply to a promotion */
        proxy_rule(storm->proxy,
                   (proxy_rule_t){.action = PROXY_LOSE, .match = "q:delayed q sidecar:q:meta", .nth = 1 + (int)pick(storm, 3)});
    }
    if (storm->faults % 8 == 0) proxy_pass(storm->proxy);
}

static void calm(storm_t *storm) {
    storm->span_us = 0;
    if (storm->proxy) proxy_pass(storm->proxy);
    for (size_t i = 0; i < storm->cluster.count; i++) {
        if (storm->states[i] == PAUSED) daemon_continue(storm->cluster.sidecars[i]);
        if (storm->states[i] == DEAD) start_again(storm, i);
        storm->states[i] = RUNS;
    }
}

/* Adds and takes jobs and makes a fault now and then. True: the faults are over and every job has arrived. */
static bool step(storm_t *storm) {
    int64_t passed = wait_now_us() - storm->began_us;
    bool over = storm->span_us == 0;
    size_t wanted = over ? storm->total : (size_t)((double)storm->total * (double)passed / (double)storm->span_us);
    while (storm->added < storm->total && storm->added < wanted) produce(storm);
    consume(storm);
    if (over) return storm->arrived == storm->total;
    if (passed >= storm->span_us && storm->faults > MIN_FAULTS)
        calm(storm);
    else if (pick(storm, 3) == 0 && storm->proxy)
        disturb_the_network(storm);
    else if (pick(storm, 4) == 0 && !storm->proxy)
        disturb_a_sidecar(storm);
    return false;
}

/* Runs the storm and returns how many jobs arrived. Each job must come once and not early. */
static size_t storm_run(storm_t *storm) {
    int64_t span_ms = storm->span_us / 1000;
    cluster_await_leader(&storm->cluster, "g", NULL, 10000);
    storm->began_us = wait_now_us();
    bool all = wait_for(step(storm), (int)span_ms + SETTLE_MS);
    fprintf(stderr, "daemon_promises: %zu jobs, %zu arrived, %d faults\n", storm->total, storm->arrived, storm->faults);
    if (!all) cluster_fail(&storm->cluster, "jobs are lost, or no sidecar promotes");
    cr_assert_eq(redis_int(storm->cluster.r, "ZCARD q:delayed"), 0);
    consume(storm); /* no job may come a second time */
    cr_assert_eq(storm->arrived, storm->total);
    cluster_works(&storm->cluster, "q");
    free(storm->seen);
    return storm->arrived;
}

static int terms_begun(const storm_t *storm) {
    int terms = 0;
    for (size_t i = 0; i < storm->cluster.count; i++)
        terms += daemon_log_count(storm->cluster.sidecars[i], "\"msg\":\"leading\"");
    return terms;
}

Test(daemon_promises, jobs_come_once_and_never_early_while_sidecars_die) {
    storm_t storm = storm_begin("daemon_promises/sidecars", 6000, 6000);
    for (int i = 0; i < 5; i++) cluster_sidecar(&storm.cluster, (sidecar_t){.ttl = "300ms"});
    cr_assert_eq(storm_run(&storm), storm.total);
    cr_assert_gt(terms_begun(&storm), 1, "no other sidecar ever led");
    cluster_end(&storm.cluster);
}

Test(daemon_promises, jobs_come_once_and_never_early_while_replies_are_lost) {
    storm_t storm = storm_begin("daemon_promises/network", 6000, 5000);
    storm.proxy = proxy_start(server_socket(storm.cluster.server));
    for (int i = 0; i < 2; i++) cluster_sidecar(&storm.cluster, (sidecar_t){.ttl = "500ms", .socket = proxy_socket(storm.proxy)});
    cr_assert_eq(storm_run(&storm), storm.total);
    cr_assert_gt(proxy_fired(storm.proxy), 5);
    while (storm.cluster.count) daemon_stop(storm.cluster.sidecars[--storm.cluster.count]);
    proxy_stop(storm.proxy);
    cluster_end(&storm.cluster);
}
