/* Instances share the locks out among themselves. */
#include "cluster.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INSTANCES = 3, LOCKS = 30 };

/* Counts the locks that each sidecar leads. */
static void count_led(cluster_t *cluster, int led[CLUSTER_SIDECARS]) {
    memset(led, 0, CLUSTER_SIDECARS * sizeof(*led));
    for (int i = 0; i < LOCKS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "q%d", i);
        daemon_t *leader = cluster_leader(cluster, name);
        for (size_t n = 0; n < cluster->count; n++) led[n] += leader == cluster->sidecars[n];
    }
}

static bool all_within(cluster_t *cluster, int least, int most) {
    int led[CLUSTER_SIDECARS];
    count_led(cluster, led);
    for (size_t n = 0; n < cluster->count; n++)
        if (led[n] < least || led[n] > most) return false;
    return true;
}

Test(daemon_spread, three_instances_share_thirty_locks) {
    cluster_t cluster = cluster_begin(NULL);
    char *queues = cluster_queues("", "q", LOCKS);
    for (int i = 0; i < INSTANCES; i++)
        cluster_sidecar_up(&cluster, (sidecar_t){.ttl = "1s", .scope = "queue", .queues = queues});
    cr_assert(wait_for(all_within(&cluster, 8, 12), 30000), "the locks are not shared out");
    cr_assert(cluster_stays(all_within(&cluster, 8, 12), 3000), "the locks keep moving");
    cluster_works(&cluster, "q7");
    for (size_t n = 0; n < cluster.count; n++) cr_assert_not(cluster_says(cluster.sidecars[n], "no longer leading", ""));
    free(queues);
    cluster_end(&cluster);
}

Test(daemon_spread, the_locks_of_an_instance_that_ends_are_led_again) {
    cluster_t cluster = cluster_begin(NULL);
    char *queues = cluster_queues("", "q", LOCKS);
    for (int i = 0; i < 2; i++) cluster_sidecar_up(&cluster, (sidecar_t){.ttl = "1s", .scope = "queue", .queues = queues});
    cr_assert(wait_for(all_within(&cluster, 12, 18), 30000), "the locks are not shared out");
    daemon_terminate(cluster.sidecars[1], 5000);
    int led[CLUSTER_SIDECARS];
    cr_assert(wait_for((count_led(&cluster, led), led[0] == LOCKS), 5000));
    free(queues);
    cluster_end(&cluster);
}

static int given_away(const cluster_t *cluster) {
    int count = 0;
    for (size_t n = 0; n < cluster->count; n++) count += daemon_log_count(cluster->sidecars[n], "giving a lock");
    return count;
}

/* One instance has two of the four queues. Whoever counts the standbys of one of these expects half of all locks. */
Test(daemon_spread, instances_with_different_queues_do_not_pass_a_lock_to_and_fro) {
    cluster_t cluster = cluster_begin(NULL);
    char *all = cluster_queues("", "q", 4), *some = cluster_queues("", "q", 2);
    cluster_sidecar_up(&cluster, (sidecar_t){.ttl = "300ms", .scope = "queue", .queues = all});
    cluster_sidecar_up(&cluster, (sidecar_t){.ttl = "300ms", .scope = "queue", .queues = some});
    (void)cluster_stays(given_away(&cluster) <= 20, 20000);
    cr_assert_leq(given_away(&cluster), 20);
    free(all);
    free(some);
    cluster_end(&cluster);
}

static bool all_led(cluster_t *cluster, int count) {
    bool led = true;
    for (int i = 0; i < count; i++) led = led && redis_int(cluster->r, "EXISTS sidecar:q%d:lock", i);
    return led;
}

/* Redis shows a standby for a while after its end. */
Test(daemon_spread, no_lock_is_given_to_an_instance_that_has_died) {
    cluster_t cluster = cluster_begin(NULL);
    char *queues = cluster_queues("", "q", 8);
    cluster_sidecar_up(&cluster, (sidecar_t){.ttl = "3s", .scope = "queue", .queues = queues});
    cr_assert(wait_for(all_led(&cluster, 8), 5000));
    daemon_t *dead = cluster_sidecar_up(&cluster, (sidecar_t){.ttl = "3s", .scope = "queue", .queues = queues});
    cr_assert(wait_for(redis_int(cluster.r, "HLEN sidecar:q7:standbys") == 1, 5000));
    daemon_kill(dead);
    int64_t worst = 0, gap = 0;
    for (int64_t until = wait_now_us() + 15000000; wait_now_us() < until;) {
        if (all_led(&cluster, 8)) gap = wait_now_us();
        if (gap && wait_now_us() - gap > worst) worst = wait_now_us() - gap;
    }
    cr_assert_lt(worst / 1000, wait_scaled_ms(1000), "nobody holds a lock for %lld ms", (long long)worst / 1000);
    free(queues);
    cluster_end(&cluster);
}
