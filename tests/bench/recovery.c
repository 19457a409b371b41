// Recovery in the dialects kmqueue, private_queues and bull: all jobs in progress stall at once, as when a node pool dies, and
// are given back to the workers. storm.c measures dialect list.
//
// Each round also measures a floor. For kmqueue and private_queues a client does the least that a recovery needs, by scripts of
// BATCH jobs without any check: record, push, stamp and removal. For Bull 4 it is Bull's own script
// (lib/commands/moveStalledJobsToWait of the npm package that tests/clients/install.sh fetches), which gives back all jobs in one
// step. A second client sends PING.
#include "bull_script.h"
#include "kmqueue_task.h"
#include "pass.h"
#include "ping.h"

enum { JOBS = 20000, BATCH = 32, PER_CALL = 5000, POLL_US = 1000, POLLS_MAX = 60000 };

#define BULL  "bull:q0:"
#define STALL "heartbeat = \"off\"; protected_timeout = \"3s\";"

typedef struct round {
    double rate;   // jobs a second
    double cpu_us; // CPU time of Redis for one job
    double ping;   // ms, the 99th percentile
    double script; // jobs for each script, scripts that only read included
} round_t;

typedef struct recovery {
    const char *name, *label;
    const char *queue;                              // its settings
    void (*load)(redisContext *redis, bool living); // puts JOBS jobs in progress
    const char *counts;                             // command whose reply is the number of jobs given back
    const char *floor;                              // the floor's name
    const char *least; // script of the floor; arguments: number of jobs, first job. NULL = Bull's script
    bool living;       // every second job has a living worker
    double goal;
} recovery_t;

static int stalled_jobs(const recovery_t *recovery) { return recovery->living ? JOBS / 2 : JOBS; }

// ---- The jobs.

static void kmqueue_load(redisContext *redis, bool living) {
    (void)living;
    tasks_load(redis, "q0:backup", JOBS);
}

// Each worker has one job.
static void private_load(redisContext *redis, bool living) {
    (void)living;
    for (int i = 0; i < JOBS; i += PER_CALL)
        redis_do(
            redis, "EVAL %s 0 %d %d",
            "for i = ARGV[1], ARGV[2] do redis.call('SADD', 'workers', 'w-' .. i) redis.call('LPUSH', 'w-' .. i, "
            "'{\"id\":' .. i .. ',\"to\":\"ann@example.org\",\"template\":\"welcome\",\"text\":\"' .. string.rep('x', 40) .. "
            "'\"}') end",
            i, i + PER_CALL - 1);
}

static void bull_load(redisContext *redis, bool living) {
    for (int i = 0; i < JOBS; i += PER_CALL)
        redis_do(redis, "EVAL %s 1 " BULL " %d %d %lld %d",
                 "for i = ARGV[1], ARGV[2] do "
                 "redis.call('HSET', KEYS[1] .. i, 'name', '__default__', 'data', "
                 "'{\"to\":\"ann@example.org\",\"template\":\"welcome\",\"n\":' .. i .. '}', 'opts', "
                 "'{\"attempts\":1,\"timestamp\":' .. ARGV[3] .. '}', 'timestamp', ARGV[3], 'delay', '0', 'priority', '0', "
                 "'processedOn', ARGV[3]) redis.call('LPUSH', KEYS[1] .. 'active', i) "
                 "if ARGV[4] == '1' and i % 2 == 1 then redis.call('SET', KEYS[1] .. i .. ':lock', 'w') end end",
                 i, i + PER_CALL - 1, (long long)(wall_us() / 1000), (int)living);
}

// ---- The floors.

#define RECORD_AND_STAMP                                                                                                         \
    "redis.call('XADD', 'failures', '*', 'at', '1700000000000', 'kind', 'retried', 'dialect', 'list', 'queue', 'q0', 'job', "    \
    "job, 'event', string.rep('0', 64), 'sha256', string.rep('1', 64), 'attempts', '1', 'size', '100', 'reason', 'stalled') "    \
    "redis.call('HSET', 'stamps', i, 'stamp') "

static const char KMQUEUE_FLOOR[] =
    "local jobs = redis.call('LRANGE', 'q0:backup', 0, ARGV[1] - 1) "
    "for i, job in ipairs(jobs) do " RECORD_AND_STAMP "end redis.call('RPUSH', 'mail', unpack(jobs)) "
    "for _, job in ipairs(jobs) do redis.call('LREM', 'q0:backup', 1, job) end";

static const char PRIVATE_FLOOR[] = "local jobs = {} for i = ARGV[2], ARGV[2] + ARGV[1] - 1 do "
                                    "local job = redis.call('LINDEX', 'w-' .. i, -1) jobs[#jobs + 1] = job " RECORD_AND_STAMP
                                    "end redis.call('RPUSH', 'q0', unpack(jobs)) "
                                    "for i, job in ipairs(jobs) do redis.call('LREM', 'w-' .. ARGV[2] + i - 1, -1, job) end";

static void floor_scripts(redisContext *redis, const char *script) {
    scoped_reply *sha = redis_ask(redis, "SCRIPT LOAD %s", script);
    for (int i = 0; i < JOBS; i += BATCH) redis_do(redis, "EVALSHA %s 0 %d %d", sha->str, BATCH, i);
}

static void floor_of_bull(redisContext *redis) {
    scoped_reply *sha = bull_load_script(redis, "moveStalledJobsToWait");
    redis_do(redis,
             "EVALSHA %s 7 " BULL "stalled " BULL "wait " BULL "active " BULL "failed " BULL "stalled-check " BULL
             "meta-paused " BULL "paused 1 " BULL " %lld 30000",
             sha->str, (long long)(wall_us() / 1000));
}

static round_t floor_round(redisContext *redis, pinger_t *pinger, const recovery_t *recovery) {
    redis_do(redis, "FLUSHALL");
    recovery->load(redis, recovery->living);
    if (!recovery->least) redis_do(redis, "EVAL %s 0", "for i = 0, 19999 do redis.call('SADD', '" BULL "stalled', i) end");
    double cpu = redis_cpu_us(redis), jobs = stalled_jobs(recovery);
    ping_begin(pinger);
    int64_t began = mono_us();
    if (recovery->least)
        floor_scripts(redis, recovery->least);
    else
        floor_of_bull(redis);
    double took = (double)(mono_us() - began);
    ping_end(pinger);
    if (redis_do(redis, recovery->counts) != (int64_t)jobs) die("%s: the floor has not given back all jobs", recovery->name);
    // Bull's script keeps all others waiting: one PING waits until its end.
    double ping = recovery->least ? percentile(pinger->ms, pinger->count, 0.99) : took / 1000;
    return (round_t){jobs / took * 1e6, (redis_cpu_us(redis) - cpu) / jobs, ping, 0};
}

// ---- The sidecar.

static double scripts_called(redisContext *redis) {
    scoped_reply *info = redis_ask(redis, "INFO commandstats");
    const char *at = strstr(info->str, "cmdstat_evalsha:calls=");
    double calls = at ? strtod(at + strlen("cmdstat_evalsha:calls="), NULL) : 0;
    return calls;
}

static int64_t await_jobs(redisContext *redis, const recovery_t *recovery, int64_t least) {
    for (int i = 0; i < POLLS_MAX; i++, sleep_us(POLL_US)) {
        int64_t done = redis_do(redis, recovery->counts);
        if (done >= least) return done;
    }
    die("%s: fewer than %lld jobs were given back; see the log of the sidecar", recovery->name, (long long)least);
}

static round_t sidecar_round(const bench_t *bench, redisContext *redis, pinger_t *pinger, const recovery_t *recovery) {
    int64_t all = stalled_jobs(recovery);
    redis_do(redis, "FLUSHALL");
    recovery->load(redis, recovery->living);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = recovery->name, .monitor = "off", .queue = recovery->queue});
    int64_t first = await_jobs(redis, recovery, 1), began = mono_us();
    double cpu = redis_cpu_us(redis), scripts = scripts_called(redis), jobs = (double)(all - first);
    ping_begin(pinger);
    await_jobs(redis, recovery, all);
    double took = (double)(mono_us() - began);
    ping_end(pinger);
    cpu = redis_cpu_us(redis) - cpu;
    scripts = scripts_called(redis) - scripts;
    sidecar_stop(pid, SIGTERM);
    return (round_t){jobs / took * 1e6, cpu / jobs, percentile(pinger->ms, pinger->count, 0.99), jobs / scripts};
}

static void add_row(bench_t *bench, const recovery_t *recovery, const char *what, series_t *series, int digits, double goal) {
    char label[128];
    snprintf(label, sizeof label, "%s%s", recovery->label, what);
    table_row(bench, label, series, digits, goal > 0 ? '>' : 0, goal);
}

static void measure(bench_t *bench, redisContext *redis, pinger_t *pinger, const recovery_t *recovery) {
    series_t rates = {0}, floors = {0}, cpu = {0}, floor_cpu = {0}, pings = {0}, floor_pings = {0};
    for (int i = 0; i < bench->rounds; i++) {
        round_t least = floor_round(redis, pinger, recovery), ours = sidecar_round(bench, redis, pinger, recovery);
        series_add(&rates, ours.rate);
        series_add(&floors, least.rate);
        series_add(&cpu, ours.cpu_us);
        series_add(&floor_cpu, least.cpu_us);
        series_add(&pings, ours.ping);
        series_add(&floor_pings, least.ping);
        fprintf(stderr,
                "recovery: %s, round %d: %.0f jobs/s, %.1f us of Redis each, %.0f jobs a script, PING p99 %.2f ms; %s %.0f, "
                "%.1f, %.2f\n",
                recovery->label, i + 1, ours.rate, ours.cpu_us, ours.script, ours.ping, recovery->floor, least.rate, least.cpu_us,
                least.ping);
    }
    char what[64];
    add_row(bench, recovery, ", jobs/s", &rates, 0, recovery->goal);
    snprintf(what, sizeof what, ", %s, jobs/s", recovery->floor);
    add_row(bench, recovery, what, &floors, 0, 0);
    add_row(bench, recovery, ", us of Redis for a job", &cpu, 1, 0);
    snprintf(what, sizeof what, ", %s, us of Redis for a job", recovery->floor);
    add_row(bench, recovery, what, &floor_cpu, 1, 0);
    add_row(bench, recovery, ", PING p99, ms", &pings, 2, 0);
    snprintf(what, sizeof what, ", %s, PING p99, ms", recovery->floor);
    add_row(bench, recovery, what, &floor_pings, 2, 0);
}

int main(int argc, char **argv) {
    static const recovery_t recoveries[] = {
        {.name = "recovery-kmqueue",
         .label = "kmqueue, 20,000 stalled",
         .queue = "{ name = \"q0\"; dialect = \"kmqueue\"; queues = [\"mail:safe\"]; backup = \"q0:backup\"; " STALL " }",
         .load = kmqueue_load,
         .counts = "LLEN mail",
         .floor = "bare scripts",
         .least = KMQUEUE_FLOOR,
         .goal = 15000},
        {.name = "recovery-private",
         .label = "private_queues, 20,000 workers gone",
         .queue = "{ name = \"q0\"; dialect = \"private_queues\"; main = \"q0\"; private = \"w-*\"; registry = \"workers\"; "
                  "id_path = \"/id\"; " STALL " }",
         .load = private_load,
         .counts = "LLEN q0",
         .floor = "bare scripts",
         .least = PRIVATE_FLOOR,
         .goal = 15000},
        {.name = "recovery-bull",
         .label = "bull, 20,000 stalled",
         .queue = "{ name = \"q0\"; dialect = \"bull\"; roles = [\"monitor\"]; stalled_interval = \"1s\"; }",
         .load = bull_load,
         .counts = "LLEN " BULL "wait",
         .floor = "Bull's own script",
         .goal = 15000},
        {.name = "recovery-bull-half",
         .label = "bull, 10,000 stalled among as many with a lock",
         .queue = "{ name = \"q0\"; dialect = \"bull\"; roles = [\"monitor\"]; stalled_interval = \"1s\"; }",
         .load = bull_load,
         .counts = "LLEN " BULL "wait",
         .floor = "Bull's own script",
         .living = true},
    };
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    pinger_t pinger = ping_open(&bench);
    redis_do(redis, "CONFIG SET lua-time-limit 0"); // Bull's script takes seconds; BUSY would end the PINGs
    redisReply *sha = bull_load_script(redis, "moveStalledJobsToWait");
    table_head("Recovery: jobs of dead workers given back");
    for (size_t i = 0; i < sizeof recoveries / sizeof *recoveries; i++) {
        if (sha || recoveries[i].least)
            measure(&bench, redis, &pinger, &recoveries[i]);
        else
            printf("\n%s: skipped: no bull@" BULL_VERSION " in build/clients (sh tests/clients/install.sh fetches it)\n",
                   recoveries[i].name);
    }
    if (sha) freeReplyObject(sha);
    redis_do(redis, "CONFIG SET lua-time-limit 5000");
    redis_do(redis, "FLUSHALL");
    ping_close(&pinger);
    redisFree(redis);
    return bench_end(&bench);
}
