/* Dialect bullmq behind sentinels, with workers of BullMQ that find the primary by the same sentinels. A failover comes between
 * what happens to a job and what the sidecar does about it. */
#include "bullmq_story.h"
#include "sentinels.h"

TestSuite(daemon_bullmq_sentinel, .timeout = 300);

enum { HANGING = 4, POISON = 3 };

static daemon_t *start_sidecar(const sentinels_t *s) {
    return daemon_start("group = \"g\";\nredis = { %s };\nlock = { ttl = \"2s\"; };\nhttp = { port = 0; };\n"
                        "log = { format = \"json\"; };\nqueues = ( " VIDEO " );\n",
                        sentinels_settings(s), "roles = [\"dispatcher\", \"monitor\"]; stalled_interval = \"1s\";");
}

/* Delayed jobs, jobs that fail, and jobs whose worker dies. The locks of the latter stay. */
static void run_at_old_primary(setup_t *setup, redis_t *r) {
    child_t *dies = worker(setup);
    produce(setup, "flaky", JOBS, "{}");
    await_native(setup, rows(setup, "reason = 'worker_failed'") == JOBS);
    produce(setup, "hang", HANGING, "{}");
    await_native(setup, native_count(&setup->native, "hangs", NULL) == HANGING);
    child_kill(dies);
    child_free(dies);
    produce(setup, "slow", JOBS, "{\"delay\":200}");
    await_native(setup, redis_int(r, "LLEN " BULL "wait") == JOBS);
    cr_assert_eq(redis_int(r, "WAIT 2 10000"), 2);
}

/* Promotion, the stalled check, requeue and the log go on. Returns how many jobs are completed in the end. */
static long long run_at_new_primary(setup_t *setup, redis_t *r) {
    produce(setup, "ok", JOBS, "{\"delay\":200}");
    await_native(setup, redis_int(r, "LLEN " BULL "wait") == 2 * JOBS);
    cr_expect_eq(redis_int(r, "LLEN " BULL "active"), HANGING);
    cr_expect_eq(redis_int(r, "EVAL %s 1 " BULL "active", /* as if the locks had expired */
                           "local n = 0 for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do "
                           "n = n + redis.call('DEL', 'bull:video:' .. id .. ':lock') end return n"),
                 HANGING);
    await_native(setup, rows(setup, "kind = 'retried' AND reason = 'stalled'") == HANGING);
    const daemon_output_t *done = cli(setup->sidecar, "requeue", "--where", "-q", "video", "--yes", "--by", "ann");
    cr_assert_eq(done->code, 0, "%s%s", done->out, done->err);
    child_t *lives = worker(setup);
    produce(setup, "poison", POISON, "{}");
    await_native(setup, native_count(&setup->native, "finished", NULL) == 3 * JOBS + HANGING);
    await_native(setup, rows(setup, "error LIKE 'poison%'") == POISON);
    await_native(setup, rows(setup, "kind = 'requeued'") == JOBS);
    cr_expect_eq(rows(setup, "kind = 'failed'"), JOBS + POISON, "a failure has two records");
    stop(setup, lives);
    return redis_int(r, "ZCARD " BULL "completed");
}

static long long run_through_failover(const char *version) {
    sentinels_t *s = sentinels_begin(NULL);
    int old = sentinels_primary(s, NULL);
    setup_t setup = {.native = native_begin("bullmq", s->servers[old]), .sidecar = start_sidecar(s)};
    setup.env[0] = version;
    setup.env[1] =
        kept_printf("QS_SENTINELS={\"name\":\"" SENTINEL_MASTER "\",\"sentinels\":[{\"host\":\"127.0.0.1\",\"port\":%d},"
                    "{\"host\":\"127.0.0.1\",\"port\":%d}]}",
                    s->sentinels[0].port, s->sentinels[1].port);
    setup.env[2] = "QS_LOCK_MS=600000";
    redis_t *r = redis_open(s->servers[old]);
    run_at_old_primary(&setup, r);
    redis_close(r);
    sentinels_failover(s);
    r = redis_open(s->servers[sentinels_await_switch(s, old)]);
    long long completed = run_at_new_primary(&setup, r);
    redis_close(r);
    daemon_stop(setup.sidecar);
    native_end(&setup.native);
    sentinels_end(s);
    return completed;
}

Test(daemon_bullmq_sentinel, jobs_survive_a_failover_5) {
    cr_assert_eq(run_through_failover("QS_BULLMQ=5.81.5"), 3 * JOBS + HANGING);
}
Test(daemon_bullmq_sentinel, jobs_survive_a_failover_6) {
    cr_assert_eq(run_through_failover("QS_BULLMQ=6.7.0"), 3 * JOBS + HANGING);
}
