/* A stalled check of many jobs: it finds each dead one, in small steps. */
#include "bull_tasks.h"

/* Runs steps until all active jobs are marked. */
static void mark_all(setup_t *s) {
    int steps = 0;
    do {
        step(s);
        cr_assert_lt(steps++, 1000);
    } while (redis_int(s->f.r, "EVAL %s 1 sidecar:video:meta", "return redis.call('HGET', KEYS[1], 'marked') == '' and 1 or 0"));
    cr_assert_gt(steps, 1, "the first step marks a part");
}

static setup_t s;
SUITE(redis_bull_storm, s = setup(), teardown(&s));

/* Workers finish jobs, also those that a walk along active has passed: the walk misses some of the dead ones behind them. The
 * same check finds these by their marks. */
Test(redis_bull_storm, jobs_that_finish_during_a_check_hide_no_stalled_job, .timeout = 240) {
    enum { ALL = 4000 };
    redis_t *r = s.f.r;
    s.f.config->queues[0].policy.alive_timeout_ms = 0;
    redis_ok(r, "EVAL %s 0 %d",
             "for i = 1, ARGV[1] do local key = 'bull:video:' .. i redis.call('LPUSH', 'bull:video:active', i) "
             "redis.call('HSET', key, 'name', 'n') "
             "if i <= ARGV[1] / 2 then redis.call('SET', key .. ':lock', 'w') end end",
             ALL);
    mark_all(&s);
    char *marked = redis_str(r, "HGET sidecar:video:meta marked"), *now = kept(strdup(marked));
    for (int finished = 0; strcmp(marked, now) == 0;) {
        if (!wait_for(mono_reached(s.call.next, mono_now()), 60000)) break;
        step(&s);
        for (int i = 0; i < 50 && finished < ALL / 2; i++) {
            redis_ok(r, "LREM " BULL "active -1 %d", ++finished);
            redis_ok(r, "DEL " BULL "%d " BULL "%d:lock", finished, finished);
            redis_ok(r, "SREM " BULL "stalled %d", finished);
        }
        now = redis_str(r, "HGET sidecar:video:meta marked");
    }
    cr_assert_eq(metric_get(&s.metrics->queues[0].retried), ALL / 2);
    cr_assert_eq(redis_int(r, "LLEN " BULL "wait"), ALL / 2);
    cr_assert_eq(redis_int(r, "XLEN " STREAM), ALL / 2);
}

/* The cost of one step does not depend on the number of active jobs, and all steps together find each stalled job. */
Test(redis_bull_storm, a_check_of_ten_thousand_jobs_has_small_steps, .timeout = 60) {
    enum { ALL = 10000, DEAD = 100, FINISHED = 40 };
    redis_t *r = s.f.r;
    redis_ok(r, "EVAL %s 0 %d %d",
             "for i = 1, ARGV[1] do local key = 'bull:video:' .. i redis.call('LPUSH', 'bull:video:active', i) "
             "redis.call('HSET', key, 'name', 'n', 'data', '{}', 'opts', '{}', 'timestamp', 1700000000000) "
             "if i % (ARGV[1] / ARGV[2]) ~= 1 then redis.call('SET', key .. ':lock', 'w') end end",
             ALL, DEAD);
    s.f.config->queues[0].policy.alive_timeout_ms = 0;
    bull_config(&s.f.config->queues[0])->stalled_interval_ms = 1000;
    mark_all(&s);
    cr_assert_eq(redis_int(r, "SCARD " BULL "stalled"), ALL);
    /* Some jobs finish after the mark; Bull before 4.12.3 leaves their marks. */
    redis_ok(r, "EVAL %s 0 %d",
             "for i = 1, ARGV[1] do local id = 2 * i redis.call('LREM', 'bull:video:active', 0, id) "
             "redis.call('DEL', 'bull:video:' .. id, 'bull:video:' .. id .. ':lock') end",
             FINISHED);
    cr_assert(wait_for(mono_reached(s.call.next, mono_now()), 5000));
    char *marked = redis_str(r, "HGET sidecar:video:meta marked"), *now = kept(strdup(marked));
    long long steps = 0, most = 0;
    for (; strcmp(marked, now) == 0; steps++) {
        cr_assert(wait_for(mono_reached(s.call.next, mono_now()), 5000));
        long long before = server_commandstat(s.f.server, "exists");
        step(&s);
        long long looked = server_commandstat(s.f.server, "exists") - before;
        if (looked > most) most = looked;
        now = redis_str(r, "HGET sidecar:video:meta marked");
        cr_assert_lt(steps, 200);
    }
    cr_assert_leq(most, 1500, "one step checked %lld locks", most);
    cr_assert_eq(metric_get(&s.metrics->queues[0].retried), DEAD);
    cr_assert_eq(redis_int(r, "LLEN " BULL "wait"), DEAD);
    cr_assert_eq(redis_int(r, "LLEN " BULL "active"), ALL - DEAD - FINISHED);
}
