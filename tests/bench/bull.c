// Jobs of Bull 4: how many a second the sidecar promotes, against Bull's own script (lib/commands/updateDelaySet of the npm
// package that tests/clients/install.sh fetches). C calls this script again and again on the same socket, as a worker does, so
// the figures of the peer do not include the cost of node.
//
// A round begins with RENAME, which moves a loaded zset to delayed, and ends when the zset is empty. A keyspace event reports the
// end of the sidecar's round, so its wake-up is part of the time. No client subscribes to `waiting`, so the sidecar publishes
// nothing; Bull publishes it in any case.
#include "bull_script.h"

enum {
    PLAIN = 200000,
    PRIORITIES = 5000, // few, because Bull walks over the waiting list for each job with a priority
    PER_CALL = 5000,
};

#define BULL     "bull:q0:"
#define SETTINGS "{ name = \"q0\"; dialect = \"bull\"; }"

// The cheapest script that still sets `delay` in each job's hash: no fence, no checks, no priorities, and the batch of the
// sidecar.
static const char FLOOR[] = "local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[2] * 4096 + 4095, 'LIMIT', 0, 400) "
                            "if #ids == 0 then return false end "
                            "for i = 1, #ids do redis.call('HSET', ARGV[1] .. ids[i], 'delay', '0') end "
                            "redis.call('LPUSH', KEYS[3], unpack(ids)) "
                            "redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #ids - 1) return 1";

// Writes jobs as Bull's add does, and a zset `stage` of their ids, which fell due within the last minute.
static const char FILL[] =
    "for i = ARGV[1], ARGV[2] do "
    "redis.call('HSET', KEYS[1] .. i, 'name', '__default__', 'data', "
    "'{\"to\":\"ann@example.org\",\"template\":\"welcome\",\"n\":' .. i .. '}', "
    "'opts', '{\"delay\":5000,\"attempts\":1,\"timestamp\":' .. ARGV[3] .. '}', 'timestamp', ARGV[3], 'delay', '5000', "
    "'priority', ARGV[4] == '1' and 1 + i % 10 or '0') "
    "redis.call('ZADD', KEYS[1] .. 'stage', string.format('%.0f', (ARGV[3] + math.floor(i / 4)) * 4096 + i % 4096), i) end";

static void load(redisContext *redis, int jobs, bool priorities) {
    int64_t from = wall_us() / 1000 - 60000;
    for (int i = 0; i < jobs; i += PER_CALL)
        redis_do(redis, "EVAL %s 1 " BULL " %d %d %lld %d", FILL, i, i + PER_CALL - 1, (long long)from, (int)priorities);
    sleep_us(20000);
}

typedef struct rates {
    double wall; // jobs a second
    double cpu;  // jobs a second of Redis's CPU time
} rates_t;

// Checks that every job waits and has `delay` 0, then empties the database.
static rates_t rates(redisContext *redis, int jobs, int64_t us, double cpu_us) {
    scoped_reply *delay = redis_ask(redis, "HGET " BULL "%d delay", jobs - 1);
    if (redis_do(redis, "LLEN " BULL "wait") != jobs || strcmp(delay->str, "0") != 0)
        die("not all of %d jobs were promoted", jobs);
    redis_do(redis, "FLUSHDB");
    return (rates_t){.wall = jobs / (double)us * 1e6, .cpu = jobs / cpu_us * 1e6};
}

static void await_event(redisContext *events, const char *name) {
    for (bool seen = false; !seen;) {
        scoped_reply *event = redis_read(events);
        seen = event->elements == 3 && strcmp(event->element[2]->str, name) == 0;
    }
}

// Waits until the sidecar leads and promotes a job.
static void await_sidecar(redisContext *redis, pid_t pid) {
    redis_do(redis, "HSET " BULL "warm-up name n priority 0");
    redis_do(redis, "ZADD " BULL "delayed 1 warm-up");
    for (int i = 0; redis_do(redis, "LLEN " BULL "wait") == 0; i++) {
        if (i == 3000 || waitpid(pid, NULL, WNOHANG) == pid) die("the sidecar promotes nothing; see its log");
        sleep_us(5000);
    }
    redis_do(redis, "DEL " BULL "wait");
    sleep_us(50000);
}

static rates_t sidecar_round(bench_t *bench, redisContext *redis, int jobs, bool priorities) {
    redisContext *events = redis_open(bench);
    pid_t sidecar = sidecar_start(bench, (sidecar_options_t){.name = "bull", .queue = SETTINGS});
    await_sidecar(redis, sidecar);
    load(redis, jobs, priorities);
    redis_do(events, "SUBSCRIBE __keyspace@0__:" BULL "delayed");
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    redis_do(redis, "RENAME " BULL "stage " BULL "delayed");
    await_event(events, "del");
    int64_t ended = mono_us();
    cpu = redis_cpu_us(redis) - cpu;
    sidecar_stop(sidecar, SIGTERM);
    redisFree(events);
    return rates(redis, jobs, ended - began, cpu);
}

// Calls a script with Bull's six keys until it returns nil.
static rates_t script_round(redisContext *redis, const char *sha, int jobs, bool priorities) {
    load(redis, jobs, priorities);
    redis_do(redis, "RENAME " BULL "stage " BULL "delayed");
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    for (bool more = true; more;) {
        scoped_reply *next = redis_ask(redis,
                                       "EVALSHA %s 6 " BULL "delayed " BULL "active " BULL "wait " BULL "priority " BULL
                                       "paused " BULL "meta-paused " BULL " %lld token",
                                       sha, (long long)(wall_us() / 1000));
        more = next->type != REDIS_REPLY_NIL;
    }
    int64_t ended = mono_us();
    return rates(redis, jobs, ended - began, redis_cpu_us(redis) - cpu);
}

typedef struct scripts {
    redisReply *bull;
    redisReply *floor;
} scripts_t;

typedef enum part { OURS, BULLS, FLOORS, PARTS } part_t;

static rates_t one_round(bench_t *bench, redisContext *redis, const scripts_t *scripts, part_t part, int jobs, bool priorities) {
    if (part == OURS) return sidecar_round(bench, redis, jobs, priorities);
    return script_round(redis, part == BULLS ? scripts->bull->str : scripts->floor->str, jobs, priorities);
}

// With priorities there is no floor: the cheapest script would do the same as Bull's.
static void compare(bench_t *bench, redisContext *redis, const scripts_t *scripts, int jobs, bool priorities, double goal) {
    series_t ours = {0}, bulls = {0}, wall = {0}, cpu = {0}, us = {0}, floor_wall = {0}, floor_cpu = {0};
    char label[120];
    const char *of = priorities ? "jobs with priorities 1 to 10" : "jobs";
    int parts = priorities ? FLOORS : PARTS;
    for (int i = 0; i < bench->rounds; i++) {
        rates_t found[PARTS] = {0};
        for (int n = 0; n < parts; n++) { // each round begins with another part
            part_t part = (part_t)((i + n) % parts);
            found[part] = one_round(bench, redis, scripts, part, jobs, priorities);
        }
        series_add(&ours, found[OURS].wall);
        series_add(&bulls, found[BULLS].wall);
        series_add(&wall, found[OURS].wall / found[BULLS].wall);
        series_add(&cpu, found[OURS].cpu / found[BULLS].cpu);
        series_add(&us, 1e6 / found[OURS].cpu);
        series_add(&floor_wall, found[FLOORS].wall / found[BULLS].wall);
        series_add(&floor_cpu, found[FLOORS].cpu / found[BULLS].cpu);
        fprintf(stderr, "bull: %d %s, round %d: %.0f jobs/s, Bull's script %.0f\n", jobs, of, i + 1, found[OURS].wall,
                found[BULLS].wall);
    }
    snprintf(label, sizeof label, "%d %s: sidecar, jobs/s", jobs, of);
    table_row(bench, label, &ours, 0, 0, 0);
    table_row(bench, "Bull's own script, jobs/s", &bulls, 0, 0, 0);
    table_row(bench, "sidecar / Bull's script", &wall, 2, '>', goal);
    table_row(bench, "sidecar / Bull's script, by CPU of Redis", &cpu, 2, 0, 0);
    table_row(bench, "CPU of Redis for a job of ours, us", &us, 2, 0, 0);
    if (priorities) return;
    table_row(bench, "a script without any check / Bull's script", &floor_wall, 2, 0, 0);
    table_row(bench, "that, by CPU of Redis", &floor_cpu, 2, 0, 0);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    scripts_t scripts = {bull_load_script(redis, "updateDelaySet"), redis_ask(redis, "SCRIPT LOAD %s", FLOOR)};
    if (!scripts.bull) {
        printf("\nbull: skipped: no bull@" BULL_VERSION " in build/clients (sh tests/clients/install.sh fetches it)\n");
        return 0;
    }
    redis_do(redis, "FLUSHDB");
    redis_do(redis, "CONFIG SET notify-keyspace-events Kg");
    table_head("Promotion of due jobs of Bull " BULL_VERSION);
    compare(&bench, redis, &scripts, PLAIN, false, 3);
    compare(&bench, redis, &scripts, PRIORITIES, true, 1);
    redis_do(redis, "CONFIG SET notify-keyspace-events %s", "");
    freeReplyObject(scripts.bull);
    freeReplyObject(scripts.floor);
    redisFree(redis);
    return bench_end(&bench);
}
