// Jobs of 100 Sidekiq processes that die at once, with 25 jobs each: when all are back, counted from `dead_after` on, and what
// the sidecar asks Redis while such processes live. The keys are those that lib/sidekiq/launcher.rb writes with a beat.
#include "bench.h"

enum {
    PROCESSES = 100,
    THREADS = 25,
    JOBS = PROCESSES * THREADS,
    BEAT_MS = 60000,
    DEAD_AFTER_MS = 20000,
    LEAD_MS = 3000,
    IDLE_S = 10
};

#define QUEUE(dead_after) "{ name = \"q0\"; dialect = \"sidekiq\"; roles = [\"monitor\"]; dead_after = \"" dead_after "\"; }"

// Processes whose beat was 60 s - `left_ms` ago.
static void processes_load(redisContext *redis, int left_ms) {
    redis_do(redis, "FLUSHALL");
    redis_do(redis, "SADD queues default");
    redis_do(
        redis, "EVAL %s 0 %d %d %d",
        "for p = 1, ARGV[1] do local key = 'host:' .. p .. ':0123456789ab' redis.call('SADD', 'processes', key) "
        "redis.call('HSET', key, 'info', '{\"hostname\":\"host\",\"pid\":1,\"version\":\"7.3.2\"}', 'busy', ARGV[2], 'beat', "
        "'1700000100.5', 'quiet', 'false', 'rtt_us', '99', 'rss', '9999') "
        "for t = 1, ARGV[2] do redis.call('HSET', key .. ':work', 'tid' .. t, cjson.encode({queue = 'default', run_at = "
        "1700000000, payload = '{\"class\":\"Mail\",\"args\":[\"' .. string.rep('x', 100) .. '\"],\"retry\":true,\"jid\":\"' .. "
        "string.format('%012d%012d', p, t) .. "
        "'\",\"queue\":\"default\",\"created_at\":1700000000.5,\"enqueued_at\":1700000000.5}'})) "
        "end redis.call('PEXPIRE', key, ARGV[3]) redis.call('PEXPIRE', key .. ':work', ARGV[3]) end",
        PROCESSES, THREADS, left_ms);
}

// Returns the s from `dead_after` of the processes until all jobs were back.
static double dead_round(const bench_t *bench, redisContext *redis) {
    processes_load(redis, BEAT_MS - DEAD_AFTER_MS + LEAD_MS);
    int64_t due = mono_us() + LEAD_MS * INT64_C(1000), back = 0;
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "sidekiq", .queue = QUEUE("20s")});
    while ((back = redis_do(redis, "LLEN queue:default")) < JOBS) {
        if (mono_us() > due + 30 * INT64_C(1000000)) die("only %lld jobs are back; see the log of the sidecar", (long long)back);
        sleep_us(1000);
    }
    double took = (double)(mono_us() - due) / 1e6;
    sleep_us(500000); // a job that came back twice would be here by then
    if (redis_do(redis, "LLEN queue:default") != JOBS) die("a job came back twice");
    if (redis_do(redis, "EVAL %s 0",
                 "local seen, n = {}, 0 for _, job in ipairs(redis.call('LRANGE', 'queue:default', 0, -1)) do "
                 "if not seen[job] then seen[job] = true n = n + 1 end end return n") != JOBS)
        die("a job came back twice");
    sidecar_stop(pid, SIGTERM);
    return took;
}

// Returns the commands in a second while all processes live.
static double living_round(const bench_t *bench, redisContext *redis) {
    processes_load(redis, BEAT_MS);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "sidekiq-idle", .queue = QUEUE("50s")});
    while (redis_do(redis, "EXISTS sidecar:" BENCH_GROUP ":lock") == 0) sleep_us(10000);
    sleep_us(2000000); // the first reads
    double before = redis_commands(redis);
    sleep_us(IDLE_S * 1000000);
    double commands = redis_commands(redis) - before;
    sidecar_stop(pid, SIGTERM);
    return commands / IDLE_S;
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    series_t times = {0}, commands = {0};
    for (int i = 0; i < bench.rounds; i++) {
        series_add(&times, dead_round(&bench, redis));
        series_add(&commands, living_round(&bench, redis));
    }
    table_head("sidekiq, 100 processes with 25 jobs each");
    table_row(&bench, "all jobs back, s after dead_after", &times, 2, '<', 1);
    table_row(&bench, "commands a second while they live", &commands, 1, '<', PROCESSES / 10.0);
    redisFree(redis);
    return bench_end(&bench);
}
