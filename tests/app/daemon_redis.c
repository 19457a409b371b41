/* Restarts, outages and errors of Redis: no job is lost, and afterwards the sidecar works as before, without a restart. */
#include "cluster.h"
#include "proxy.h"

#include <sys/resource.h>

static cluster_t s;

/* Adds one job that falls due during the coming fault, and one that stays delayed. */
static void two_jobs(int due_in_ms) {
    cluster_works(&s, "q");
    cluster_delay(s.r, "q", "soon", due_in_ms);
    cluster_delay(s.r, "q", "late", 3600000);
}

static void expect_job(const char *expected) {
    char *job = cluster_take(s.r, "q", 15000);
    if (!job) cluster_fail(&s, "a job was not promoted");
    cr_assert_str_eq(job, expected);
}

/* Expects that the first job came once, that the second is still delayed, and that the sidecar works. */
static void expect_both(void) {
    expect_job("soon");
    cr_assert_eq(redis_int(s.r, "LLEN q"), 0);
    cr_assert_eq(redis_int(s.r, "ZCARD q:delayed"), 1);
    cluster_round(&s, "q", 0); /* the lock may have to expire first */
    cluster_works(&s, "q");
    cr_assert_eq(redis_int(s.r, "ZCARD q:delayed"), 1);
}

static void one_sidecar(void) {
    s = cluster_begin(NULL);
    cluster_sidecar_up(&s, (sidecar_t){0});
}

SUITE(daemon_redis, , cluster_end(&s));

Test(daemon_redis, sidecars_resume_after_redis_restarts_with_its_data) {
    one_sidecar();
    redis_ok(s.r, "LPUSH q first");
    expect_job("first");
    two_jobs(100);
    server_restart(s.server, SERVER_KEEP_DATA);
    cluster_reopen(&s);
    expect_both();
}

Test(daemon_redis, sidecars_resume_after_redis_restarts_empty) {
    one_sidecar();
    for (int i = 0; i < 2; i++) {
        two_jobs(3000000);
        server_restart(s.server, SERVER_LOSE_DATA);
        cluster_reopen(&s);
        cluster_round(&s, "q", 0);
        cluster_works(&s, "q");
        cr_assert_eq(redis_int(s.r, "ZCARD q:delayed"), 0);
    }
}

Test(daemon_redis, sidecars_resume_after_redis_was_down) {
    s = cluster_begin(&(server_options_t){.args = (const char *const[]){"--appendonly", "yes", "--appendfsync", "always", NULL}});
    for (int i = 0; i < 2; i++) cluster_sidecar_up(&s, (sidecar_t){0});
    two_jobs(500);
    server_kill(s.server);
    cr_assert(daemon_wait_log(s.sidecars[0], "cannot reach redis", 5000));
    const daemon_output_t *check = daemon_run("check", "-c", daemon_config_path(s.sidecars[0]), "--redis");
    cr_assert(strstr(check->err, ": cannot connect: "), "the address is told twice: %s", check->err);
    cr_assert(cluster_stays(daemon_running(s.sidecars[0]) && daemon_running(s.sidecars[1]), 1500));
    server_restart(s.server, SERVER_KEEP_DATA);
    cluster_reopen(&s);
    expect_both();
    for (int i = 0; i < 2; i++) {
        cr_assert(daemon_wait_log(s.sidecars[i], "redis answers again", 15000));
        cr_assert_eq(daemon_log_count(s.sidecars[i], "cannot reach redis"), 1);
    }
}

static long long file_limit(const daemon_t *d) {
    char path[64], line[256];
    long long soft = -1;
    snprintf(path, sizeof(path), "/proc/%d/limits", (int)daemon_pid(d));
    FILE *in = fopen(path, "re");
    cr_assert_not_null(in);
    while (fgets(line, sizeof(line), in))
        if (strncmp(line, "Max open files", 14) == 0) soft = strtoll(line + 14, NULL, 10);
    fclose(in);
    return soft;
}

/* Many primaries need more files than the usual soft limit of 1024. */
Test(daemon_redis, the_limit_of_open_files_is_raised) {
    enum { WANTED = 8000 };
    s = cluster_begin(NULL);
    struct rlimit before, low;
    getrlimit(RLIMIT_NOFILE, &before);
    low = (struct rlimit){.rlim_cur = 256, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){0});
    setrlimit(RLIMIT_NOFILE, &before);
    if (before.rlim_max < WANTED)
        cr_assert_eq(file_limit(d), (long long)before.rlim_max);
    else
        cr_assert_geq(file_limit(d), WANTED);
}

/* A connection that was silent for a second may be taken for an idle one that redis has closed. That line is no trouble. */
static int log_lines(const daemon_t *d) {
    return daemon_log_count(d, "{") - daemon_log_count(d, "redis closed an idle connection");
}

Test(daemon_redis, outage_is_retried_with_back_off) {
    enum { OUTAGE_MS = 3000 };
    s = cluster_begin(NULL);
    scoped(proxy_drop) proxy_t *proxy = proxy_start(server_socket(s.server));
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.socket = proxy_socket(proxy)});
    two_jobs(200);
    int attempts = proxy_connections_total(proxy), lines = log_lines(d);
    int64_t cpu_us = daemon_cpu_us(d);
    proxy_refuse_new(proxy, true);
    proxy_disconnect(proxy);
    /* Two roles retry, each after 50, 100, 200, ... ms, less a jitter of up to a half. */
    cr_assert(cluster_stays(proxy_connections_total(proxy) - attempts <= 30, OUTAGE_MS), "%d attempts",
              proxy_connections_total(proxy) - attempts);
    cr_assert_geq(proxy_connections_total(proxy) - attempts, 4);
    /* All roles together tell of it once. The leader tells that its term has ended. */
    cr_assert_leq(log_lines(d) - lines, 2, "%d lines", log_lines(d) - lines);
    cr_assert_eq(daemon_log_count(d, "cannot reach redis"), 1);
    cr_assert_leq(daemon_cpu_us(d) - cpu_us, wait_scaled_ms(300) * 1000);
    proxy_pass(proxy);
    expect_both();
    cr_assert(daemon_wait_log(d, "redis answers again", 15000));
    cr_assert_eq(daemon_log_count(d, "redis answers again"), 1);
    cr_assert_eq(daemon_log_count(d, "cannot reach redis"), 1);
    daemon_stop(d);
    s.count = 0;
}

Test(daemon_redis, sidecars_resume_after_flushall) {
    one_sidecar();
    cluster_sidecar_up(&s, (sidecar_t){0});
    for (int i = 0; i < 3; i++) {
        two_jobs(3000000);
        redis_ok(s.r, i % 2 ? "FLUSHDB" : "FLUSHALL");
        cluster_round(&s, "q", 0);
        cluster_works(&s, "q");
        cr_assert_eq(redis_int(s.r, "ZCARD q:delayed"), 0);
    }
}

Test(daemon_redis, sidecars_resume_after_redis_froze_for_three_ttls) {
    one_sidecar();
    cluster_sidecar_up(&s, (sidecar_t){0});
    for (int i = 0; i < 2; i++) {
        redis_ok(s.r, "DEL q:delayed");
        two_jobs(300);
        server_freeze(s.server);
        cr_assert(cluster_stays(daemon_running(s.sidecars[0]), 1800));
        server_thaw(s.server);
        expect_both();
    }
}

/* Redis must allow every script at full memory; a new leader and a new sidecar must be able to begin. */
Test(daemon_redis, promotion_works_while_redis_memory_is_full) {
    one_sidecar();
    cluster_sidecar_up(&s, (sidecar_t){0});
    cluster_works(&s, "q");
    char job[16];
    for (int i = 0; i < 8; i++) {
        snprintf(job, sizeof(job), "%d", i);
        cluster_delay(s.r, "q", job, 400 * i);
    }
    redis_ok(s.r, "CONFIG SET maxmemory 1");
    char *error = redis_error(s.r, "SET k v");
    cr_assert_eq(strncmp(error, "OOM", 3), 0);
    free(error);
    for (int i = 0; i < 8; i++) {
        snprintf(job, sizeof(job), "%d", i);
        expect_job(job);
        daemon_t *leader = i == 2 || i == 4 ? cluster_await_leader(&s, "g", NULL, 5000) : NULL;
        if (i == 2) daemon_kill(leader);
        if (i == 4) daemon_kill(leader);
        if (i == 4) cluster_sidecar_up(&s, (sidecar_t){0});
    }
    redis_ok(s.r, "CONFIG SET maxmemory 0");
    cluster_works(&s, "q");
}

Test(daemon_redis, sidecars_resume_after_killed_connections) {
    static const char *const names[] = {"", "-dispatcher", "-leader", "-wakeups", "-vacant", ""};
    one_sidecar();
    cluster_sidecar_up(&s, (sidecar_t){0});
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        cluster_works(&s, "q");
        cr_assert(wait_for(cluster_connections(s.r, "-vacant") >= 1, 5000));
        cluster_delay(s.r, "q", "soon", 100);
        cluster_delay(s.r, "q", "late", 3600000);
        cr_assert_geq(cluster_kill_connections(s.r, names[i]), 1);
        expect_both();
        redis_ok(s.r, "DEL q:delayed");
    }
}

Test(daemon_redis, sidecars_resume_after_paused_writes) {
    one_sidecar();
    two_jobs(200);
    redis_ok(s.r, "CLIENT PAUSE 1300 WRITE");
    expect_both();
}

Test(daemon_redis, sidecars_resume_after_script_flush) {
    s = cluster_begin(NULL);
    cluster_sidecar_up(&s, (sidecar_t){.ttl = "6s"});
    for (int i = 0; i < 3; i++) {
        redis_ok(s.r, "SCRIPT FLUSH");
        two_jobs(100);
        expect_both();
        redis_ok(s.r, "DEL q:delayed");
        cr_assert(cluster_stays(daemon_running(s.sidecars[0]), 2100)); /* until the next renewal */
    }
    cr_assert_eq(daemon_log_count(s.sidecars[0], "no longer leading"), 0);
}

Test(daemon_redis, sidecars_resume_after_debug_sleep) {
    one_sidecar();
    two_jobs(200);
    redis_ok(s.r, "DEBUG SLEEP 1.3");
    expect_both();
}

static void replicate(cluster_t *pair, server_t *of) {
    redis_ok(pair->r, "REPLICAOF 127.0.0.1 %d", of ? server_port(of) : 1);
    if (of) cr_assert(wait_for(strstr(server_info(pair->server, "replication"), "master_link_status:up"), 15000));
}

/* The server becomes a replica of its former replica, and then a primary again. */
Test(daemon_redis, sidecars_resume_after_redis_was_a_replica) {
    s = cluster_begin(&(server_options_t){.tcp = true});
    redis_ok(s.r, "CONFIG SET repl-diskless-sync-delay 0");
    scoped(cluster_end) cluster_t other = cluster_begin(&(server_options_t){.tcp = true});
    redis_ok(other.r, "CONFIG SET repl-diskless-sync-delay 0");
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){0});
    two_jobs(300);
    replicate(&other, s.server);
    cr_assert(wait_for(redis_int(other.r, "ZCARD q:delayed") + redis_int(other.r, "LLEN q") == 2, 5000));
    redis_ok(other.r, "REPLICAOF NO ONE");
    replicate(&s, other.server);
    cr_assert(daemon_wait_log(d, "cannot lead", 5000) && cluster_says(d, "cannot lead", "replica"));
    int lines = log_lines(d);
    long long calls = server_commandstat(s.server, "evalsha");
    cr_assert(cluster_stays(log_lines(d) - lines <= 10, 1000));
    cr_assert_leq(server_commandstat(s.server, "evalsha") - calls, 40); /* few requests meanwhile */
    redis_ok(s.r, "REPLICAOF NO ONE");
    expect_both();
}

Test(daemon_redis, sidecars_resume_after_a_replica_lost_its_primary) {
    one_sidecar();
    two_jobs(300);
    replicate(&s, NULL);
    cr_assert(daemon_wait_log(s.sidecars[0], "cannot lead", 5000));
    redis_ok(s.r, "REPLICAOF NO ONE");
    expect_both();
}

/* Redis refuses `request` for a while, and wake-ups arrive meanwhile: the sidecar waits, and does not spin on the readable
 * socket. Returns the number of requests in that time. */
static long refused_with(const char *error, const char *request) {
    enum { WINDOW_MS = 1500 };
    s = cluster_begin(NULL);
    scoped(proxy_drop) proxy_t *proxy = proxy_start(server_socket(s.server));
    /* A long timeout, so that a slow machine causes no reconnect: a new connection would send many requests. */
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.socket = proxy_socket(proxy), .ttl = "20s", .redis = "timeout = \"20s\";"});
    cluster_works(&s, "q");
    proxy_rule(proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = request, .error = error, .times = -1});
    cluster_delay(s.r, "q", "soon", 0);
    cr_assert(daemon_wait_log(d, "redis is not ready", 5000));
    int64_t cpu_us = daemon_cpu_us(d);
    long requests = proxy_requests(proxy, NULL);
    int more = 0;
    cr_assert(cluster_stays(redis_int(s.r, "ZADD q:delayed %lld late%d", redis_ms(s.r) + 3600000, ++more) == 1, WINDOW_MS));
    requests = proxy_requests(proxy, NULL) - requests;
    cpu_us = daemon_cpu_us(d) - cpu_us;
    cr_assert_leq(cpu_us, wait_scaled_ms(150) * 1000, "%lld ms of CPU in %d ms", (long long)cpu_us / 1000, WINDOW_MS);
    proxy_pass(proxy);
    expect_job("soon");
    cluster_works(&s, "q");
    cr_assert_eq(redis_int(s.r, "ZCARD q:delayed"), more);
    daemon_stop(d);
    s.count = 0;
    return requests;
}

#define PROMOTE "q:delayed q sidecar:q:meta"
enum { MOST_REFUSED_REQUESTS = 60 };

Test(daemon_redis, sidecars_resume_after_a_busy_script) {
    cr_assert_leq(refused_with("-BUSY Redis is busy running a script", "EVALSHA"), MOST_REFUSED_REQUESTS);
}

Test(daemon_redis, sidecars_resume_after_failed_persistence) {
    cr_assert_leq(refused_with("-MISCONF Redis is configured to save RDB snapshots", PROMOTE), MOST_REFUSED_REQUESTS);
}

Test(daemon_redis, sidecars_resume_after_missing_replicas) {
    cr_assert_leq(refused_with("-NOREPLICAS Not enough good replicas to write.", PROMOTE), MOST_REFUSED_REQUESTS);
}
