/* Real sidecars and workers that die: every job comes back until somebody does it, and none ends that should not. */
#include "audit_log.h"
#include "cluster.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MONITORED(timeout, more)                                                                                                 \
    "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"" timeout "\"; " more " }"

/* Waits, and shows the logs of the sidecars where it waits in vain. */
#define await(cluster, cond, ms)                                                                                                 \
    do {                                                                                                                         \
        if (!wait_for(cond, ms)) cluster_fail(cluster, "never came: " #cond);                                                    \
    } while (0)

Test(daemon_monitor, a_worker_that_dies_gets_no_job_lost) {
    cluster_t s = cluster_begin(NULL);
    cluster_sidecar_up(&s, (sidecar_t){.queues = MONITORED("300ms", "retry_times = 1;"), .scan = "50ms"});
    redis_ok(s.r, "LPUSH q job");
    for (int execution = 1; execution <= 2; execution++) {
        redis_t *worker = redis_open(s.server);
        redis_expect(worker, "job", "BLMOVE q q:backup RIGHT LEFT 10");
        redis_close(worker); /* dies in mid job */
        if (execution == 1) await(&s, redis_int(s.r, "LLEN q") == 1, 10000);
    }
    await(&s, redis_int(s.r, "XLEN sidecar:q:failures") == 2, 10000);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 0);
    await(&s, daemon_log_count(s.sidecars[0], "a job has failed for good") == 1, 10000); /* said once Redis has answered */
    cluster_end(&s);
}

/* The same bytes, put back by hand, begin another life: its end is another event. */
Test(daemon_monitor, a_requeued_job_that_fails_again_has_two_rows) {
    cluster_t s = cluster_begin(NULL);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = MONITORED("1h", ""), .scan = "50ms"});
    for (int life = 1; life <= 3; life++) {
        redis_ok(s.r, "LPUSH q job");
        redis_expect(s.r, "job", "LMOVE q q:backup RIGHT LEFT");
        redis_ok(s.r, "HSET q:errors job !no");
        await(&s, audit_log_rows(daemon_audit_path(d)) == life, 10000);
        cr_assert_eq(redis_int(s.r, "XLEN sidecar:q:failures"), life);
        cr_assert_eq(redis_int(s.r, "EXISTS q:errors"), 0);
    }
    cluster_end(&s);
}

Test(daemon_monitor, a_standby_continues_after_a_killed_leader) {
    enum { ENTRIES = 200000 };
    cluster_t s = cluster_begin(NULL);
    const sidecar_t spec = {.queues = MONITORED("1h", ""), .scan = "50ms"};
    for (int i = 0; i < 20; i++)
        redis_ok(s.r, "EVAL %s 1 q:backup %d",
                 "for i = 1, 10000 do redis.call('LPUSH', KEYS[1], 'job' .. ARGV[1] .. '/' .. i) end", i);
    cr_assert_eq(cluster_crash(&s, spec, "stamp_answered:20"), 137); /* in the middle, however fast it is */
    cr_assert_lt(redis_int(s.r, "HLEN sidecar:q:stamps"), ENTRIES);
    cluster_sidecar_up(&s, spec);
    await(&s, redis_int(s.r, "HLEN sidecar:q:stamps") == ENTRIES, 60000);
    await(&s, redis_int(s.r, "LLEN q:backup") == ENTRIES + 1, 10000);
    cr_assert_eq(redis_int(s.r, "EXISTS q sidecar:q:failures"), 0);
    cluster_end(&s);
}

static const char *const POINTS[] = {"stamp_before",  "stamp_answered",  "push_marker_before", "push_marker_answered",
                                     "settle_before", "settle_sent",     "settle_answered",    "settle_answered:2",
                                     "report_before", "report_answered", "prune_before",       "prune_answered"};
enum { POINT_COUNT = sizeof POINTS / sizeof *POINTS };

ParameterizedTestParameters(daemon_monitor, crash_points) {
    static int numbers[POINT_COUNT];
    for (int i = 0; i < POINT_COUNT; i++) numbers[i] = i;
    return cr_make_param_array(int, numbers, POINT_COUNT);
}

/* The leader dies at each failpoint, before and after each script: its successor continues, no job is lost, and nothing
 * happens twice. */
ParameterizedTest(int *number, daemon_monitor, crash_points) {
    cluster_t s = cluster_begin(NULL);
    const sidecar_t spec = {.queues = MONITORED("1h", ""), .scan = "50ms"};
    redis_ok(s.r, "LPUSH q:backup again ends stays");
    redis_ok(s.r, "HSET q:errors again boom ends !boom stray boom");
    cr_assert_eq(cluster_crash(&s, spec, POINTS[*number]), 137, "%s is never reached", POINTS[*number]);
    cluster_sidecar_up(&s, spec);
    await(&s, redis_int(s.r, "EXISTS q:errors") == 0, 10000);
    await(&s, redis_int(s.r, "HLEN sidecar:q:stamps") == 2, 10000); /* of what stays, and of what is under way */
    redis_expect(s.r, "again", "LINDEX q 0");
    cr_assert_eq(redis_int(s.r, "LLEN q"), 1);
    await(&s, redis_int(s.r, "LLEN q:backup") == 2, 10000); /* stays, and the sentinel */
    cr_assert_eq(redis_int(s.r, "LREM q:backup 0 stays"), 1);
    cr_assert_eq(redis_int(s.r, "XLEN sidecar:q:failures"), 2, "%s", POINTS[*number]);
    cluster_end(&s);
}

enum { JOBS = 2000, SIDECARS = 3 };

/* What the workers know. */
typedef struct {
    cluster_t cluster;
    uint64_t random;
    bool paused[SIDECARS], done[JOBS], given_up[JOBS];
    int deaths, faults;
} storm_t;

static uint64_t pick(storm_t *storm, uint64_t below) { return cluster_random(&storm->random, below); }

/* A worker takes one job: it does it, dies, or says that it has failed. False: there was none. */
static bool work(storm_t *storm) {
    redis_t *r = storm->cluster.r;
    char *job = redis_str(r, "LMOVE q q:backup RIGHT LEFT");
    if (!job) return false;
    long number = strtol(job + strlen("job"), NULL, 10);
    cr_assert(strncmp(job, "job", 3) == 0 && number >= 0 && number < JOBS, "a worker gets %s", job);
    uint64_t fate = pick(storm, 100);
    if (fate < 70) {
        storm->done[number] = true;
        redis_ok(r, "LREM q:backup 1 %s", job);
    } else if (fate < 85) {
        storm->deaths++;
    } else if (fate < 96) {
        redis_ok(r, "HSET q:errors %s boom", job);
    } else {
        storm->given_up[number] = true;
        redis_ok(r, "HSET q:errors %s !never", job);
    }
    free(job);
    return true;
}

static void disturb(storm_t *storm) {
    size_t i = pick(storm, SIDECARS);
    daemon_t *d = storm->cluster.sidecars[i];
    storm->faults++;
    if (!daemon_running(d)) {
        daemon_restart(d);
    } else if (storm->paused[i]) {
        daemon_continue(d);
        storm->paused[i] = false;
    } else if (pick(storm, 2)) {
        daemon_kill(d);
    } else {
        daemon_pause(d);
        storm->paused[i] = true;
    }
}

static void calm(storm_t *storm) {
    for (size_t i = 0; i < SIDECARS; i++) {
        if (storm->paused[i]) daemon_continue(storm->cluster.sidecars[i]);
        if (!daemon_running(storm->cluster.sidecars[i])) daemon_restart(storm->cluster.sidecars[i]);
    }
}

/* Marks the jobs that have ended; each has one record, and was given up by a worker. Returns whether every job has an end. */
static bool all_ended(storm_t *storm) {
    static const char script[] = "local jobs = {} for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do local f = {} "
                                 "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                                 "if f.kind == 'failed' then jobs[#jobs + 1] = f.payload end end return jobs";
    char ended[JOBS] = {0};
    redisReply *jobs = redis_do(storm->cluster.r, "EVAL %s 1 sidecar:q:failures", script);
    for (size_t i = 0; i < jobs->elements; i++) {
        long number = strtol(jobs->element[i]->str + strlen("job"), NULL, 10);
        cr_assert(storm->given_up[number], "job %ld has ended, and should not", number);
        cr_assert_eq(ended[number]++, 0, "job %ld has ended twice", number);
    }
    freeReplyObject(jobs);
    for (int i = 0; i < JOBS; i++)
        if (!storm->done[i] && !ended[i]) return false;
    return true;
}

/* One move of the workers; true when all is over. */
static bool step(storm_t *storm, int64_t ends_us) {
    bool idle = true, over = wait_now_us() >= ends_us && storm->faults > 5;
    for (int i = 0; i < 5; i++) idle &= !work(storm);
    if (!over && pick(storm, 12) == 0) disturb(storm);
    if (over) calm(storm);
    return idle && over && all_ended(storm) && redis_int(storm->cluster.r, "LLEN q") == 0 &&
           redis_int(storm->cluster.r, "LLEN q:backup") <= 1;
}

Test(daemon_monitor, no_job_is_lost_though_workers_and_sidecars_die, .timeout = 240) {
    static storm_t storm;
    storm.random = cluster_seed("daemon_monitor");
    storm.cluster = cluster_begin(NULL);
    for (int i = 0; i < SIDECARS; i++)
        cluster_sidecar(&storm.cluster,
                        (sidecar_t){.ttl = "300ms", .scan = "50ms", .queues = MONITORED("150ms", "retry_times = 1000;")});
    cluster_await_leader(&storm.cluster, "g", NULL, 10000);
    for (int i = 0; i < JOBS; i++) redis_ok(storm.cluster.r, "LPUSH q job%d", i);
    int64_t ends_us = wait_now_us() + 5000000;
    bool over = wait_for(step(&storm, ends_us), 90000);
    fprintf(stderr, "daemon_monitor: %d deaths of workers, %d blows\n", storm.deaths, storm.faults);
    if (!over) cluster_fail(&storm.cluster, "jobs are lost, or nobody gives them back");
    cr_assert(storm.deaths > 100 && storm.faults > 5, "this history is too dull");
    /* A report that came when its job had gone back already is removed by a later pass. */
    cr_assert(wait_for(redis_int(storm.cluster.r, "HLEN q:errors") == 0, 10000));
    cluster_end(&storm.cluster);
}
