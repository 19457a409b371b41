/* Real sidecars and workers that die: each job comes back until a worker finishes it, and no job ends without a cause. */
#include "audit_log.h"
#include "cluster.h"

#include <criterion/parameterized.h>
#include <signal.h>

#define MONITORED(timeout, more)                                                                                                 \
    "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"" timeout "\"; " more " }"

/* Waits for a condition. If the condition stays false, fails with the logs of the sidecars. */
#define await(cluster, cond, ms)                                                                                                 \
    do {                                                                                                                         \
        if (!wait_for(cond, ms)) cluster_fail(cluster, "still false: " #cond);                                                   \
    } while (0)

static cluster_t s;
SUITE(daemon_monitor, s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_monitor, a_dying_worker_loses_no_job) {
    cluster_sidecar_up(&s, (sidecar_t){.queues = MONITORED("300ms", "retry_times = 1;"), .scan = "50ms"});
    redis_ok(s.r, "LPUSH q job");
    for (int execution = 1; execution <= 2; execution++) {
        redis_t *worker = redis_open(s.server);
        redis_expect(worker, "job", "BLMOVE q q:backup RIGHT LEFT 10");
        redis_close(worker); /* dies during the job */
        if (execution == 1) await(&s, redis_int(s.r, "LLEN q") == 1, 10000);
    }
    await(&s, redis_int(s.r, "XLEN sidecar:q:failures") == 2, 10000);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 0);
    await(&s, daemon_log_count(s.sidecars[0], "a job has failed for good") == 1, 10000); /* logged after Redis's reply */
}

/* Somebody pushes the same bytes again by hand: the second failure is an event of its own. */
Test(daemon_monitor, a_requeued_job_that_fails_again_has_two_rows) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = MONITORED("1h", ""), .scan = "50ms"});
    for (int life = 1; life <= 3; life++) {
        redis_ok(s.r, "LPUSH q job");
        redis_expect(s.r, "job", "LMOVE q q:backup RIGHT LEFT");
        redis_ok(s.r, "HSET q:errors job !no");
        await(&s, audit_log_rows(daemon_audit_path(d)) == life, 10000);
        cr_assert_eq(redis_int(s.r, "XLEN sidecar:q:failures"), life);
        cr_assert_eq(redis_int(s.r, "EXISTS q:errors"), 0);
    }
}

/* A connection closes at a reply of more than MAX_REPLY, 16 MiB, unless it asked for jobs: page, report and record are read
 * whole. */
Test(daemon_monitor, a_job_larger_than_other_replies_may_be_is_ended_and_copied) {
    enum { SIZE = 20 << 20 };
    /* A lease of 600 ms could end while a slow machine sends 20 MiB. */
    daemon_t *d =
        cluster_sidecar_up(&s, (sidecar_t){.ttl = "10s", .queues = MONITORED("1h", "max_payload = \"32MiB\";"), .scan = "50ms"});
    redis_ok(s.r, "EVAL %s 2 q:backup q:errors %d",
             "local job = string.rep('x', ARGV[1]) redis.call('LPUSH', KEYS[1], job) redis.call('HSET', KEYS[2], job, '!no')",
             SIZE);
    await(&s, audit_log_int(daemon_audit_path(d), "SELECT max(length(payload)) FROM events WHERE kind = 'failed'") == SIZE,
          20000);
    cr_assert_eq(redis_int(s.r, "EXISTS q:errors q:backup"), 1, "only the marker is left");
    cr_assert_eq(daemon_log_count(d, "larger than any reply"), 0, "%s", daemon_log(d));
}

Test(daemon_monitor, a_standby_continues_after_a_killed_leader) {
    enum { ENTRIES = 200000 };
    const sidecar_t spec = {.queues = MONITORED("1h", ""), .scan = "50ms"};
    for (int i = 0; i < 20; i++)
        redis_ok(s.r, "EVAL %s 1 q:backup %d",
                 "for i = 1, 10000 do redis.call('LPUSH', KEYS[1], 'job' .. ARGV[1] .. '/' .. i) end", i);
    cr_assert_eq(cluster_crash(&s, spec, "stamp_answered:20"), 137); /* dies in the middle of a scan */
    cr_assert_lt(redis_int(s.r, "HLEN sidecar:q:stamps"), ENTRIES);
    cluster_sidecar_up(&s, spec);
    await(&s, redis_int(s.r, "HLEN sidecar:q:stamps") == ENTRIES, 60000);
    cr_assert_eq(redis_int(s.r, "LLEN q:backup"), ENTRIES);
    cr_assert_eq(redis_int(s.r, "EXISTS q sidecar:q:failures"), 0);
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
    const sidecar_t spec = {.queues = MONITORED("1h", ""), .scan = "50ms"};
    redis_ok(s.r, "LPUSH q:backup again ends stays");
    redis_ok(s.r, "HSET q:errors again boom ends !boom stray boom");
    cr_assert_eq(cluster_crash(&s, spec, POINTS[*number]), 137, "%s is never reached", POINTS[*number]);
    cluster_sidecar_up(&s, spec);
    await(&s, redis_int(s.r, "EXISTS q:errors") == 0, 10000);
    await(&s, redis_int(s.r, "HLEN sidecar:q:stamps") == 2, 10000); /* of `stays`, and of `again`, which is retried */
    redis_expect(s.r, "again", "LINDEX q 0");
    cr_assert_eq(redis_int(s.r, "LLEN q"), 1);
    await(&s, redis_int(s.r, "LLEN q:backup") == 2, 10000); /* `stays` and the marker */
    cr_assert_eq(redis_int(s.r, "LREM q:backup 0 stays"), 1);
    cr_assert_eq(redis_int(s.r, "XLEN sidecar:q:failures"), 2, "%s", POINTS[*number]);
}

static const char *const SEARCH_POINTS[] = {"search_answered", "settle_before",     "settle_sent",
                                            "settle_answered", "settle_answered:2", "settle_answered:3"};
enum { SEARCH_POINT_COUNT = sizeof SEARCH_POINTS / sizeof *SEARCH_POINTS };

ParameterizedTestParameters(daemon_monitor, crash_points_of_a_search) {
    static int numbers[SEARCH_POINT_COUNT];
    for (int i = 0; i < SEARCH_POINT_COUNT; i++) numbers[i] = i;
    return cr_make_param_array(int, numbers, SEARCH_POINT_COUNT);
}

/* The first scan ends at the marker, and does not meet jobs that came after it. A search finds them. */
ParameterizedTest(int *number, daemon_monitor, crash_points_of_a_search) {
    const sidecar_t spec = {.queues = MONITORED("1h", ""), .scan = "1h", .monitor = "rotation = 5000;"};
    redis_ok(s.r, "EVAL %s 1 q:backup", "for i = 1, 3000 do redis.call('LPUSH', KEYS[1], 'slow' .. i) end");
    cr_assert_eq(cluster_crash(&s, spec, "push_marker_answered"), 137);
    redis_ok(s.r, "EVAL %s 2 q:backup q:errors",
             "for i = 1, 800 do redis.call('LPUSH', KEYS[1], 'new' .. i) end "
             "for i = 1, 3 do redis.call('LPUSH', KEYS[1], 'job' .. i) redis.call('HSET', KEYS[2], 'job' .. i, 'boom') end");
    cr_assert_eq(cluster_crash(&s, spec, SEARCH_POINTS[*number]), 137, "%s is never reached", SEARCH_POINTS[*number]);
    cluster_sidecar_up(&s, spec);
    await(&s, redis_int(s.r, "EXISTS q:errors") == 0, 20000);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 3, "%s", SEARCH_POINTS[*number]);
    cr_assert_eq(redis_int(s.r, "LLEN q:backup"), 3801);
    cr_assert_eq(redis_int(s.r, "XLEN sidecar:q:failures"), 3);
}

enum { JOBS = 2000, SIDECARS = 3 };

/* The cluster, and what the workers did with each job. */
typedef struct {
    cluster_t cluster;
    uint64_t random;
    bool paused[SIDECARS], done[JOBS], given_up[JOBS];
    int deaths, faults;
} stress_t;

static uint64_t pick(stress_t *stress, uint64_t below) { return cluster_random(&stress->random, below); }

/* A worker takes one job, and finishes it, dies, or reports a failure. False: ready is empty. */
static bool work(stress_t *stress) {
    redis_t *r = stress->cluster.r;
    char *job = redis_str(r, "LMOVE q q:backup RIGHT LEFT");
    if (!job) return false;
    long number = strtol(job + strlen("job"), NULL, 10);
    cr_assert(strncmp(job, "job", 3) == 0 && number >= 0 && number < JOBS, "ready has a foreign entry: %s", job);
    uint64_t fate = pick(stress, 100);
    if (fate < 70) {
        stress->done[number] = true;
        redis_ok(r, "LREM q:backup 1 %s", job);
    } else if (fate < 85) {
        stress->deaths++;
    } else if (fate < 96) {
        redis_ok(r, "HSET q:errors %s boom", job);
    } else {
        stress->given_up[number] = true;
        redis_ok(r, "HSET q:errors %s !never", job);
    }
    return true;
}

static void disturb(stress_t *stress) {
    size_t i = pick(stress, SIDECARS);
    daemon_t *d = stress->cluster.sidecars[i];
    stress->faults++;
    if (!daemon_running(d)) {
        daemon_restart(d);
    } else if (stress->paused[i]) {
        daemon_continue(d);
        stress->paused[i] = false;
    } else if (pick(stress, 2)) {
        daemon_kill(d);
    } else {
        daemon_pause(d);
        stress->paused[i] = true;
    }
}

static void calm(stress_t *stress) {
    for (size_t i = 0; i < SIDECARS; i++) {
        if (stress->paused[i]) daemon_continue(stress->cluster.sidecars[i]);
        if (!daemon_running(stress->cluster.sidecars[i])) daemon_restart(stress->cluster.sidecars[i]);
    }
}

/* Marks the jobs that have ended; each has one record, and was given up by a worker. Returns whether every job has an end. */
static bool all_ended(stress_t *stress) {
    static const char script[] = "local jobs = {} for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do local f = {} "
                                 "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                                 "if f.kind == 'failed' then jobs[#jobs + 1] = f.payload end end return jobs";
    char ended[JOBS] = {0};
    redisReply *jobs = redis_do(stress->cluster.r, "EVAL %s 1 sidecar:q:failures", script);
    for (size_t i = 0; i < jobs->elements; i++) {
        long number = strtol(jobs->element[i]->str + strlen("job"), NULL, 10);
        cr_assert(stress->given_up[number], "job %ld has ended, but no worker gave it up", number);
        cr_assert_eq(ended[number]++, 0, "job %ld has ended twice", number);
    }
    freeReplyObject(jobs);
    for (int i = 0; i < JOBS; i++)
        if (!stress->done[i] && !ended[i]) return false;
    return true;
}

/* The workers take a few jobs; at times a fault hits a sidecar. True: the time is over and every job has ended. */
static bool step(stress_t *stress, int64_t ends_us) {
    bool idle = true, over = wait_now_us() >= ends_us && stress->faults > 5;
    for (int i = 0; i < 5; i++) idle &= !work(stress);
    if (!over && pick(stress, 12) == 0) disturb(stress);
    if (over) calm(stress);
    return idle && over && all_ended(stress) && redis_int(stress->cluster.r, "LLEN q") == 0 &&
           redis_int(stress->cluster.r, "LLEN q:backup") <= 1;
}

Test(daemon_monitor, no_job_is_lost_though_workers_and_sidecars_die, .timeout = 240) {
    static stress_t stress;
    stress.random = cluster_seed("daemon_monitor");
    stress.cluster = cluster_begin(NULL);
    for (int i = 0; i < SIDECARS; i++)
        cluster_sidecar(&stress.cluster,
                        (sidecar_t){.ttl = "300ms", .scan = "50ms", .queues = MONITORED("150ms", "retry_times = 1000;")});
    cluster_await_leader(&stress.cluster, "g", NULL, 10000);
    for (int i = 0; i < JOBS; i++) redis_ok(stress.cluster.r, "LPUSH q job%d", i);
    int64_t ends_us = wait_now_us() + 5000000;
    bool over = wait_for(step(&stress, ends_us), 90000);
    fprintf(stderr, "daemon_monitor: %d deaths of workers, %d faults of sidecars\n", stress.deaths, stress.faults);
    if (!over) cluster_fail(&stress.cluster, "jobs are lost, or not retried");
    cr_assert(stress.deaths > 100 && stress.faults > 5, "too few deaths or faults");
    /* A later scan removes a report that came after its job's retry. */
    cr_assert(wait_for(redis_int(stress.cluster.r, "HLEN q:errors") == 0, 10000));
    cluster_end(&stress.cluster);
}
