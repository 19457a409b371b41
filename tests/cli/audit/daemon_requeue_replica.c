/* `audit requeue` waits for one replica, where there is one. */
#include "replica.h"
#include "requeue_fixture.h"

static const daemon_output_t *requeue(daemon_t *d, const char *job) {
    char *ref = ref_of(d, job);
    const daemon_output_t *done = cli(d, "requeue", ref);
    cr_assert_eq(done->code, 0, "%s", done->err);
    free(ref);
    return done;
}

enum { ATTEMPTS = 5 }; /* a replica on a busy machine may need more than the second that the command waits */

Test(daemon_requeue_replica, says_when_no_replica_has_confirmed, .timeout = 60) {
    scoped(cluster_end) cluster_t s = cluster_begin(&(server_options_t){.tcp = true});
    daemon_t *d = sidecar(&s);
    static const char *const errors[] = {"alpha", "gamma", "beta 0", "beta 1", "beta 2", "beta 3", "beta 4"};
    enum { COUNT = sizeof errors / sizeof *errors };
    for (int i = 0; i < COUNT; i++) feed_one(s.r, (failure_t){.number = i, .error = errors[i]});
    await(&s, audit_log_rows(daemon_audit_path(d)) == COUNT, COPY_MS);
    const daemon_output_t *done = requeue(d, "alpha");
    cr_assert(!has(done->err, "replica"), "%s", done->err);
    cr_assert_eq(server_commandstat(s.server, "wait"), 0, "there is no replica");
    scoped(server_drop) server_t *replica = replica_start(s.server, NULL);
    int requeued = 0;
    do done = requeue(d, errors[2 + requeued++]);
    while (has(done->err, "replica") && requeued < ATTEMPTS);
    cr_assert(!has(done->err, "replica"), "%s", done->err);
    cr_assert_eq(server_commandstat(s.server, "wait"), requeued);
    redis_t *r = redis_open(replica);
    cr_assert_eq(redis_int(r, "LLEN q"), 1 + requeued, "they are on the replica");
    redis_close(r);
    server_freeze(replica);
    done = requeue(d, "gamma");
    cr_assert(has(done->err, "no replica has confirmed this within 1 s"), "%s", done->err);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 2 + requeued);
}
