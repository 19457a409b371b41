/* A thousand jobs of BullMQ beside two sidecars that promote and do the stalled check: workers and leaders are killed, and the
 * queue moves from BullMQ 5 to 6 while it is paused. Each job is accounted for. */
#include "bullmq_story.h"

#include "tempdir.h"
#include "wait.h"

TestSuite(daemon_bullmq_story, .timeout = 600);

#define SETTINGS "roles = [\"dispatcher\", \"monitor\"]; stalled_interval = \"1s\"; max_stalled = 100;"

enum { WORKERS = 3, HALF = 500, POISON = 50, DYING = 6, HELD = 24, KILL_EACH = 60 };

typedef struct {
    setup_t setup;
    child_t *workers[WORKERS];
    int kills, leaders_killed, deaths;
} story_t;

static void workers_start(story_t *story, const char *version) {
    story->setup.env[0] = version;
    for (int i = 0; i < WORKERS; i++) story->workers[i] = worker(&story->setup);
}

static void workers_stop(story_t *story) {
    for (int i = 0; i < WORKERS; i++) child_free(story->workers[i]); /* kills it, with the jobs that it runs */
}

/* 500 jobs, of which POISON fail for good, and DYING kill the process that runs them first. The first HELD of them keep all
 * workers busy until work_until has killed one. */
static void produce_half(setup_t *setup) {
    unlink(temp_path(setup->native.dir, "go"));
    produce(setup, "wait", HELD, "{}");
    produce(setup, "poison", POISON, "{\"attempts\":2,\"backoff\":100}");
    produce(setup, "slow", 200, "{\"delay\":500}");
    produce(setup, "ok", 144 - HELD, "{\"priority\":3,\"delay\":200}");
    produce(setup, "flaky", 100, "{\"attempts\":5,\"backoff\":{\"type\":\"exponential\",\"delay\":50},\"priority\":2}");
    produce(setup, "die", DYING, "{\"attempts\":3}");
}

static long long ended(const story_t *story) {
    redis_t *r = story->setup.cluster.r;
    return redis_int(r, "ZCARD " BULL "completed") + redis_int(r, "ZCARD " BULL "failed");
}

static void kill_leader(story_t *story) {
    setup_t *setup = &story->setup;
    daemon_t *leader = cluster_await_leader(&setup->cluster, "g", NULL, SOON_MS);
    daemon_kill(leader);
    daemon_t *next = setup_add_sidecar(setup, SETTINGS);
    if (leader == setup->sidecar) setup->sidecar = next;
    story->leaders_killed++;
}

/* Until so many jobs have ended: at once, and again each KILL_EACH of them, one worker is killed in its jobs; the first time and
 * each third time the leader, too. Workers that died start again. */
static void work_until(story_t *story, long long jobs) {
    wait_t wait = wait_begin(4 * SOON_MS);
    long long begin = ended(story), now = begin;
    int kills = 0;
    do {
        for (int i = 0; i < WORKERS; i++) {
            if (child_running(story->workers[i])) continue;
            child_free(story->workers[i]);
            story->workers[i] = worker(&story->setup);
            story->deaths++;
        }
        now = ended(story);
        if (now < jobs && now - begin >= kills * KILL_EACH) {
            child_kill(story->workers[kills % WORKERS]);
            if (kills++ % 3 == 0) kill_leader(story);
            temp_write(temp_path(story->setup.native.dir, "go"), "");
        }
    } while (now < jobs && wait_again(&wait));
    story->kills += kills;
    if (now < jobs) native_fail(&story->setup.native, kept_printf("%lld of %lld jobs have ended", now, jobs));
}

/* Every job that is not poison is completed, and each failure has one record. Returns the number of both. */
static long long accounted(story_t *story, int jobs) {
    setup_t *setup = &story->setup;
    redis_t *r = setup->cluster.r;
    int poison = jobs / HALF * POISON;
    cr_expect_eq(redis_int(r, "ZCARD " BULL "failed"), poison);
    cr_expect_eq(redis_int(r, "ZCARD " BULL "completed"), jobs - poison);
    cr_expect_eq(redis_int(r, "EXISTS " BULL "wait " BULL "paused " BULL "active " BULL "delayed " BULL "prioritized"), 0);
    await_native(setup, rows(setup, "kind = 'failed'") == poison);
    cr_expect_eq(rows(setup, "kind = 'failed' AND reason = 'worker_failed' AND error LIKE 'poison%'"), poison);
    cr_expect_eq(
        rows(setup, "kind = 'failed' AND job IN (SELECT job FROM events WHERE kind = 'failed' GROUP BY job HAVING count(*) > 1)"),
        0);
    cr_expect_eq(redis_int(r, "EVAL %s 0",
                           "local n = 0 for _, key in ipairs(redis.call('KEYS', 'bull:video:*')) do "
                           "if redis.call('TYPE', key).ok == 'hash' and key ~= 'bull:video:meta' and "
                           "redis.call('HEXISTS', key, 'name') == 0 then n = n + 1 end end return n"),
                 0, "a hash without a job");
    cr_expect_gt(rows(setup, "kind = 'retried' AND reason = 'stalled'"), 0);
    cr_expect_gt(story->leaders_killed, 0);
    cr_expect_geq(story->deaths, story->kills);
    return redis_int(r, "ZCARD " BULL "completed") + rows(setup, "kind = 'failed'");
}

static long long run(const char *from, const char *to) {
    story_t story = {.kills = 0};
    setup_begin_as(&story.setup, from, SETTINGS);
    setup_add_sidecar(&story.setup, SETTINGS);
    workers_start(&story, from);
    produce_half(&story.setup);
    work_until(&story, HALF * 2 / 3);
    call_queue_api(&story.setup, "pause", NULL);
    workers_stop(&story); /* their jobs come back into the paused queue */
    story.setup.env[0] = to;
    produce_half(&story.setup);
    await_native(&story.setup, redis_int(story.setup.cluster.r, "EXISTS " BULL "active " BULL "delayed") == 0);
    workers_start(&story, to);
    call_queue_api(&story.setup, "resume", NULL);
    work_until(&story, 2 * HALF);
    long long jobs = accounted(&story, 2 * HALF);
    workers_stop(&story);
    setup_end(&story.setup);
    return jobs;
}

Test(daemon_bullmq_story, a_thousand_jobs_of_5) { cr_assert_eq(run("QS_BULLMQ=5.81.5", "QS_BULLMQ=5.81.5"), 2 * HALF); }
Test(daemon_bullmq_story, a_thousand_jobs_of_6) { cr_assert_eq(run("QS_BULLMQ=6.7.0", "QS_BULLMQ=6.7.0"), 2 * HALF); }
Test(daemon_bullmq_story, a_thousand_jobs_from_5_to_6) { cr_assert_eq(run("QS_BULLMQ=5.81.5", "QS_BULLMQ=6.7.0"), 2 * HALF); }

/* ---- Job schedulers and rate limits, which the sidecar leaves to BullMQ. */

enum { EVERY_MS = 300, ITERATIONS = 10, LIMITED = 20, PER_WINDOW = 5, WINDOW_MS = 400 };

/* Iterations of a scheduler, of which a worker dies in one. Returns the number of those that ended at their due time or later, or
 * -1 if another one ended earlier or has another id. The due time is in the id. (processedOn is no proof: it is the worker's time
 * when it asked for a job, which may be some ms before the job became ready.) */
static long long iterations_on_time(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin_as(&setup, version, SETTINGS);
    redis_t *r = setup.cluster.r;
    child_t *one = worker(&setup);
    call_queue_api(&setup, "schedule", kept_printf("%d", EVERY_MS));
    await_native(&setup, native_count(&setup.native, "finished", "ok-scheduled") >= ITERATIONS / 2);
    child_kill(one);
    child_free(one);
    await_native(&setup, redis_int(r, "LLEN " BULL "wait") == 1); /* promoted, and no worker plans the next iteration */
    cr_expect(cluster_stays(redis_int(r, "LLEN " BULL "wait") + redis_int(r, "ZCARD " BULL "delayed") == 1, 2 * EVERY_MS));
    one = worker(&setup);
    await_native(&setup, native_count(&setup.native, "finished", "ok-scheduled") >= ITERATIONS);
    stop(&setup, one);
    cr_expect_eq(redis_int(r, "LLEN " BULL "wait") + redis_int(r, "ZCARD " BULL "delayed"), 1);
    cr_expect_eq(redis_int(r, "ZCARD " BULL "repeat"), 1);
    cr_expect_eq(redis_int(r, "EXISTS " BULL "repeat:s1 " BULL "active"), 1);
    redis_expect(r, kept_printf("%lld", redis_int(r, "ZCARD " BULL "completed") + 1), "HGET " BULL "repeat:s1 ic");
    return redis_int(r, "EVAL %s 1 " BULL "completed",
                     "local n = 0 for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
                     "local due = string.match(id, '^repeat:s1:(%d+)$') "
                     "local ended = redis.call('HGET', 'bull:video:' .. id, 'finishedOn') "
                     "if not due or ended + 0 < due + 0 then return -1 end n = n + 1 end return n");
}

Test(daemon_bullmq_story, iterations_of_a_scheduler_run_once_5) {
    cr_assert_geq(iterations_on_time("QS_BULLMQ=5.81.5"), ITERATIONS);
}
Test(daemon_bullmq_story, iterations_of_a_scheduler_run_once_6) {
    cr_assert_geq(iterations_on_time("QS_BULLMQ=6.7.0"), ITERATIONS);
}

/* A rate limit holds for jobs that the sidecar promotes. Returns the ms from the first job to the last one. */
static int64_t limited_ms(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin_as(&setup, version, SETTINGS);
    setup.env[1] = kept_printf("QS_LIMIT={\"max\":%d,\"duration\":%d}", PER_WINDOW, WINDOW_MS);
    produce(&setup, "ok", LIMITED, "{\"delay\":200}");
    await_native(&setup, redis_int(setup.cluster.r, "LLEN " BULL "wait") == LIMITED);
    child_t *one = worker(&setup);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == LIMITED);
    stop(&setup, one);
    native_lines_t all = native_lines(&setup.native);
    int64_t first = INT64_MAX, last = 0;
    for (size_t i = 0; i < all.count; i++) {
        if (strcmp(all.lines[i].word, "taken") != 0) continue;
        if (all.lines[i].ms < first) first = all.lines[i].ms;
        if (all.lines[i].ms > last) last = all.lines[i].ms;
    }
    native_free_lines(&all);
    return last - first;
}

enum { LEAST_MS = (LIMITED / PER_WINDOW - 1) * WINDOW_MS * 9 / 10 };
Test(daemon_bullmq_story, rate_limits_hold_5) { cr_expect_geq(limited_ms("QS_BULLMQ=5.81.5"), LEAST_MS); }
Test(daemon_bullmq_story, rate_limits_hold_6) { cr_expect_geq(limited_ms("QS_BULLMQ=6.7.0"), LEAST_MS); }
