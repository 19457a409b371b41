// Dialect stream: due members become entries, and entries of dead consumers come back. Each against a client that asks for a bare
// script of BATCH jobs again and again, without any check, record or stamp: XADD and ZREMRANGEBYRANK, or XPENDING, XRANGE, XADD,
// XACK and XDEL. A round has both, so that the ratio does not depend on the load of the machine.
#include "bench.h"

enum { DUE = 100000, DEAD = 20000, BATCH = 64, PER_CALL = 5000, POLL_US = 1000, POLLS_MAX = 120000 };

#define QUEUE                                                                                                                    \
    "{ name = \"q0\"; dialect = \"stream\"; group = \"workers\"; protected_timeout = \"1m\"; id_path = \"/id\"; roles = "        \
    "[\"dispatcher\", \"monitor\"]; }"
#define JOB                                                                                                                      \
    "'{\"id\":' .. i .. ',\"to\":\"ann@example.org\",\"template\":\"welcome\",\"text\":\"' .. string.rep('x', 40) .. '\"}'"

typedef struct round {
    double rate;   // jobs a second
    double cpu_us; // CPU time of Redis for one job
} round_t;

static const char DUE_FLOOR[] = "local jobs = redis.call('ZRANGEBYSCORE', 'q0:delayed', '-inf', ARGV[2], 'LIMIT', 0, ARGV[1]) "
                                "for _, job in ipairs(jobs) do redis.call('XADD', 'q0', '*', 'data', job) end "
                                "if #jobs > 0 then redis.call('ZREMRANGEBYRANK', 'q0:delayed', 0, #jobs - 1) end return #jobs";

static const char DEAD_FLOOR[] =
    "local pending, ids = redis.call('XPENDING', 'q0', 'workers', 'IDLE', '60000', '-', '+', ARGV[1]), {} "
    "for i, entry in ipairs(pending) do ids[i] = entry[1] "
    "redis.call('XADD', 'q0', '*', unpack(redis.call('XRANGE', 'q0', entry[1], entry[1])[1][2])) end "
    "if #ids > 0 then redis.call('XACK', 'q0', 'workers', unpack(ids)) redis.call('XDEL', 'q0', unpack(ids)) end return #ids";

// The same, with all that a retry of the sidecar writes besides: a record of 20 fields, and a stamp.
static const char RECORD_FLOOR[] =
    "local pending, ids, fields = redis.call('XPENDING', 'q0', 'workers', 'IDLE', '60000', '-', '+', ARGV[1]), {}, {} "
    "for i = 1, 20 do fields[2 * i - 1], fields[2 * i] = 'field' .. i, string.rep('x', 16) end "
    "for i, entry in ipairs(pending) do ids[i] = entry[1] "
    "redis.call('HSET', 'stamps', entry[1], string.rep('x', 28)) redis.call('XADD', 'failures', '*', unpack(fields)) "
    "redis.call('XADD', 'q0', '*', unpack(redis.call('XRANGE', 'q0', entry[1], entry[1])[1][2])) end "
    "if #ids > 0 then redis.call('XACK', 'q0', 'workers', unpack(ids)) redis.call('XDEL', 'q0', unpack(ids)) end return #ids";

static void group_make(redisContext *redis) {
    redis_do(redis, "FLUSHALL");
    redis_do(redis, "XGROUP CREATE q0 workers 0 MKSTREAM");
}

// Fills the zset `stage`, in the order of the due times.
static void due_load(redisContext *redis) {
    for (int i = 0; i < DUE; i += PER_CALL)
        redis_do(redis, "EVAL %s 0 %d %d",
                 "for i = ARGV[1], ARGV[2] do redis.call('ZADD', 'stage', 1600000000000 + i, " JOB ") end", i, i + PER_CALL - 1);
}

// Puts entries of an hour ago in progress, at a consumer that has gone.
static void dead_load(redisContext *redis) {
    for (int i = 0; i < DEAD; i += PER_CALL)
        redis_do(redis, "EVAL %s 0 %d %d %lld",
                 "local ids = {} for i = ARGV[1], ARGV[2] do ids[#ids + 1] = redis.call('XADD', 'q0', string.format('%.0f-%d', "
                 "ARGV[3], i), 'data', " JOB ") end "
                 "redis.call('XREADGROUP', 'GROUP', 'workers', 'w1', 'COUNT', 100000, 'STREAMS', 'q0', '>') "
                 "for _, id in ipairs(ids) do redis.call('XCLAIM', 'q0', 'workers', 'w1', 0, id, 'IDLE', 3600000, 'RETRYCOUNT', "
                 "1) end",
                 i, i + PER_CALL - 1, (long long)(wall_us() / 1000 - 3600000 + i));
}

static int64_t dead_back(redisContext *redis) {
    return DEAD - redis_do(redis, "EVAL %s 0", "return redis.call('XPENDING', 'q0', 'workers')[1]");
}
static int64_t due_done(redisContext *redis) { return redis_do(redis, "XLEN q0"); }

static int64_t await_jobs(redisContext *redis, int64_t (*count)(redisContext *), int64_t least) {
    for (int i = 0; i < POLLS_MAX; i++, sleep_us(POLL_US)) {
        int64_t done = count(redis);
        if (done >= least) return done;
    }
    die("fewer than %lld jobs arrived; see the log of the sidecar", (long long)least);
}

static round_t round_of(int64_t jobs, int64_t began, double cpu_us) {
    return (round_t){(double)jobs / (double)(mono_us() - began) * 1e6, cpu_us / (double)jobs};
}

static round_t floor_round(redisContext *redis, const char *script, bool due) {
    group_make(redis);
    (due ? due_load : dead_load)(redis);
    if (due) redis_do(redis, "RENAME stage q0:delayed");
    scoped_reply *sha = redis_ask(redis, "SCRIPT LOAD %s", script);
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    while (redis_do(redis, "EVALSHA %s 0 %d %lld", sha->str, BATCH, (long long)(wall_us() / 1000)) > 0) continue;
    return round_of(due ? DUE : DEAD, began, redis_cpu_us(redis) - cpu);
}

static round_t due_round(const bench_t *bench, redisContext *redis) {
    group_make(redis);
    due_load(redis);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "stream-due", .queue = QUEUE, .scan = "1h"});
    redis_do(redis, "ZADD q0:delayed 0 warm-up");
    await_jobs(redis, due_done, 1);
    sleep_us(50000); // for the last read of the head, which registers the key for wake-ups
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    redis_do(redis, "RENAME stage q0:delayed");
    await_jobs(redis, due_done, DUE + 1);
    round_t round = round_of(DUE, began, redis_cpu_us(redis) - cpu);
    sidecar_stop(pid, SIGTERM);
    return round;
}

static round_t dead_round(const bench_t *bench, redisContext *redis) {
    group_make(redis);
    dead_load(redis);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "stream-dead", .queue = QUEUE, .scan = "1s"});
    int64_t first = await_jobs(redis, dead_back, 1), began = mono_us();
    double cpu = redis_cpu_us(redis);
    await_jobs(redis, dead_back, DEAD);
    round_t round = round_of(DEAD - first, began, redis_cpu_us(redis) - cpu);
    sidecar_stop(pid, SIGTERM);
    return round;
}

static void measure(bench_t *bench, redisContext *redis, bool due, double goal) {
    series_t rates = {0}, floors = {0}, ratios = {0}, cpu = {0}, floor_cpu = {0}, recorded = {0}, recorded_cpu = {0};
    const char *what = due ? "100,000 due members to entries" : "20,000 entries of dead consumers back";
    for (int i = 0; i < bench->rounds; i++) {
        round_t least = floor_round(redis, due ? DUE_FLOOR : DEAD_FLOOR, due);
        round_t ours = (due ? due_round : dead_round)(bench, redis);
        series_add(&rates, ours.rate);
        series_add(&floors, least.rate);
        series_add(&ratios, ours.rate / least.rate);
        series_add(&cpu, ours.cpu_us);
        series_add(&floor_cpu, least.cpu_us);
        if (!due) {
            least = floor_round(redis, RECORD_FLOOR, due);
            series_add(&recorded, ours.rate / least.rate);
            series_add(&recorded_cpu, least.cpu_us);
        }
        fprintf(stderr, "stream: %s, round %d: %.0f jobs/s, %.1f us of Redis each; bare scripts %.0f, %.1f\n", what, i + 1,
                ours.rate, ours.cpu_us, least.rate, least.cpu_us);
    }
    char label[96];
    snprintf(label, sizeof label, "%s, jobs/s", what);
    table_row(bench, label, &rates, 0, 0, 0);
    table_row(bench, "  bare scripts of 64, jobs/s", &floors, 0, 0, 0);
    table_row(bench, "  ratio", &ratios, 2, '>', goal);
    if (!due) table_row(bench, "  ratio, if the scripts also write records and stamps", &recorded, 2, 0, 0);
    table_row(bench, "  us of Redis for a job", &cpu, 1, 0, 0);
    table_row(bench, "  bare scripts, us of Redis for a job", &floor_cpu, 1, 0, 0);
    if (!due) table_row(bench, "  the same with records and stamps", &recorded_cpu, 1, 0, 0);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    table_head("stream: a consumer group");
    measure(&bench, redis, true, 0.8);
    measure(&bench, redis, false, 0.6);
    redisFree(redis);
    return bench_end(&bench);
}
