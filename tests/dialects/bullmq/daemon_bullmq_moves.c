/* A sidecar that promotes jobs of BullMQ 5 and 6: alone, so that a worker finds them when it starts, and beside workers. */
#include "bullmq_story.h"

TestSuite(daemon_bullmq_moves, .timeout = 300);

#define BOTH "roles = [\"dispatcher\", \"monitor\"];"

/* With no worker the sidecar promotes; with an idle worker its marker wakes the worker. Returns how many jobs ran. */
static int promote_without_workers(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin_as(&setup, version, BOTH);
    produce(&setup, "ok", JOBS, "{\"delay\":300}");
    produce(&setup, "slow", JOBS, "{\"delay\":300,\"priority\":3}");
    await_native(&setup, redis_int(setup.cluster.r, "LLEN " BULL "wait") == JOBS);
    await_native(&setup, redis_int(setup.cluster.r, "ZCARD " BULL "prioritized") == JOBS);
    child_t *one = worker(&setup);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == 2 * JOBS);
    cr_expect_eq(native_count(&setup.native, "taken", NULL), 2 * JOBS);
    stop(&setup, one);
    return (int)redis_int(setup.cluster.r, "ZCARD " BULL "completed");
}

Test(daemon_bullmq_moves, promotes_without_a_worker_5) { cr_assert_eq(promote_without_workers("QS_BULLMQ=5.81.5"), 2 * JOBS); }
Test(daemon_bullmq_moves, promotes_without_a_worker_6) { cr_assert_eq(promote_without_workers("QS_BULLMQ=6.7.0"), 2 * JOBS); }

/* Workers retry with a backoff; workers and sidecars promote. Each attempt runs once, and each final failure has one record, also
 * after the leader dies. Returns the number of records. */
static long long promote_by_both(const char *version) {
    scoped(setup_end) setup_t setup;
    setup_begin_as(&setup, version, BOTH);
    daemon_t *other = setup_add_sidecar(&setup, BOTH);
    child_t *one = worker(&setup), *two = worker(&setup);
    produce(&setup, "poison", JOBS, "{\"attempts\":3,\"backoff\":150,\"delay\":100}");
    produce(&setup, "flaky", JOBS, "{\"attempts\":3,\"backoff\":{\"type\":\"exponential\",\"delay\":50},\"priority\":2}");
    daemon_t *leader = cluster_await_leader(&setup.cluster, "g", NULL, SOON_MS);
    if (leader == setup.sidecar) setup.sidecar = other;
    daemon_kill(leader);
    await_native(&setup, rows(&setup, "kind = 'failed'") == JOBS);
    await_native(&setup, native_count(&setup.native, "finished", NULL) == JOBS);
    cr_expect_eq(native_count(&setup.native, "taken", NULL), 3 * JOBS + 2 * JOBS);
    long long recorded = rows(&setup, "kind = 'failed' AND reason = 'worker_failed' AND attempts = 3");
    stop(&setup, one);
    stop(&setup, two);
    return recorded;
}

Test(daemon_bullmq_moves, promotes_beside_workers_5) { cr_assert_eq(promote_by_both("QS_BULLMQ=5.81.5"), JOBS); }
Test(daemon_bullmq_moves, promotes_beside_workers_6) { cr_assert_eq(promote_by_both("QS_BULLMQ=6.7.0"), JOBS); }
