/* Leadership: one instance leads, keeps the lock, and another takes over. */
#include "cluster.h"
#include "proxy.h"

#include <signal.h>

#define LEADING  "\"msg\":\"leading\""
#define STANDING "\"msg\":\"standing by\""

static cluster_t s;

static int count_all(const char *text) {
    int count = 0;
    for (size_t i = 0; i < s.count; i++) count += daemon_log_count(s.sidecars[i], text);
    return count;
}

/* Starts so many sidecars and returns how many of them have led after more than a TTL. */
static int leaders_of(int sidecars) {
    for (int i = 0; i < sidecars; i++) cluster_sidecar(&s, (sidecar_t){.ttl = "4s"});
    cr_assert(wait_for(count_all(LEADING) + count_all(STANDING) >= sidecars, 10000));
    daemon_t *leader = cluster_await_leader(&s, "g", NULL, 5000);
    char *token = redis_str(s.r, "GET sidecar:g:lock");
    for (int i = 0; i < sidecars; i++) {
        daemon_t *d = s.sidecars[i];
        cr_assert(cluster_says(d, d == leader ? LEADING : STANDING, token), "sidecar %d does not log the leader %s", i, token);
    }
    /* Longer than a TTL: only renewals keep the lock. */
    cr_assert(cluster_stays(cluster_leader(&s, "g") == leader, 4500));
    redis_expect(s.r, token, "GET sidecar:g:lock");
    cluster_works(&s, "q");
    return count_all(LEADING);
}

SUITE(daemon_leader, s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_leader, one_of_two_instances_leads) { cr_assert_eq(leaders_of(2), 1); }
Test(daemon_leader, one_of_five_instances_leads) { cr_assert_eq(leaders_of(5), 1); }

/* Two takeovers must be in time. Up to 12 rounds, because the machine may pause in one. */
Test(daemon_leader, killed_leader_is_replaced_within_ttl_plus_1s, .timeout = 120) {
    int64_t took_ms = 0;
    for (int i = 0; i < 3; i++) cluster_sidecar_up(&s, (sidecar_t){.ttl = "1s"});
    int in_time = 0;
    for (int round = 0; round < 12 && in_time < 2; round++) {
        daemon_t *leader = cluster_await_leader(&s, "g", NULL, 5000);
        cluster_works(&s, "q");
        int64_t killed = wait_now_us();
        daemon_kill(leader);
        cluster_round(&s, "q", 0);
        took_ms = (wait_now_us() - killed) / 1000;
        in_time += took_ms <= wait_scaled_ms(2000);
        cr_assert_neq(cluster_leader(&s, "g"), leader);
        if (in_time < 2)
            daemon_restart(leader); /* not in the last round: a sidecar that has just started may not block signals yet */
    }
    cr_assert_eq(in_time, 2, "takeover and first promotion took %lld ms", (long long)took_ms);
}

/* Most takeovers must be in time: of 5 rounds, or of up to 15, because the machine may pause in some. Every takeover must come
 * long before the TTL. */
Test(daemon_leader, terminated_leader_is_replaced_within_200ms) {
    enum { LEAST = 5, MOST = 15 };
    int64_t longest_ms = 0;
    int rounds = 0, in_time = 0;
    for (int i = 0; i < 3; i++) cluster_sidecar_up(&s, (sidecar_t){.ttl = "20s"});
    for (; rounds < LEAST || (2 * in_time <= rounds && rounds < MOST); rounds++) {
        daemon_t *leader = cluster_await_leader(&s, "g", NULL, 5000);
        cluster_works(&s, "q");
        int gave = daemon_log_count(leader, "released the lock");
        int64_t sent = wait_now_us();
        daemon_signal(leader, SIGTERM);
        daemon_t *next = cluster_await_leader(&s, "g", leader, 5000);
        int64_t took_ms = (wait_now_us() - sent) / 1000;
        in_time += took_ms <= wait_scaled_ms(200);
        if (took_ms > longest_ms) longest_ms = took_ms;
        daemon_exit_t end = daemon_wait_exit(leader, 5000);
        cr_assert_eq(end.code, 0, "code %d, signal %d", end.code, end.signal);
        cr_assert_eq(daemon_log_count(leader, "released the lock"), gave + 1);
        cr_assert_eq(daemon_log_count(next, "no longer leading"), 0);
        int stood = daemon_log_count(leader, STANDING);
        daemon_restart(leader);
        cr_assert(wait_for(daemon_log_count(leader, STANDING) > stood, 5000));
    }
    cr_assert_gt(2 * in_time, rounds, "%d of %d takeovers were in time, the longest took %lld ms", in_time, rounds,
                 (long long)longest_ms);
    cr_assert_leq(longest_ms, wait_scaled_ms(10000), "a takeover took %lld ms", (long long)longest_ms);
}

static bool leads_all(const daemon_t *d, int locks) {
    bool all = true;
    for (int i = 0; all && i < locks; i++) {
        char name[16];
        snprintf(name, sizeof name, "q%d", i);
        all = cluster_leader(&s, name) == d;
    }
    return all;
}

Test(daemon_leader, standby_takes_all_locks_after_sigterm) {
    enum { LOCKS = 30 };
    char *queues = cluster_queues("", "q", LOCKS);
    for (int i = 0; i < 2; i++) cluster_sidecar_up(&s, (sidecar_t){.ttl = "20s", .scope = "queue", .queues = queues});
    cr_assert(wait_for(leads_all(s.sidecars[0], LOCKS), 5000));
    cr_assert(wait_for(daemon_log_count(s.sidecars[1], STANDING) == LOCKS, 5000));
    daemon_terminate(s.sidecars[0], 5000);
    cr_assert(wait_for(leads_all(s.sidecars[1], LOCKS), 5000), "the locks have to expire");
    cluster_works(&s, "q7");
}

Test(daemon_leader, stopping_standby_publishes_nothing) {
    daemon_t *leader = cluster_sidecar_up(&s, (sidecar_t){.ttl = "20s"});
    daemon_t *standby = cluster_sidecar_up(&s, (sidecar_t){.ttl = "20s"});
    char *token = redis_str(s.r, "GET sidecar:g:lock");
    daemon_exit_t end = daemon_terminate(standby, 5000);
    cr_assert_eq(end.code, 0);
    cr_assert_eq(daemon_log_count(standby, "released the lock"), 0);
    cr_assert(cluster_stays(cluster_leader(&s, "g") == leader, 700));
    redis_expect(s.r, token, "GET sidecar:g:lock");
}

Test(daemon_leader, paused_leader_becomes_standby) {
    for (int i = 0; i < 2; i++) cluster_sidecar_up(&s, (sidecar_t){.ttl = "4s"});
    daemon_t *old = cluster_await_leader(&s, "g", NULL, 5000);
    cluster_works(&s, "q");
    cluster_delay(s.r, "q", "due in the pause", 100);
    cluster_delay(s.r, "q", "due after it", 60000);
    daemon_pause(old);
    daemon_t *fresh = cluster_await_leader(&s, "g", old, 15000);
    char *job = cluster_take(s.r, "q", 5000);
    cr_assert_str_eq(job, "due in the pause");
    char *token = redis_str(s.r, "GET sidecar:g:lock");
    int stood = daemon_log_count(old, STANDING);
    daemon_continue(old);
    cr_assert(wait_for(daemon_log_count(old, STANDING) > stood, 5000));
    cr_assert_eq(daemon_log_count(old, "no longer leading"), 1);
    cr_assert_eq(daemon_log_count(fresh, "no longer leading"), 0);
    redis_expect(s.r, token, "GET sidecar:g:lock");
    cr_assert(wait_for(cluster_connections(s.r, "-dispatcher") == 1, 5000)); /* the standby closes its own */
    cluster_works(&s, "q");
    cr_assert_eq(redis_int(s.r, "LLEN q"), 0);
    cr_assert_eq(redis_int(s.r, "ZCARD q:delayed"), 1);
}

#define PEEK "1 q:delayed"

static bool no_peek(proxy_t *proxy) {
    long peeks = proxy_requests(proxy, PEEK);
    return cluster_stays(proxy_requests(proxy, PEEK) == peeks, 100);
}

/* Delays a job and waits until the dispatcher behind the proxy knows when to promote it. */
static void delay_seen(proxy_t *proxy, const char *job, int64_t delay_ms) {
    cr_assert(wait_for(no_peek(proxy) && no_peek(proxy), 10000)); /* requests for earlier jobs are over */
    long peeks = proxy_requests(proxy, PEEK);
    cluster_delay(s.r, "q", job, delay_ms);
    cr_assert(wait_for(proxy_requests(proxy, PEEK) > peeks, 5000));
    cr_assert(wait_for(no_peek(proxy) && no_peek(proxy), 10000));
}

/* The old leader sends a promote before its lease ends. It arrives after the takeover: only the fence in the script can refuse
 * it. */
Test(daemon_leader, late_request_of_an_old_leader_is_fenced) {
    scoped(proxy_drop) proxy_t *proxy = proxy_start(server_socket(s.server));
    daemon_t *old =
        cluster_sidecar_up(&s, (sidecar_t){.ttl = "10s", .socket = proxy_socket(proxy), .redis = "timeout = \"1m\";"});
    daemon_t *fresh = cluster_sidecar_up(&s, (sidecar_t){.ttl = "1m"});
    cluster_works(&s, "q");
    char *job = NULL;
    do { /* once more, if the machine paused until the job was due */
        proxy_pass(proxy);
        delay_seen(proxy, "one", 4000);
        proxy_stall(proxy, PROXY_UP);
    } while (redis_int(s.r, "LLEN q") && (job = cluster_take(s.r, "q", 1000)));
    int64_t up = proxy_bytes(proxy, PROXY_UP);
    cluster_await_leader(&s, "g", old, 20000);
    job = cluster_take(s.r, "q", 5000);
    cr_assert_str_eq(job, "one");
    cr_assert(wait_for(cluster_connections(s.r, "-dispatcher") == 2, 5000));
    daemon_pause(fresh); /* the lock stays for a minute, and nobody promotes */
    cluster_delay(s.r, "q", "two", 0);
    proxy_pass(proxy);
    cr_assert(wait_for(daemon_log_count(old, "fenced") == 1, 5000), "the late promote was not refused");
    cr_assert_gt(proxy_bytes(proxy, PROXY_UP), up);
    cr_assert_eq(redis_int(s.r, "LLEN q"), 0);
    cr_assert_eq(redis_int(s.r, "ZCARD q:delayed"), 1);
    cr_assert(wait_for(cluster_says(old, STANDING, "-60000"), 5000));
    daemon_continue(fresh);
    job = cluster_take(s.r, "q", 5000);
    cr_assert_str_eq(job, "two");
    daemon_stop(old);
    s.sidecars[0] = s.sidecars[--s.count];
}

#define ACQUIRE " sidecar:g:lock sidecar:g:queues "

/* The reply to acquire is lost: the sidecar holds the lock without knowing it. With the same token it acquires the lock again, or
 * releases it at its end. Returns how many locks are left. */
static long long reply_to_acquire_is_lost(bool then_ends) {
    scoped(proxy_drop) proxy_t *proxy = proxy_start(server_socket(s.server));
    proxy_rule(proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = ACQUIRE});
    daemon_t *d = cluster_sidecar(&s, (sidecar_t){.ttl = "1m", .socket = proxy_socket(proxy)});
    cr_assert(wait_for(proxy_fired(proxy) == 1, 5000));
    if (then_ends) {
        cr_assert_eq(daemon_terminate(d, 5000).code, 0);
    } else {
        cr_assert(daemon_wait_log(d, LEADING, 5000));
        cluster_works(&s, "q");
        cr_assert_eq(daemon_log_count(d, STANDING), 0);
        daemon_stop(d);
        s.count = 0;
    }
    long long locks = redis_int(s.r, "EXISTS sidecar:g:lock");
    if (s.count) daemon_free(s.sidecars[--s.count]);
    return locks;
}

Test(daemon_leader, lost_reply_to_acquire_still_leads) { cr_assert_eq(reply_to_acquire_is_lost(false), 0); }
Test(daemon_leader, lock_that_may_be_held_is_released) { cr_assert_eq(reply_to_acquire_is_lost(true), 0); }

/* timeout(1) sends each signal twice. Redis answers the release of the lock after the second one. */
static bool signal_sent_twice_releases_lock(void) {
    cluster_end(&s); /* each try has a server of its own */
    s = cluster_begin(NULL);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.ttl = "20s"});
    cluster_works(&s, "q");
    server_freeze(s.server);
    daemon_signal(d, SIGTERM);
    cr_assert(daemon_wait_log(d, "stopping", 5000));
    daemon_signal(d, SIGTERM);
    bool goes_on = cluster_stays(daemon_running(d), 100);
    server_thaw(s.server);
    daemon_exit_t end = daemon_terminate(d, 5000);
    bool released = redis_int(s.r, "EXISTS sidecar:g:lock") == 0;
    return goes_on && end.code == 0 && released;
}

/* A slow machine may send the second signal more than a second after the first one. */
Test(daemon_leader, signal_that_is_sent_twice_releases_the_lock, .timeout = 60) {
    cr_assert(wait_for(signal_sent_twice_releases_lock(), 10000));
}

/* The time in ms until the sidecar ends after one SIGTERM, while Redis is frozen. `noticed`: its lease has expired before. */
static int64_t end_ms_with_frozen_redis(bool noticed) {
    cluster_end(&s); /* each try has a server of its own */
    s = cluster_begin(NULL);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.ttl = noticed ? "600ms" : "20s"});
    cluster_works(&s, "q");
    cluster_delay(s.r, "q", "in flight", noticed ? 0 : 200);
    server_freeze(s.server);
    if (noticed) /* the kernel accepts connections of the frozen server, but no request is answered */
        cr_assert(daemon_wait_log(d, "no longer leading", 10000));
    else
        cr_assert(cluster_stays(daemon_running(d), 300)); /* the promote is in flight */
    daemon_exit_t end = daemon_terminate(d, 10000);
    cr_assert_eq(end.code, 0, "code %d, signal %d", end.code, end.signal);
    server_thaw(s.server);
    return end.ms;
}

Test(daemon_leader, sigterm_exits_while_redis_is_frozen, .timeout = 60) {
    cr_assert(wait_for(end_ms_with_frozen_redis(false) <= wait_scaled_ms(3000), 10000));
}
Test(daemon_leader, sigterm_exits_after_redis_froze_for_long, .timeout = 60) {
    cr_assert(wait_for(end_ms_with_frozen_redis(true) <= wait_scaled_ms(3000), 10000));
}

Test(daemon_leader, connections_stay_within_the_limit) {
    enum { LEADERS = 6, STANDBYS = 3 };
    const sidecar_t spec = {.ttl = "4s", .queues = "{ name = \"q\"; roles = [\"dispatcher\", \"monitor\"]; }"};
    cluster_sidecar_up(&s, spec);
    cluster_works(&s, "q");
    /* leader 1, auditor 1, dispatcher 2, monitor 2 */
    cr_assert(wait_for(cluster_connections(s.r, "") == LEADERS, 5000), "a leader holds %d connections",
              cluster_connections(s.r, ""));
    for (int standbys = 1; standbys <= 3; standbys++) {
        daemon_t *d = cluster_sidecar_up(&s, spec);
        cr_assert(daemon_wait_log(d, STANDING, 5000));
        cr_assert(wait_for(cluster_connections(s.r, "-vacant") == standbys, 5000));
        int all = cluster_connections(s.r, "");
        cr_assert_leq(all, LEADERS + STANDBYS * standbys, "%d connections", all);
    }
    cr_assert(cluster_stays(cluster_connections(s.r, "") <= LEADERS + 3 * STANDBYS, 4500));
}

/* With the default TTL and safety poll. */
Test(daemon_leader, idle_instances_send_few_requests, .timeout = 120) {
    enum { WINDOW_MS = 12000 };
    scoped(proxy_drop) proxy_t *of_leader = proxy_start(server_socket(s.server)),
                               *of_standby = proxy_start(server_socket(s.server));
    cluster_sidecar_up(&s, (sidecar_t){.ttl = "5s", .poll = "20s", .socket = proxy_socket(of_leader)});
    cluster_works(&s, "q");
    daemon_t *standby = cluster_sidecar_up(&s, (sidecar_t){.ttl = "5s", .poll = "20s", .socket = proxy_socket(of_standby)});
    cr_assert(daemon_wait_log(standby, STANDING, 5000));
    cr_assert(wait_for(proxy_connections(of_standby) == 3, 5000)); /* lock, vacancies, failure streams */
    cr_assert(wait_for(proxy_requests(of_standby, "SUBSCRIBE sidecar:g:vacant") == 1, 5000));
    /* The request for the lock after the SUBSCRIBE belongs to the start. */
    cr_assert(cluster_stays(daemon_running(standby), 200));
    bool little = false; /* in one of three windows: if the machine pauses, a connection times out and its replacement needs more
                            requests */
    for (int i = 0; i < 3 && !little; i++) {
        long leader = proxy_requests(of_leader, NULL), stood = proxy_requests(of_standby, NULL);
        little = cluster_stays(proxy_requests(of_leader, NULL) - leader <= 12 && proxy_requests(of_standby, NULL) - stood <= 4,
                               WINDOW_MS);
        fprintf(stderr, "requests in 12 s: leader %ld, standby %ld\n", proxy_requests(of_leader, NULL) - leader,
                proxy_requests(of_standby, NULL) - stood);
        cr_assert(wait_for(proxy_requests(of_leader, NULL) - leader >= 6, 10000));
        cr_assert(wait_for(proxy_requests(of_standby, NULL) - stood >= 2, 10000));
    }
    cr_assert(little);
    while (s.count) daemon_stop(s.sidecars[--s.count]);
}
