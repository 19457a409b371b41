// Stalled jobs of Bull 4: how many a second the sidecar gives back, against Bull's own script (lib/commands/moveStalledJobsToWait
// of the npm package that tests/clients/install.sh fetches), which gives back all of them in one step. Nobody else is served
// meanwhile: a second client sends PING.
//
// All jobs are in `active`. Either every worker is dead, or every second job has a lock. A round ends when each job without a
// lock waits.
#include <math.h>

#include "bull_script.h"
#include "ping.h"

enum { JOBS = 20000, PER_CALL = 5000, POLL_US = 1000 };

#define BULL     "bull:q0:"
#define SETTINGS "{ name = \"q0\"; dialect = \"bull\"; roles = [\"monitor\"]; stalled_interval = \"1s\"; }"

static const char FILL[] =
    "for i = ARGV[1], ARGV[2] do "
    "redis.call('HSET', KEYS[1] .. i, 'name', '__default__', 'data', "
    "'{\"to\":\"ann@example.org\",\"template\":\"welcome\",\"n\":' .. i .. '}', 'opts', '{\"attempts\":1,\"timestamp\":' .. "
    "ARGV[3] .. '}', 'timestamp', ARGV[3], 'delay', '0', 'priority', '0', 'processedOn', ARGV[3]) "
    "redis.call('LPUSH', KEYS[1] .. 'stage', i) redis.call('SADD', KEYS[1] .. 'marks', i) "
    "if ARGV[4] == '1' and i % 2 == 1 then redis.call('SET', KEYS[1] .. i .. ':lock', 'w') end end";

static int load(redisContext *redis, bool half) {
    for (int i = 0; i < JOBS; i += PER_CALL)
        redis_do(redis, "EVAL %s 1 " BULL " %d %d %lld %d", FILL, i, i + PER_CALL - 1, (long long)(wall_us() / 1000), (int)half);
    return half ? JOBS / 2 : JOBS;
}

typedef struct rates {
    double wall; // jobs a second
    double us;   // CPU time of Redis for one job
    double ping; // ms, the 99th percentile
} rates_t;

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double ping_p99(pinger_t *pinger) {
    if (pinger->count == 0) return 0;
    qsort(pinger->ms, pinger->count, sizeof *pinger->ms, compare_numbers);
    return pinger->ms[(size_t)(0.99 * (double)(pinger->count - 1))];
}

static int64_t waiting(redisContext *redis) { return redis_do(redis, "LLEN " BULL "wait"); }

static rates_t sidecar_round(bench_t *bench, redisContext *redis, bool half) {
    pinger_t pinger = ping_open(bench);
    pid_t sidecar = sidecar_start(bench, (sidecar_options_t){.name = "bull_stalled", .queue = SETTINGS});
    int64_t jobs = load(redis, half), first, now = 0;
    redis_do(redis, "RENAME " BULL "stage " BULL "active");
    redis_do(redis, "DEL " BULL "marks");
    for (int i = 0; (first = waiting(redis)) == 0; i++) {
        if (i == 20000 || waitpid(sidecar, NULL, WNOHANG) == sidecar) die("the sidecar gives nothing back; see its log");
        sleep_us(POLL_US);
    }
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    ping_begin(&pinger);
    while ((now = waiting(redis)) < jobs) {
        if (mono_us() - began > 60000000) die("%lld of %lld jobs were given back", (long long)now, (long long)jobs);
        sleep_us(POLL_US);
    }
    int64_t ended = mono_us();
    ping_end(&pinger);
    cpu = redis_cpu_us(redis) - cpu;
    if (redis_do(redis, "LLEN " BULL "active") != JOBS - jobs) die("a job is in two places");
    sidecar_stop(sidecar, SIGTERM);
    redis_do(redis, "FLUSHDB");
    rates_t rates = {.wall = (double)(jobs - first) / (double)(ended - began) * 1e6,
                     .us = cpu / (double)(jobs - first),
                     .ping = ping_p99(&pinger)};
    ping_close(&pinger);
    return rates;
}

static rates_t bull_round(bench_t *bench, redisContext *redis, const char *sha, bool half) {
    pinger_t pinger = ping_open(bench);
    int64_t jobs = load(redis, half);
    redis_do(redis, "RENAME " BULL "stage " BULL "active");
    redis_do(redis, "RENAME " BULL "marks " BULL "stalled");
    double cpu = redis_cpu_us(redis);
    ping_begin(&pinger);
    int64_t began = mono_us();
    redis_do(redis,
             "EVALSHA %s 7 " BULL "stalled " BULL "wait " BULL "active " BULL "failed " BULL "stalled-check " BULL
             "meta-paused " BULL "paused 1 " BULL " %lld 30000",
             sha, (long long)(wall_us() / 1000));
    int64_t ended = mono_us();
    ping_end(&pinger);
    cpu = redis_cpu_us(redis) - cpu;
    if (waiting(redis) != jobs) die("Bull's script gave back %lld jobs", (long long)waiting(redis));
    redis_do(redis, "FLUSHDB");
    rates_t rates = {.wall = (double)jobs / (double)(ended - began) * 1e6, .us = cpu / (double)jobs, .ping = ping_p99(&pinger)};
    if (pinger.count) rates.ping = pinger.ms[pinger.count - 1]; // one PING waits for all of the script
    ping_close(&pinger);
    return rates;
}

static void compare(bench_t *bench, redisContext *redis, const char *sha, bool half, double goal) {
    series_t ours = {0}, bulls = {0}, us = {0}, bulls_us = {0}, ping = {0}, bulls_ping = {0};
    for (int i = 0; i < bench->rounds; i++) {
        rates_t own = sidecar_round(bench, redis, half), theirs = bull_round(bench, redis, sha, half);
        series_add(&ours, own.wall);
        series_add(&us, own.us);
        series_add(&ping, own.ping);
        series_add(&bulls, theirs.wall);
        series_add(&bulls_us, theirs.us);
        series_add(&bulls_ping, theirs.ping);
        fprintf(stderr, "bull_stalled: round %d: %.0f jobs/s, Bull's script %.0f\n", i + 1, own.wall, theirs.wall);
    }
    table_row(bench,
              half ? "20,000 active jobs, 10,000 of them stalled: sidecar, jobs/s" : "20,000 stalled jobs: sidecar, jobs/s",
              &ours, 0, goal > 0 ? '>' : 0, goal);
    table_row(bench, "Bull's own script, jobs/s", &bulls, 0, 0, 0);
    table_row(bench, "CPU of Redis for a job, sidecar, us", &us, 1, 0, 0);
    table_row(bench, "CPU of Redis for a job, Bull's script, us", &bulls_us, 1, 0, 0);
    table_row(bench, "PING of another client, p99, sidecar, ms", &ping, 1, 0, 0);
    table_row(bench, "PING of another client, longest, Bull's script, ms", &bulls_ping, 1, 0, 0);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    redisReply *sha = bull_load_script(redis, "moveStalledJobsToWait");
    if (!sha) {
        printf("\nbull_stalled: skipped: no bull@" BULL_VERSION " in build/clients (sh tests/clients/install.sh fetches it)\n");
        return 0;
    }
    redis_do(redis, "FLUSHDB");
    redis_do(redis, "CONFIG SET lua-time-limit 0"); // Bull's script takes seconds; BUSY would end the PINGs
    table_head("Stalled jobs of Bull " BULL_VERSION " given back");
    compare(&bench, redis, sha->str, false, 15000);
    compare(&bench, redis, sha->str, true, 0);
    redis_do(redis, "CONFIG SET lua-time-limit 5000");
    freeReplyObject(sha);
    redisFree(redis);
    return bench_end(&bench);
}
