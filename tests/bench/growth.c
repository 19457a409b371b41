// Growth: what the sidecar costs as there are more delayed jobs, queues, instances, or jobs in progress.
//
// Time of Redis is that of our scripts (INFO commandstats), or of its main thread. BENCH_GROWTH_MAX is the largest number of
// delayed jobs (10 million need 3 GiB). The curves go to DIR/growth.json, which plot.py draws.
#include <ctype.h>

#include "arrivals.h"
#include "pass.h"

enum {
    BURST = 100000, // jobs that fall due at once
    LEAD_IN_US = 1500000,
    POLL_BURST_US = 5000,
    POLLS_MAX = 24000,
    LOAD_STEP = 1000,
    DAY_MS = 86400000,
    LATENESS_RATE = 1000,
    SETTLE_US = 3000000,
    PRUNE_US = 120000, // a new leader prunes the requeue markers of one queue
    WINDOW_US = 10000000,
    INSTANCE_QUEUES = 10,
    INSTANCES_MAX = 50,
    CURVES_MAX = 20,
    POINTS_MAX = 8,
};

typedef struct curve {
    const char *name, *x, *y;
    double points[POINTS_MAX][2];
    int count;
} curve_t;

static curve_t curves[CURVES_MAX];

// Prints one figure, and adds it to the curve of this name; NULL = it is not drawn.
static void point(bench_t *bench, const char *name, const char *x_label, const char *y_label, double x, series_t *series,
                  int decimals) {
    char label[96];
    snprintf(label, sizeof label, "%.0f %s: %s", x, x_label, y_label);
    table_row(bench, label, series, decimals, 0, 0);
    if (!name) return;
    curve_t *curve = curves;
    while (curve->name && strcmp(curve->name, name) != 0) curve++;
    if (curve->count == 0) *curve = (curve_t){.name = name, .x = x_label, .y = y_label};
    curve->points[curve->count][0] = x;
    curve->points[curve->count++][1] = percentile(series->values, (size_t)series->count, 0.5);
}

static void curves_write(const bench_t *bench) {
    char path[256];
    snprintf(path, sizeof path, "%s/growth.json", bench->dir);
    FILE *file = fopen(path, "w");
    if (!file) die("cannot write %s", path);
    fputs("{\"charts\": [", file);
    for (const curve_t *curve = curves; curve->name; curve++) {
        fprintf(
            file,
            "%s\n{\"name\": \"%s\", \"title\": \"%c%s, by %s\", \"kind\": \"line\", \"x\": {\"label\": \"%s\", \"log\": true}, "
            "\"y\": {\"label\": \"%s\"}, \"series\": [{\"name\": \"sidecar\", \"points\": [",
            curve == curves ? "" : ",", curve->name, toupper(*curve->y), curve->y + 1, curve->x, curve->x, curve->y);
        for (int i = 0; i < curve->count; i++)
            fprintf(file, "%s[%.0f, %g]", i ? ", " : "", curve->points[i][0], curve->points[i][1]);
        fputs("]}]}", file);
    }
    fputs("]}\n", file);
    if (fclose(file) != 0) die("cannot write %s", path);
}

// Adds jobs to the delayed jobs of q0, q1, ... in turn, all due at `due_ms`, or at random times in the day after it.
static void delayed_load(redisContext *redis, int64_t jobs, int queues, int64_t due_ms, bool random, const char *prefix) {
    static const char LOAD[] =
        "local queues, spread = tonumber(ARGV[3]), tonumber(ARGV[5]) for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do "
        "redis.call('ZADD', 'q' .. i % queues .. ':delayed', ARGV[4] + math.random(0, spread), "
        "string.format('{\"id\":\"%s%011d\",\"data\":\"%069d\"}', ARGV[6], i, 0)) end";
    scoped_reply *sha = redis_ask(redis, "SCRIPT LOAD %s", LOAD);
    for (int64_t i = 0; i < jobs; i += LOAD_STEP)
        redis_do(redis, "EVALSHA %s 0 %lld %d %d %lld %d %s", sha->str, (long long)i, LOAD_STEP, queues, (long long)due_ms,
                 random ? DAY_MS : 0, prefix);
}

static int64_t delayed_count(redisContext *redis, int queues) {
    static const char COUNT[] =
        "local n = 0 for i = 0, ARGV[1] - 1 do n = n + redis.call('ZCARD', 'q' .. i .. ':delayed') end return n";
    return redis_do(redis, "EVAL %s 0 %d", COUNT, queues);
}

// Time of Redis in scripts.
static double script_us(redisContext *redis) {
    scoped_reply *info = redis_ask(redis, "INFO commandstats");
    const char *at = strstr(info->str, "cmdstat_evalsha:");
    at = at ? strstr(at, "usec=") : NULL;
    double us = at ? strtod(at + 5, NULL) : 0;
    return us;
}

// BURST jobs fall due at once, beside `waiting` jobs that do not.
static void burst(redisContext *redis, int queues, int64_t waiting, series_t *rates, series_t *cpu) {
    int64_t due_us = (wall_us() + LEAD_IN_US) / 1000 * 1000;
    delayed_load(redis, BURST, queues, due_us / 1000, false, "b");
    if (wall_us() > due_us) die("the jobs of a burst were not loaded in time");
    double before = script_us(redis);
    while (wall_us() < due_us) sleep_us(100);
    int polls = 0;
    for (; polls < POLLS_MAX && delayed_count(redis, queues) > waiting; polls++) sleep_us(POLL_BURST_US);
    if (polls == POLLS_MAX) die("a burst was not promoted");
    series_add(rates, BURST / (double)(wall_us() - due_us) * 1e6);
    series_add(cpu, (script_us(redis) - before) / BURST);
    for (int i = 0; i < queues; i++) redis_do(redis, "UNLINK q%d", i);
}

// p99 of LATENESS_RATE jobs/s.
static double lateness(const bench_t *bench, redisContext *redis, int queues) {
    size_t jobs = (size_t)LATENESS_RATE * (size_t)env_number("BENCH_SECONDS", 3);
    arrivals_t arrivals;
    arrivals_open(&arrivals, bench, queues, jobs);
    arrivals_begin(&arrivals);
    uint64_t random = 7;
    int64_t began = wall_us() + LEAD_IN_US / 3;
    for (size_t i = 0; i < jobs; i++) {
        arrivals.due_us[i] = began + (int64_t)(random_unit(&random) * (double)jobs / LATENESS_RATE * 1e6);
        arrivals_append(&arrivals, redis, i);
    }
    for (size_t i = 0; i < jobs; i++) freeReplyObject(redis_read(redis));
    arrivals_end(&arrivals, redis, jobs);
    double p99 = percentile(arrivals.late_ms, jobs, 0.99);
    arrivals_close(&arrivals);
    return p99;
}

static void grow_delayed(bench_t *bench, redisContext *redis, int64_t waiting) {
    series_t rates = {0}, cpu = {0}, late = {0}, bytes = {0};
    redis_do(redis, "FLUSHALL");
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "growth", .ttl = "60s"});
    sidecar_await(redis, pid);
    double memory = redis_info(redis, "memory", "used_memory:");
    delayed_load(redis, waiting, 1, wall_us() / 1000 + DAY_MS, true, "w");
    series_add(&bytes, (redis_info(redis, "memory", "used_memory:") - memory) / (double)waiting);
    for (int i = 0; i < bench->rounds; i++) {
        burst(redis, 1, waiting, &rates, &cpu);
        series_add(&late, lateness(bench, redis, 1));
    }
    sidecar_stop(pid, SIGTERM);
    double n = (double)waiting;
    point(bench, "growth_delayed", "delayed jobs", "promoted, jobs/s", n, &rates, 0);
    point(bench, NULL, "delayed jobs", "time of Redis for a job, us", n, &cpu, 2);
    point(bench, "growth_delayed_late", "delayed jobs", "lateness p99, ms", n, &late, 2);
    point(bench, NULL, "delayed jobs", "memory of Redis for a job, bytes", n, &bytes, 0);
}

static void grow_queues(bench_t *bench, redisContext *redis, int queues) {
    series_t rates = {0}, cpu = {0}, late = {0}, idle = {0}, memory = {0};
    redis_do(redis, "FLUSHALL");
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "growth", .ttl = "60s", .queues = queues});
    sidecar_await(redis, pid);
    for (int i = 0; i < bench->rounds; i++) {
        burst(redis, queues, 0, &rates, &cpu);
        series_add(&late, lateness(bench, redis, queues));
    }
    sleep_us(SETTLE_US + (int64_t)queues * PRUNE_US);
    double before = redis_commands(redis);
    sleep_us(WINDOW_US);
    series_add(&idle, (redis_commands(redis) - before) / (WINDOW_US / 1e6) / queues);
    series_add(&memory, (double)status_kib(pid, "VmRSS") / 1024);
    sidecar_stop(pid, SIGTERM);
    point(bench, NULL, "queues", "promoted, jobs/s", queues, &rates, 0);
    point(bench, "growth_queues", "queues", "time of Redis for a job, us", queues, &cpu, 2);
    point(bench, "growth_queues_late", "queues", "lateness p99, ms", queues, &late, 2);
    point(bench, "growth_queues_idle", "queues", "commands/s of a queue, idle", queues, &idle, 3);
    point(bench, NULL, "queues", "VmRSS of the leader, MiB", queues, &memory, 1);
}

// Ends the leader, and returns the ms until another instance has the lock.
static double take_over(redisContext *redis, pid_t leader) {
    scoped_reply *old = redis_ask(redis, "GET sidecar:" BENCH_GROUP ":lock");
    int64_t began = mono_us();
    bool taken = false;
    kill(leader, SIGTERM);
    for (int i = 0; i < 100000 && !taken; i++) {
        scoped_reply *now = redis_ask(redis, "GET sidecar:" BENCH_GROUP ":lock");
        taken = now->str && strcmp(now->str, old->str) != 0;
        if (!taken) sleep_us(200);
    }
    if (!taken) die("no instance takes over");
    waitpid(leader, NULL, 0);
    return (double)(mono_us() - began) / 1000;
}

static void grow_instances(bench_t *bench, redisContext *redis, int instances) {
    series_t all = {0}, cpu = {0}, connections = {0}, memory = {0}, taken = {0};
    pid_t pids[INSTANCES_MAX];
    redis_do(redis, "FLUSHALL");
    for (int i = 0; i < instances; i++) {
        char name[24];
        snprintf(name, sizeof name, "growth-%d", i);
        pids[i] = sidecar_start(bench, (sidecar_options_t){.name = name, .queues = INSTANCE_QUEUES});
        if (i == 0) sidecar_await(redis, pids[i]);
    }
    for (int64_t waiting = 0; waiting < instances - 1; sleep_us(10000)) {
        scoped_reply *reply = redis_ask(redis, "PUBSUB NUMSUB sidecar:" BENCH_GROUP ":vacant");
        waiting = reply->element[1]->integer;
    }
    sleep_us(SETTLE_US + (int64_t)INSTANCE_QUEUES * PRUNE_US);
    double before = redis_commands(redis), cpu_before = redis_cpu_us(redis);
    sleep_us(WINDOW_US);
    series_add(&all, (redis_commands(redis) - before) / (WINDOW_US / 1e6));
    series_add(&cpu, (redis_cpu_us(redis) - cpu_before) / (WINDOW_US / 1e6));
    series_add(&connections, redis_info(redis, "clients", "connected_clients:") - 1);
    series_add(&memory, (double)status_kib(pids[instances - 1], "VmRSS") / 1024);
    if (instances > 1) series_add(&taken, take_over(redis, pids[0]));
    for (int i = instances > 1; i < instances; i++) kill(pids[i], SIGTERM);
    for (int i = instances > 1; i < instances; i++) waitpid(pids[i], NULL, 0);
    point(bench, "growth_instances", "instances", "commands/s in Redis, idle", instances, &all, 1);
    point(bench, NULL, "instances", "us of Redis each s, idle", instances, &cpu, 0);
    point(bench, NULL, "instances", "connections", instances, &connections, 0);
    point(bench, NULL, "instances", "VmRSS of an instance, MiB", instances, &memory, 1);
    if (instances > 1) point(bench, NULL, "instances", "takeover after SIGTERM, ms", instances, &taken, 1);
}

static void grow_progress(bench_t *bench, redisContext *redis, int entries) {
    series_t rates = {0}, cpu = {0}, memory = {0};
    char name[32];
    snprintf(name, sizeof name, "growth-progress-%d", entries);
    redis_do(redis, "FLUSHALL");
    backup_load(redis, entries);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = name, .ttl = "60s", .monitor = "off"});
    passes_await_leading(bench, name);
    passes_await(bench, pid, name, "q0", 2, entries); // the first pass stamps
    for (int i = 0; i < bench->rounds; i++) {
        counts_t before = passes_await(bench, pid, name, "q0", 1, entries);
        double cpu_before = redis_cpu_us(redis);
        counts_t after = passes_await(bench, pid, name, "q0", 2, entries);
        double read = (double)entries * (double)(after.passes - before.passes);
        series_add(&cpu, (redis_cpu_us(redis) - cpu_before) / read);
        series_add(&rates, read / (double)(after.pass_us - before.pass_us) * 1e6);
    }
    series_add(&memory, (double)status_kib(pid, "VmRSS") / 1024);
    sidecar_stop(pid, SIGTERM);
    point(bench, "growth_progress", "jobs in progress", "scanned, entries/s", entries, &rates, 0);
    point(bench, NULL, "jobs in progress", "time of Redis for an entry, us", entries, &cpu, 2);
    point(bench, "growth_progress_memory", "jobs in progress", "VmRSS of the leader, MiB", entries, &memory, 1);
}

int main(int argc, char **argv) {
    static const int queues[] = {1, 10, 100, 1000}, instances[] = {1, 5, 10, 25, INSTANCES_MAX};
    static const int in_progress[] = {1000, 10000, 100000, 1000000};
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    table_head("Growth: delayed jobs");
    for (int64_t n = 10000; n <= env_number("BENCH_GROWTH_MAX", 10000000); n *= 10) grow_delayed(&bench, redis, n);
    table_head("Growth: queues");
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) grow_queues(&bench, redis, queues[i]);
    table_head("Growth: instances, 10 queues");
    for (size_t i = 0; i < sizeof instances / sizeof *instances; i++) grow_instances(&bench, redis, instances[i]);
    table_head("Growth: jobs in progress");
    for (size_t i = 0; i < sizeof in_progress / sizeof *in_progress; i++) grow_progress(&bench, redis, in_progress[i]);
    redis_do(redis, "FLUSHALL");
    curves_write(&bench);
    redisFree(redis);
    return bench_end(&bench);
}
