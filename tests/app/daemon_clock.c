/* Redis's clock is stepped: standbys break a stale lock, and jobs fall due by the new time. */
#include "cluster.h"

/* SOON_MS tolerates a slow machine. A sidecar that does not notice a clock step needs half an hour or more. */
enum { HOUR_MS = 3600 * 1000, TTL_MS = 3000, LONG_TTL_MS = 6000, SOON_MS = 15000 };

static cluster_t begin(int sidecars, const char *ttl) {
    cluster_t s = cluster_begin(&(server_options_t){.preload = "shim_clock"});
    for (int i = 0; i < sidecars; i++) cluster_sidecar_up(&s, (sidecar_t){.ttl = ttl, .poll = "500ms"});
    cluster_works(&s, "q");
    return s;
}

static cluster_t s;

static void expect_job(const char *expected) {
    char *job = cluster_take(s.r, "q", 10000);
    if (!job) cluster_fail(&s, "a job was not promoted");
    cr_assert_str_eq(job, expected);
}

SUITE(daemon_clock, , cluster_end(&s));

Test(daemon_clock, one_instance_leads_after_the_clock_steps_forward) {
    s = begin(2, NULL);
    for (int step = 0; step < 2; step++) {
        cluster_delay(s.r, "q", "due by the new clock", HOUR_MS / 2);
        int64_t later = cluster_delay(s.r, "q", "due later", HOUR_MS + 4000);
        cr_assert(cluster_stays(redis_int(s.r, "LLEN q") == 0, 100));
        server_step_clock(s.server, HOUR_MS);
        int64_t stepped = wait_now_us();
        expect_job("due by the new clock");
        int64_t ms = (wait_now_us() - stepped) / 1000;
        cr_assert_leq(ms, wait_scaled_ms(SOON_MS), "it took %lld ms", (long long)ms);
        expect_job("due later");
        int64_t late = redis_ms(s.r) - later;
        cr_assert(late >= 0 && late <= wait_scaled_ms(SOON_MS), "%lld ms late", (long long)late);
    }
    cluster_works(&s, "q");
}

/* The lock does not expire by this step, so only the safety poll can notice the step. */
Test(daemon_clock, one_instance_leads_after_a_step_forward_within_the_ttl) {
    s = cluster_begin(&(server_options_t){.preload = "shim_clock"});
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.ttl = "2m", .poll = "500ms"});
    cluster_works(&s, "q");
    cluster_delay(s.r, "q", "due by the new clock", 50000);
    cr_assert(cluster_stays(redis_int(s.r, "LLEN q") == 0, 100));
    server_step_clock(s.server, 60000);
    int64_t stepped = wait_now_us();
    expect_job("due by the new clock");
    cr_assert_leq((wait_now_us() - stepped) / 1000, wait_scaled_ms(SOON_MS));
    cr_assert_eq(daemon_log_count(d, "no longer leading"), 0);
}

Test(daemon_clock, one_instance_leads_after_the_clock_steps_back) {
    s = begin(2, "6s");
    daemon_t *leader = cluster_await_leader(&s, "g", NULL, 5000);
    cluster_delay(s.r, "q", "due by the old clock", 3000);
    server_step_clock(s.server, -HOUR_MS);
    cr_assert(cluster_stays(redis_int(s.r, "LLEN q") == 0, 6500)); /* the job must not come early by Redis's present time */
    cr_assert_eq(redis_int(s.r, "ZCARD q:delayed"), 1);
    cluster_works(&s, "q");
    cr_assert_eq(cluster_leader(&s, "g"), leader); /* its next renewal corrects the TTL of the lock */
    cr_assert_leq(redis_int(s.r, "PTTL sidecar:g:lock"), LONG_TTL_MS);
    server_step_clock(s.server, HOUR_MS);
    expect_job("due by the old clock");
    cluster_works(&s, "q");
}

static int broken_locks(void) {
    int broken = 0;
    for (size_t i = 0; i < s.count; i++) broken += daemon_log_count(s.sidecars[i], "broke a lock left by a clock step");
    return broken;
}

/* The dead leader's lock would live for an hour; nobody renews it. */
Test(daemon_clock, takeover_works_when_the_clock_steps_back_as_the_leader_dies) {
    s = begin(3, "3s"); /* long, so that the lock does not expire between the kill and the clock step */
    daemon_t *leader = cluster_await_leader(&s, "g", NULL, 5000);
    daemon_kill(leader);
    server_step_clock(s.server, -HOUR_MS);
    int64_t stepped = wait_now_us();
    cr_assert_gt(redis_int(s.r, "PTTL sidecar:g:lock"), HOUR_MS - 60000);
    cluster_round(&s, "q", 0);
    int64_t ms = (wait_now_us() - stepped) / 1000;
    cr_assert_leq(ms, wait_scaled_ms(SOON_MS), "the takeover took %lld ms", (long long)ms);
    cr_assert_geq(ms, TTL_MS, "a lock was removed after one look");
    /* Another instance may lead before the instance that broke the lock logs it. */
    cr_assert(wait_for(broken_locks() > 0, 10000));
    cr_assert_eq(broken_locks(), 1);
    cluster_works(&s, "q");
}

/* PERSIST has removed the TTL of a dead leader's lock: the standbys break this lock too. */
Test(daemon_clock, takeover_works_when_a_dead_leaders_lock_has_no_ttl) {
    s = begin(2, NULL);
    daemon_t *leader = cluster_await_leader(&s, "g", NULL, 5000);
    daemon_kill(leader);
    redis_ok(s.r, "PERSIST sidecar:g:lock");
    int64_t began = wait_now_us();
    cluster_round(&s, "q", 0);
    cr_assert_leq((wait_now_us() - began) / 1000, wait_scaled_ms(SOON_MS));
}
