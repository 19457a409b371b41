/* Many queues on one server: fairness, faults of one queue, limits of one queue. */
#include "cluster.h"
#include "proxy.h"

static void expect_job(cluster_t *s, const char *queue, const char *expected) {
    char *job = cluster_take(s->r, queue, 15000);
    if (!job) cluster_fail(s, "a job was not promoted");
    cr_assert_str_eq(job, expected);
}

enum { BIG = 200000, SMALL = 20, CHUNK = 5000, MAX_SAMPLES = 100000 };

static int compare_times(const void *a, const void *b) {
    return (*(const int64_t *)a > *(const int64_t *)b) - (*(const int64_t *)a < *(const int64_t *)b);
}

/* Takes the ready job of each small queue and adds another job that is due at once. Stores in `late` how many us late the taken
 * jobs were; returns their number. */
static size_t sample(redis_t *r, int64_t *late, size_t room) {
    static const char script[] =
        "local t = redis.call('TIME') local now, late = t[1] * 1000 + t[2] / 1000, {} "
        "for i = 0, ARGV[1] - 1 do local due = redis.call('RPOP', 'small' .. i) "
        "if due then late[#late + 1] = math.floor((now - due) * 1000) local again = string.format('%.3f', now) "
        "redis.call('ZADD', 'small' .. i .. ':delayed', again, again) end end return late";
    redisReply *reply = redis_do(r, "EVAL %s 0 %d", script, SMALL);
    cr_assert_eq(reply->type, REDIS_REPLY_ARRAY, "%s", reply->str);
    size_t count = 0;
    for (; count < reply->elements && count < room; count++) {
        late[count] = reply->element[count]->integer;
        cr_assert_geq(late[count], 0, "%lld us early", (long long)-late[count]);
    }
    return count;
}

/* The 95th percentile of the lateness of small jobs, in us. Not the maximum, because the machine may pause. */
static int64_t small_ones_late_us(void) {
    static const char fill[] = "for i = ARGV[1], ARGV[1] + ARGV[3] - 1 do redis.call('ZADD', KEYS[1], ARGV[2], i) end";
    static int64_t late[MAX_SAMPLES];
    scoped(cluster_end) cluster_t s = cluster_begin(NULL);
    char *queues = cluster_queues("{ name = \"big\"; }", "small", SMALL);
    cluster_sidecar_up(&s, (sidecar_t){.ttl = "5s", .queues = queues});
    int64_t due = 0;
    for (int ahead_ms = 1500; redis_ms(s.r) >= due; ahead_ms *= 2) { /* all jobs must be added before they fall due */
        cr_assert_lt(ahead_ms, 60000, "this machine is too slow to fill the queue in time");
        redis_ok(s.r, "FLUSHDB");
        cluster_await_leader(&s, "g", NULL, 10000);
        due = redis_ms(s.r) + ahead_ms;
        for (int i = 0; i < BIG; i += CHUNK) redis_ok(s.r, "EVAL %s 1 big:delayed %d %lld %d", fill, i, (long long)due, CHUNK);
        for (int i = 0; i < SMALL; i++) redis_ok(s.r, "ZADD small%d:delayed %lld %lld", i, (long long)due, (long long)due);
    }
    cr_assert(wait_for(redis_int(s.r, "LLEN big") > 0, 60000)); /* wait until the promotion of the big queue has begun */
    size_t count = 0;
    while (redis_int(s.r, "ZCARD big:delayed") > 0) count += sample(s.r, late + count, MAX_SAMPLES - count);
    cr_assert_geq(count, 2 * SMALL);
    qsort(late, count, sizeof(*late), compare_times);
    int64_t most = late[count - 1 - count / 20];
    fprintf(stderr, "of %zu small jobs 95%% were less than %lld us late, the median %lld us\n", count, (long long)most,
            (long long)late[count / 2]);
    cr_assert_eq(redis_int(s.r, "LLEN big"), BIG);
    return most;
}

static cluster_t s;
SUITE(daemon_queues, s = cluster_begin(NULL), cluster_end(&s));

Test(daemon_queues, large_queue_does_not_delay_small_queues, .timeout = 120) {
    cr_assert(wait_for(small_ones_late_us() <= wait_scaled_ms(50) * 1000, 30000));
}

Test(daemon_queues, one_leader_serves_a_hundred_queues) {
    enum { QUEUES = 100 };
    char *queues = cluster_queues("", "q", QUEUES), name[16];
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.ttl = "5s", .poll = "5s", .queues = queues});
    for (int i = 0; i < QUEUES; i++) {
        snprintf(name, sizeof(name), "q%d", i);
        cluster_delay(s.r, name, name, 100 + i);
    }
    for (int i = QUEUES; i-- > 0;) {
        snprintf(name, sizeof(name), "q%d", i);
        expect_job(&s, name, name);
    }
    long long calls = server_commandstat(s.server, "evalsha");
    int64_t cpu_us = daemon_cpu_us(d);
    cr_assert(
        cluster_stays(server_commandstat(s.server, "evalsha") - calls <= 5, 1000)); /* renewals and at most one safety poll */
    cr_assert_leq(daemon_cpu_us(d) - cpu_us, wait_scaled_ms(50) * 1000);
}

static bool is_calm(proxy_t *proxy) {
    long requests = proxy_requests(proxy, NULL);
    return cluster_stays(proxy_requests(proxy, NULL) - requests <= 4, 300);
}

/* A sidecar with two queues, of which `bad` has a fault. */
typedef struct {
    cluster_t s;
    proxy_t *proxy;
    daemon_t *d;
} trouble_t;

static trouble_t trouble_begin(sidecar_t spec, const char *harm) {
    trouble_t t = {.s = cluster_begin(NULL)};
    t.proxy = proxy_start(server_socket(t.s.server));
    redis_ok(t.s.r, "ACL SETUSER limited on >pw ~good* ~sidecar:* &* +@all");
    if (harm) redis_ok(t.s.r, harm);
    spec.socket = proxy_socket(t.proxy);
    spec.ttl = "3s";
    spec.queues = "{ name = \"bad\"; }, { name = \"good\"; }";
    t.d = cluster_sidecar_up(&t.s, spec);
    cluster_round(&t.s, "good", 0);
    cluster_works(&t.s, "good");
    return t;
}

/* After the first checks of all roles, the sidecar sends few requests and logs few lines. */
static void expect_quiet(const trouble_t *t) {
    cr_assert(wait_for(is_calm(t->proxy), 10000));
    long requests = proxy_requests(t->proxy, NULL);
    int64_t cpu_us = daemon_cpu_us(t->d);
    cr_assert(cluster_stays(proxy_requests(t->proxy, NULL) - requests <= 20, 1500));
    cr_assert_leq(daemon_cpu_us(t->d) - cpu_us, wait_scaled_ms(60) * 1000);
    int lines = daemon_log_count(t->d, "\"queue\":\"bad\"");
    cr_assert_leq(lines, 6, "%d lines about the bad queue", lines);
    cr_assert_eq(daemon_log_count(t->d, "\"queue\":\"good\""), 0);
}

/* Repairs the queue: the sidecar serves it again without a restart. */
static void repaired(trouble_t *t, const char *repair) {
    cluster_works(&t->s, "good");
    redis_ok(t->s.r, repair);
    cluster_delay(t->s.r, "bad", "repaired", 0);
    expect_job(&t->s, "bad", "repaired");
    cluster_works(&t->s, "bad");
    cluster_works(&t->s, "good");
    daemon_stop(t->d);
    t->s.count = 0;
    proxy_stop(t->proxy);
    cluster_end(&t->s);
}

Test(daemon_queues, delayed_key_of_wrong_type_stops_only_its_queue) {
    trouble_t t = trouble_begin((sidecar_t){0}, "SET bad:delayed string");
    cr_assert(daemon_wait_log(t.d, "WRONGTYPE", 5000));
    expect_quiet(&t);
    char *kept = redis_str(t.s.r, "GET bad:delayed");
    cr_assert_str_eq(kept, "string", "the sidecar has changed a key of another program");
    repaired(&t, "DEL bad:delayed");
}

Test(daemon_queues, key_without_rights_stops_only_its_queue) {
    sidecar_t spec = {.redis = "username = \"limited\"; password = \"pw\";"};
    trouble_t t = trouble_begin(spec, NULL);
    cr_assert(daemon_wait_log(t.d, "NOPERM", 5000));
    expect_quiet(&t);
    cluster_delay(t.s.r, "bad", "waits", 0);
    cr_assert(cluster_stays(redis_int(t.s.r, "ZCARD bad:delayed") == 1 && redis_int(t.s.r, "LLEN bad") == 0, 300));
    redis_ok(t.s.r, "DEL bad:delayed");
    repaired(&t, "ACL SETUSER limited ~bad*");
}

/* The fault is found only when a job falls due. The job stays in delayed. */
Test(daemon_queues, ready_key_of_wrong_type_keeps_jobs_delayed) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"bad\"; }, { name = \"good\"; }"});
    redis_ok(s.r, "SET bad string");
    for (int i = 0; i < 3; i++) redis_ok(s.r, "ZADD bad:delayed %d job%d", i, i);
    cr_assert(daemon_wait_log(d, "holds a ", 5000));
    cluster_works(&s, "good");
    cr_assert_eq(redis_int(s.r, "ZCARD bad:delayed"), 3);
    redis_ok(s.r, "DEL bad");
    expect_job(&s, "bad", "job0");
    expect_job(&s, "bad", "job1");
    expect_job(&s, "bad", "job2");
    cluster_works(&s, "bad");
}

/* Redis does not roll back a script that is refused half-way: each job must still be in delayed or in ready. */
Test(daemon_queues, rights_withdrawn_while_running_lose_no_job) {
    redis_ok(s.r, "ACL SETUSER limited on >pw ~* &* +@all");
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.ttl = "20s", .redis = "username = \"limited\"; password = \"pw\";"});
    cluster_works(&s, "q");
    redis_ok(s.r, "ACL SETUSER limited -lpush");
    redis_ok(s.r, "ZADD q:delayed 1 a 2 b");
    cr_assert(daemon_wait_log(d, "redis refuses to promote", 5000));
    cr_assert_eq(redis_int(s.r, "ZCARD q:delayed") + redis_int(s.r, "LLEN q"), 2);
    redis_ok(s.r, "ACL SETUSER limited +lpush");
    expect_job(&s, "q", "a");
    expect_job(&s, "q", "b");
    cluster_works(&s, "q");
}

Test(daemon_queues, ready_list_stays_within_ready_limit) {
    enum { LIMIT = 5, JOBS = 60 };
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"q\"; ready_limit = 5; }"});
    cluster_works(&s, "q");
    for (int i = 0; i < JOBS; i++) redis_ok(s.r, "ZADD q:delayed %d job%02d", i, i);
    int taken = 0;
    size_t waits = 0;
    int64_t waited[JOBS];
    while (taken < JOBS) {
        int64_t began = wait_now_us();
        cr_assert(wait_for(redis_int(s.r, "LLEN q") > 0, 5000));
        if (taken) waited[waits++] = (wait_now_us() - began) / 1000;
        cr_assert(wait_for(redis_int(s.r, "LLEN q") >= LIMIT || taken + LIMIT > JOBS, 5000));
        for (; redis_int(s.r, "LLEN q") > 0; taken++) {
            char job[16];
            snprintf(job, sizeof(job), "job%02d", taken);
            cr_assert_leq(redis_int(s.r, "LLEN q"), LIMIT);
            expect_job(&s, "q", job); /* in the order of their due times */
        }
    }
    qsort(waited, waits, sizeof(*waited), compare_times);
    cr_assert_leq(waited[waits / 2], wait_scaled_ms(250 + 200), "the next job came only after %lld ms",
                  (long long)waited[waits / 2]);
    cr_assert_leq(daemon_log_count(d, "ready is at ready_limit"), 2);
    cluster_works(&s, "q");
}

Test(daemon_queues, scores_in_seconds_are_promoted_on_time) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.queues = "{ name = \"q\"; score_unit = \"s\"; }"});
    for (int i = 0; i < 5; i++) {
        int64_t due_us = redis_us(s.r) + 90000 * i;
        redis_ok(s.r, "ZADD q:delayed %.6f job", (double)due_us / 1e6);
        expect_job(&s, "q", "job");
        int64_t late = redis_us(s.r) - due_us;
        cr_assert(late >= -1 && late <= wait_scaled_ms(5000) * 1000, "%lld us late", (long long)late);
    }
    cr_assert_eq(daemon_log_count(d, "looks like"), 0);
    cluster_delay(s.r, "q", "in ms by mistake", 0);
    cr_assert(daemon_wait_log(d, "looks like milliseconds", 5000));
    cr_assert_eq(redis_int(s.r, "LLEN q"), 0);
}

Test(daemon_queues, oversized_entries_stay_and_are_logged) {
    daemon_t *d = cluster_sidecar_up(&s, (sidecar_t){.ttl = "20s", .queues = "{ name = \"q\"; max_payload = \"1KiB\"; }"});
    char large[2049];
    memset(large, 'L', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    redis_ok(s.r, "ZADD q:delayed 1 before 2 %s 3 behind", large);
    expect_job(&s, "q", "before");
    expect_job(&s, "q", "behind");
    cr_assert(daemon_wait_log(d, "larger than max_payload", 5000));
    cr_assert(cluster_says(d, "larger than max_payload", "\"bytes\":2048"));
    cr_assert(cluster_says(d, "larger than max_payload", "\"score\":2,"));
    cr_assert_eq(daemon_log_count(d, "LLLL"), 0);
    cluster_works(&s, "q");
    redis_expect(s.r, "2", "ZSCORE q:delayed %s", large);
    long long calls = server_commandstat(s.server, "evalsha");
    cr_assert(cluster_stays(server_commandstat(s.server, "evalsha") - calls <= 10,
                            800)); /* the dispatcher does not retry the entry all the time */
    redis_ok(s.r, "ZREM q:delayed %s", large);
    cluster_works(&s, "q");
}
