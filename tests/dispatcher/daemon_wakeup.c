/* Wake-ups with a safety poll of an hour, on every server that is installed: a lost wake-up would delay a job for an hour. */
#include "cluster.h"
#include "every_server.h"

#include <criterion/parameterized.h>

enum { HOUR_MS = 3600 * 1000, MOMENT_MS = 5000, AHEAD_MS = 4000 }; /* the safety poll is an hour away */

#define EVERY_SERVER(name) ON_EVERY_SERVER(daemon_wakeup, name)

static cluster_t begin(int number, const char *queues) {
    cluster_t s = cluster_begin(&(server_options_t){.binary = every_server_binary(number)});
    cluster_sidecar_up(&s, (sidecar_t){.ttl = "20s", .queues = queues});
    cluster_works(&s, "q");
    return s;
}

/* The job arrives in time, with an allowance for a slow machine, and not early. */
static void expect_on_time(cluster_t *s, const char *expected, int64_t due) {
    char *job = cluster_take(s->r, "q", 10000);
    int64_t late = redis_ms(s->r) - due;
    if (!job) cluster_fail(s, "a job was not promoted");
    cr_assert_str_eq(job, expected);
    cr_assert(late >= 0 && late <= wait_scaled_ms(MOMENT_MS), "%s was %lld ms late", expected, (long long)late);
}

/* Delays a job and waits until the daemon has read the new head. */
static int64_t delay_seen(cluster_t *s, const char *job, int64_t delay_ms) {
    long long calls = server_commandstat(s->server, "evalsha");
    int64_t due = cluster_delay(s->r, "q", job, delay_ms);
    cr_assert(wait_for(server_commandstat(s->server, "evalsha") > calls, 5000));
    return due;
}

EVERY_SERVER(sooner_job_is_noticed) {
    scoped(cluster_end) cluster_t s = begin(*number, NULL);
    delay_seen(&s, "far", HOUR_MS);
    int64_t second = delay_seen(&s, "second", AHEAD_MS);
    expect_on_time(&s, "first", cluster_delay(s.r, "q", "first", 120));
    expect_on_time(&s, "second", second);
    expect_on_time(&s, "far", cluster_delay(s.r, "q", "far", 50)); /* a known member gets another time */
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(redis_int(s.r, "EXISTS q:delayed"), 0);
        expect_on_time(&s, "alone", cluster_delay(s.r, "q", "alone", 20 * i));
    }
}

EVERY_SERVER(vanished_head_is_noticed) {
    scoped(cluster_end) cluster_t s = begin(*number, NULL);
    int64_t next = cluster_delay(s.r, "q", "next", AHEAD_MS + 100);
    delay_seen(&s, "head", AHEAD_MS);
    redis_ok(s.r, "ZREM q:delayed head");
    expect_on_time(&s, "next", next);
    delay_seen(&s, "deleted", AHEAD_MS);
    redis_ok(s.r, "DEL q:delayed");
    expect_on_time(&s, "after", cluster_delay(s.r, "q", "after", 300));
    delay_seen(&s, "put off", AHEAD_MS);
    expect_on_time(&s, "put off", cluster_delay(s.r, "q", "put off", AHEAD_MS + 250));
    delay_seen(&s, "expired", HOUR_MS);
    redis_ok(s.r, "PEXPIRE q:delayed 20");
    cr_assert(wait_for(redis_int(s.r, "EXISTS q:delayed") == 0, 5000));
    expect_on_time(&s, "at last", cluster_delay(s.r, "q", "at last", 50));
    cr_assert_eq(redis_int(s.r, "LLEN q"), 0);
}

EVERY_SERVER(renamed_key_is_noticed) {
    static const char *const moves[] = {"RENAME elsewhere:delayed q:delayed", "COPY elsewhere:delayed q:delayed REPLACE",
                                        "ZUNIONSTORE q:delayed 1 elsewhere:delayed",
                                        "ZRANGESTORE q:delayed elsewhere:delayed 0 -1"};
    scoped(cluster_end) cluster_t s = begin(*number, NULL);
    for (size_t i = 0; i < sizeof(moves) / sizeof(*moves); i++) {
        delay_seen(&s, "covered", HOUR_MS);
        int64_t due = cluster_delay(s.r, "elsewhere", "moved", 100);
        redis_ok(s.r, moves[i]);
        expect_on_time(&s, "moved", due);
        redis_ok(s.r, "DEL elsewhere:delayed");
    }
}

/* A pipeline of one command, repeated. */
static void many(redis_t *r, int times, const char *command) {
    for (int i = 0; i < times; i++) redisAppendCommand(r, command);
    for (int i = 0; i < times; i++) {
        redisReply *reply = NULL;
        cr_assert_eq(redisGetReply(r, (void **)&reply), REDIS_OK);
        freeReplyObject(reply);
    }
}

static bool is_calm(const cluster_t *s, long long *reads_next_due) {
    *reads_next_due = server_commandstat(s->server, "client|caching");
    return cluster_stays(server_commandstat(s->server, "client|caching") == *reads_next_due, 100);
}

EVERY_SERVER(pops_of_workers_cause_nothing) {
    scoped(cluster_end) cluster_t s = begin(*number, NULL);
    redis_ok(s.r, "EVAL %s 1 q:delayed", "for i = 1, 1000 do redis.call('ZADD', KEYS[1], 1, i) end");
    cr_assert(wait_for(redis_int(s.r, "LLEN q") == 1000, 5000));
    delay_seen(&s, "far", HOUR_MS);
    delay_seen(&s, "near", HOUR_MS / 2);
    long long reads_next_due;
    cr_assert(wait_for(is_calm(&s, &reads_next_due), 10000)); /* requests that the last add caused may still be in flight */
    long long calls = server_commandstat(s.server, "evalsha");
    many(s.r, 500, "RPOP q");
    many(s.r, 500, "RPOPLPUSH q q:backup");
    many(s.r, 500, "LREM q:backup 1 x");
    many(s.r, 500, "SET sidecar-of-somebody-else 1");
    cr_assert(cluster_stays(server_commandstat(s.server, "evalsha") - calls <= 2, 200));
    cr_assert_leq(server_commandstat(s.server, "client|caching") - reads_next_due, 2,
                  "only a late read after the last add is allowed");
    cluster_works(&s, "q");
}

EVERY_SERVER(many_adds_cause_few_reads) {
    enum { FOR_MS = 600 };
    scoped(cluster_end) cluster_t s = begin(*number, NULL);
    long long calls = server_commandstat(s.server, "evalsha");
    int64_t began = wait_now_us();
    int adds = 0;
    /* Each job becomes the new head. */
    for (; wait_now_us() - began < FOR_MS * 1000 || (adds < 20000 && server_commandstat(s.server, "evalsha") < calls + 5); adds++)
        redis_ok(s.r, "ZADD q:delayed %lld job%d", redis_ms(s.r) + HOUR_MS - adds, adds);
    double seconds = (double)(wait_now_us() - began) / 1e6;
    calls = server_commandstat(s.server, "evalsha") - calls;
    cr_assert_leq((double)calls, 1100 * seconds + 20, "%lld reads in %.3f s, at %d adds", calls, seconds, adds);
    cr_assert_geq(calls, 5);
    cluster_works(&s, "q");
    cr_assert_eq(redis_int(s.r, "ZCARD q:delayed"), adds);
}

/* One step adds the job and kills the subscriber, so no invalidation arrives. */
EVERY_SERVER(dead_subscriber_is_replaced) {
    scoped(cluster_end) cluster_t s = begin(*number, NULL);
    for (int round = 0; round < 4; round++) {
        cr_assert(wait_for(cluster_connections(s.r, "-wakeups") == 1, 5000));
        char *list = NULL, *line = NULL; /* TYPE pubsub: a subscriber has its name before it subscribes */
        cr_assert(wait_for((free(list), list = redis_str(s.r, "CLIENT LIST TYPE pubsub"),
                            (line = strstr(list, "name=queue-sidecar-wakeups")) != NULL),
                           5000));
        while (line > list && line[-1] != '\n') line--;
        long long id = strtoll(line + strlen("id="), NULL, 10);
        free(list);
        int64_t due = redis_ms(s.r);
        redis_ok(s.r, "MULTI");
        redis_ok(s.r, "CLIENT KILL ID %lld", id);
        redis_ok(s.r, "ZADD q:delayed %lld missed", (long long)due);
        redis_ok(s.r, "EXEC");
        expect_on_time(&s, "missed", due);
        cluster_works(&s, "q");
    }
    cr_assert_eq(daemon_log_count(s.sidecars[0], "no longer leading"), 0);
}

EVERY_SERVER(every_queue_is_watched) {
    scoped(cluster_end) cluster_t s =
        begin(*number, "{ name = \"q\"; }, { name = \"other\"; }, { name = \"third\"; delayed = \"strange key \\\"3\\\"\"; }");
    cluster_works(&s, "other");
    redis_ok(s.r, "ZADD %s 1 odd", "strange key \"3\"");
    char *job = cluster_take(s.r, "third", 5000);
    cr_assert_not_null(job);
    redis_ok(s.r, "FLUSHALL"); /* also removes the lock, long before its next renewal */
    cr_assert_leq(cluster_round(&s, "other", 0), wait_scaled_ms(MOMENT_MS));
    cluster_works(&s, "other");
    cluster_works(&s, "q");
}
