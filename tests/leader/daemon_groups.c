/* Queues that two groups list, queues that the leader does not serve, and a lock for each queue. */
#include "cluster.h"

#include <signal.h>

#define QUEUE(name) "{ name = \"" name "\"; }"

/* Ends a group by this signal. Returns how many ms later the other group has promoted a job of its queue. */
static int64_t other_group_takes_over(int signal) {
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    daemon_t *one = cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .group = "g1", .queues = QUEUE("q")});
    daemon_t *two = cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .group = "g2", .queues = QUEUE("p") ", " QUEUE("q")});
    cr_assert(daemon_wait_log(two, "another group owns this queue", 10000));
    cr_assert(cluster_says(two, "another group owns this queue", "\"group\":\"g1\""));
    cr_assert_eq(daemon_log_count(one, "another group"), 0);
    cluster_works(&s, "q");
    cluster_works(&s, "p");
    redis_expect(s.r, "g1", "HGET sidecar:q:meta group");
    cr_assert(
        cluster_stays(redis_int(s.r, "HSTRLEN sidecar:g2:queues q") == 0, 4000)); /* g2 must not claim q while g1 has a leader */
    int64_t sent = wait_now_us();
    if (signal == SIGKILL)
        daemon_kill(one);
    else
        cr_assert_eq(daemon_terminate(one, 5000).code, 0);
    cluster_round(&s, "q", 0);
    int64_t ms = (wait_now_us() - sent) / 1000;
    cr_assert(wait_for(daemon_log_count(two, "took over the queue") == 1, 10000)); /* logged after the first job may have come */
    cluster_works(&s, "q");
    cluster_works(&s, "p");
    redis_expect(s.r, "g2", "HGET sidecar:q:meta group");
    return ms;
}

/* The lock expires within one TTL, and the other group tries to claim once a TTL. The preflight rechecks a faulty queue every 5
 * s. The last 3 s tolerate a slow machine. */
enum { TAKEN_OVER_MS = 5000 + 2 * 3000 + 3000 };

Test(daemon_groups, queue_of_a_stopped_group_is_taken_over) {
    cr_assert_leq(other_group_takes_over(SIGTERM), wait_scaled_ms(TAKEN_OVER_MS));
}
Test(daemon_groups, queue_of_a_dead_group_is_taken_over) {
    cr_assert_leq(other_group_takes_over(SIGKILL), wait_scaled_ms(TAKEN_OVER_MS));
}

Test(daemon_groups, standby_reports_queues_its_leader_skips) {
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    cluster_sidecar_up(&s, (sidecar_t){.ttl = "4s", .queues = QUEUE("q")});
    daemon_t *d = cluster_sidecar(&s, (sidecar_t){.ttl = "4s", .queues = QUEUE("q") ", " QUEUE("extra") ", " QUEUE("more")});
    cr_assert(daemon_wait_log(d, "leader does not serve some queues of this instance", 5000));
    cr_assert(cluster_says(d, "leader does not serve", "\"extra, more\""));
    daemon_signal(d, SIGUSR1);
    cr_assert(daemon_wait_log(d, "\"unserved\":2", 5000));
    /* The standby checks the lock often, but repeats this line seldom. */
    cr_assert(cluster_stays(daemon_log_count(d, "leader does not serve") == 1, 8500));
}

enum { QUEUES = 4 };
static const char *const names[QUEUES] = {"a", "b", "c", "d"};
#define ALL QUEUE("a") ", " QUEUE("b") ", " QUEUE("c") ", " QUEUE("d")

static int led_by(cluster_t *s, const daemon_t *d) {
    int count = 0;
    for (int i = 0; i < QUEUES; i++) count += cluster_leader(s, names[i]) == d;
    return count;
}

static void all_are_served(cluster_t *s) {
    for (int i = 0; i < QUEUES; i++) {
        cluster_round(s, names[i], 0);
        cluster_works(s, names[i]);
    }
}

Test(daemon_groups, each_queue_may_have_its_own_lock) {
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    daemon_t *one = cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .scope = "queue", .queues = QUEUE("a") ", " QUEUE("b")});
    daemon_t *two = cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .scope = "queue", .queues = ALL});
    cr_assert(wait_for(led_by(&s, one) == 2 && led_by(&s, two) == 2, 5000)); /* two locks each */
    all_are_served(&s);
    for (int i = 0; i < QUEUES; i++) cr_assert_eq(redis_int(s.r, "EXISTS sidecar:%s:lock", names[i]), 1);
    cr_assert_eq(redis_int(s.r, "EXISTS sidecar:g:lock"), 0);
    int64_t killed = wait_now_us();
    daemon_kill(one);
    cr_assert(wait_for(led_by(&s, two) == QUEUES, 10000));
    int64_t ms = (wait_now_us() - killed) / 1000;
    cr_assert_leq(ms, wait_scaled_ms(3000 + 2500), "it took %lld ms", (long long)ms); /* less than two TTLs */
    all_are_served(&s);
    daemon_t *three = cluster_sidecar_up(&s, (sidecar_t){.ttl = "3s", .scope = "queue", .queues = ALL});
    daemon_signal(two, SIGTERM);
    cr_assert(wait_for(led_by(&s, three) == QUEUES, 10000));
    cr_assert_eq(daemon_wait_exit(two, 5000).code, 0);
    cr_assert_eq(daemon_log_count(two, "released the lock"), QUEUES);
    all_are_served(&s);
}
