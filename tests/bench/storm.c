// Storms: all jobs in progress stall at once, as when a node pool dies. They are given back to the workers, or ended with
// records.
//
// Before each round a client does the least that a storm needs, by scripts of JOBS jobs without any check: record, push, stamp
// and removal. Its rate is the most that this machine and its Redis allow. Another client's PING is measured in both.
#include "pass.h"
#include "ping.h"

enum { JOBS = 32, POLL_US = 2000, STORM_POLLS_MAX = 60000 };

// KEYS: backup, ready, stamps, failures. ARGV: how many jobs.
static const char FLOOR[] =
    "local jobs = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1) if #jobs == 0 then return 0 end "
    "for i, job in ipairs(jobs) do "
    "redis.call('XADD', KEYS[4], '*', 'at', '1700000000000', 'kind', 'retried', 'dialect', 'list', 'queue', 'q0', 'job', job, "
    "'event', string.rep('0', 64), 'sha256', string.rep('1', 64), 'attempts', '1', 'size', '100', 'reason', 'stalled') "
    "redis.call('HSET', KEYS[3], i, 'stamp') end "
    "redis.call('RPUSH', KEYS[2], unpack(jobs)) "
    "for _, job in ipairs(jobs) do redis.call('LREM', KEYS[1], 1, job) end return #jobs";

typedef struct storm {
    const char *name;
    const char *label;
    int retry_times;
    const char *counts; // command whose reply is the number of jobs done
    double goal, cpu_goal;
} storm_t;

typedef struct round {
    double rate, cpu_us, p99;
} round_t;

// The scripts of the floor, one after another.
static round_t floor_round(redisContext *redis, pinger_t *pinger, int entries) {
    redis_do(redis, "FLUSHALL");
    backup_load(redis, entries);
    redisReply *sha = redis_ask(redis, "SCRIPT LOAD %s", FLOOR);
    double cpu = redis_cpu_us(redis);
    ping_begin(pinger);
    int64_t began = mono_us();
    while (redis_do(redis, "EVALSHA %s 4 q0:backup q0 stamps failures %d", sha->str, JOBS) > 0) continue;
    double took = (double)(mono_us() - began);
    ping_end(pinger);
    freeReplyObject(sha);
    return (round_t){entries / took * 1e6, (redis_cpu_us(redis) - cpu) / entries, percentile(pinger->ms, pinger->count, 0.99)};
}

static round_t storm_round(const bench_t *bench, redisContext *redis, pinger_t *pinger, const storm_t *storm, int entries) {
    char queue[256];
    snprintf(queue, sizeof queue,
             "{ name = \"q0\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"3s\"; retry_times = %d; }",
             storm->retry_times);
    redis_do(redis, "FLUSHALL");
    backup_load(redis, entries);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = storm->name, .monitor = "off", .queue = queue});
    int64_t done = 0;
    for (int i = 0; i < STORM_POLLS_MAX && done == 0; i++, sleep_us(POLL_US)) done = redis_do(redis, storm->counts);
    int64_t first = done, began = mono_us();
    double cpu = redis_cpu_us(redis);
    ping_begin(pinger);
    for (int i = 0; i < STORM_POLLS_MAX && done < entries; i++, sleep_us(POLL_US)) done = redis_do(redis, storm->counts);
    double took = (double)(mono_us() - began), jobs = (double)(done - first);
    ping_end(pinger);
    if (done < entries) die("%s: %lld of %d jobs after two minutes", storm->name, (long long)done, entries);
    round_t round = {jobs / took * 1e6, (redis_cpu_us(redis) - cpu) / jobs, percentile(pinger->ms, pinger->count, 0.99)};
    sidecar_stop(pid, SIGTERM);
    return round;
}

static void measure(bench_t *bench, redisContext *redis, pinger_t *pinger, const storm_t *storm, int entries) {
    series_t rates = {0}, cpu = {0}, pings = {0}, shares = {0};
    char label[96];
    for (int i = 0; i < bench->rounds; i++) {
        round_t least = floor_round(redis, pinger, entries);
        round_t ours = storm_round(bench, redis, pinger, storm, entries);
        series_add(&rates, ours.rate);
        series_add(&cpu, ours.cpu_us);
        series_add(&pings, ours.p99 / least.p99);
        series_add(&shares, ours.rate / least.rate);
        fprintf(stderr, "storm: %s, round %d: %.0f jobs/s, %.1f us of Redis each, PING p99 %.2f ms; the floor %.0f, %.1f, %.2f\n",
                storm->label, i + 1, ours.rate, ours.cpu_us, ours.p99, least.rate, least.cpu_us, least.p99);
    }
    snprintf(label, sizeof label, "%s, jobs/s", storm->label);
    table_row(bench, label, &rates, 0, '>', storm->goal);
    snprintf(label, sizeof label, "%s, share of the floor", storm->label);
    table_row(bench, label, &shares, 2, 0, 0);
    snprintf(label, sizeof label, "%s, us of Redis for a job", storm->label);
    table_row(bench, label, &cpu, 1, '<', storm->cpu_goal);
    snprintf(label, sizeof label, "%s, PING p99 as a multiple of the floor's", storm->label);
    table_row(bench, label, &pings, 2, '<', 1.3);
}

int main(int argc, char **argv) {
    static const storm_t back = {"storm-back", "20,000 stalled jobs given back", 3, "LLEN q0", 40000, 25};
    static const storm_t ended = {"storm-ended", "20,000 stalled jobs ended", 0, "XLEN sidecar:q0:failures", 25000, 40};
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    pinger_t pinger = ping_open(&bench);
    table_head("A storm: every job in progress stalls");
    measure(&bench, redis, &pinger, &back, 20000);
    measure(&bench, redis, &pinger, &ended, 20000);
    redis_do(redis, "FLUSHALL");
    ping_close(&pinger);
    redisFree(redis);
    return bench_end(&bench);
}
