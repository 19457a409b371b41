/* `make chaos`: a random run under faults, after which G1 to G9 of docs/promises.md are checked for each job.
 *
 * CHAOS_SECONDS: how long faults come. CHAOS_SEED: repeats a run's schedule. CHAOS_FAULTS: only these kinds, such as "kill,cut".
 */
#include "chaos.h"

#include "audit_log.h"

TestSuite(daemon_chaos, .timeout = 7200);

enum { SHORT_S = 10, TELL_S = 15, DRAIN_MS = 300000 };

static void tell(chaos_t *c, const char *what) {
    c->told_us = wait_now_us();
    fprintf(stderr, "chaos: %4lld s%s: %d jobs, %ld done, %lld failed, %ld commands; faults:",
            (long long)(c->told_us - c->began_us) / 1000000, what, c->added, c->removed,
            audit_log_rows(daemon_audit_path(c->cluster.sidecars[0])), c->operations);
    chaos_tell_faults(c);
    fprintf(stderr, "\n");
}

/* Failures in the set of a foreign system before a sidecar's first look at it count as recorded. */
static bool has_looked_at_failures(const chaos_t *c) {
    return redis_str(c->cluster.r, "ZSCORE sidecar:video:recorded :seen") &&
           redis_str(c->cluster.r, "ZSCORE sidecar:photo:recorded :seen") &&
           redis_str(c->cluster.r, "ZSCORE sidecar:mailer:recorded :seen");
}

static void begin(chaos_t *c) {
    const char *seed = getenv("CHAOS_SEED"), *seconds = getenv("CHAOS_SECONDS");
    c->seed = seed && *seed ? strtoull(seed, NULL, 10) : (uint64_t)wait_now_us();
    snprintf(c->seed_text, sizeof c->seed_text, "%llu", (unsigned long long)c->seed);
    int64_t span_us = (seconds && *seconds ? strtoll(seconds, NULL, 10) : SHORT_S) * 1000000;
    fprintf(stderr, "chaos: CHAOS_SEED=%s CHAOS_SECONDS=%lld\n", c->seed_text, (long long)span_us / 1000000);
    c->fault_random = c->seed;
    c->operator_random = ~c->seed;
    /* A server that is killed after a quarter of an hour would otherwise load its file for longer than its start may take. */
    static const char *const args[] = {"--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-min-size",
                                       "8mb",          NULL};
    c->cluster = cluster_begin(&(server_options_t){.preload = "shim_clock", .args = args});
    c->began_us = c->told_us = wait_now_us();
    c->ends_us = c->began_us + span_us;
    chaos_workers_begin(c);
    chaos_faults_begin(c);
    for (int i = 0; i < CHAOS_SIDECARS; i++) {
        char *config = chaos_config(c, i);
        c->cluster.sidecars[c->cluster.count++] = daemon_start("%s", config);
        free(config);
    }
    cr_assert(wait_for(has_looked_at_failures(c), 20000), "no sidecar looks at the failures of Bull, BullMQ and Sidekiq");
}

/* True: the time of faults is over. */
static bool disturbed_step(chaos_t *c) {
    chaos_produce(c);
    chaos_work(c);
    chaos_operate(c);
    chaos_disturb(c);
    chaos_check_sidecars(c);
    if (wait_now_us() - c->told_us > (int64_t)TELL_S * 1000000) tell(c, "");
    return wait_now_us() >= c->ends_us;
}

/* True: everything is drained. */
static bool calm_step(chaos_t *c) {
    static int64_t looked_us;
    chaos_work(c);
    chaos_check_sidecars(c);
    if (wait_now_us() - looked_us < 500000) return false;
    looked_us = wait_now_us();
    return chaos_drained(c);
}

Test(daemon_chaos, every_job_is_accounted_for) {
    static chaos_t c;
    begin(&c);
    while (!wait_for(disturbed_step(&c), 1000)) continue;
    chaos_operators_end(&c);
    chaos_calm(&c);
    c.over = true;
    tell(&c, ", faults end");
    if (!wait_for(calm_step(&c), DRAIN_MS)) chaos_tell_rest(&c);
    tell(&c, ", drained");
    chaos_account(&c);
    chaos_workers_end(&c);
    cluster_end(&c.cluster);
}
