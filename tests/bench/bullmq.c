// Jobs of BullMQ: how many a second the sidecar promotes, and how long a PING takes meanwhile, against BullMQ's own script of the
// npm package that tests/clients/install.sh fetches. BullMQ promotes inside moveToActive, so the peer is that script up to the
// point where a worker takes a job. C calls it again and again on one socket, as a worker does, so the figures of the peer do not
// include the cost of node, nor of taking a job.
//
// A round begins with RENAME, which moves a loaded zset to delayed, and ends when the zset is empty. A keyspace event reports the
// end of the sidecar's round, so its wake-up is part of the time.
#include <glob.h>

#include "ping.h"

enum { JOBS = 100000, PER_CALL = 5000 };

#define VERSION  "6.7.0"
#define BULL     "bull:q0:"
#define SETTINGS "{ name = \"q0\"; dialect = \"bullmq\"; roles = [\"dispatcher\"]; }"

// Writes jobs as BullMQ's add does, and a zset `stage` of their ids, which fell due within the last minute.
static const char FILL[] =
    "redis.call('HSET', KEYS[1] .. 'meta', 'version', 'bullmq:" VERSION "', 'opts.maxLenEvents', '10000') "
    "for i = ARGV[1], ARGV[2] do "
    "redis.call('HSET', KEYS[1] .. i, 'name', 'mail', 'data', "
    "'{\"to\":\"ann@example.org\",\"template\":\"welcome\",\"n\":' .. i .. '}', "
    "'opts', '{\"delay\":5000,\"attempts\":1}', 'timestamp', ARGV[3], 'delay', '5000', "
    "'priority', ARGV[4] == '1' and 1 + i % 10 or '0') "
    "redis.call('ZADD', KEYS[1] .. 'stage', string.format('%.0f', (ARGV[3] + math.floor(i / 4)) * 4096 + i % 4096), i) end";

typedef struct rates {
    double wall, cpu; // jobs a second, of time and of Redis's CPU time
    double ping;      // p99, ms
} rates_t;

static void load(redisContext *redis, bool priorities) {
    int64_t from = wall_us() / 1000 - 60000;
    redis_do(redis, "FLUSHDB");
    for (int i = 0; i < JOBS; i += PER_CALL)
        redis_do(redis, "EVAL %s 1 " BULL " %d %d %lld %d", FILL, i, i + PER_CALL - 1, (long long)from, (int)priorities);
}

// The script up to the point where a worker takes a job. Returns the reply with its SHA-1, owned; NULL: the package is not
// installed.
static redisReply *load_own_script(redisContext *redis) {
    const char *clients = getenv("QS_CLIENTS_DIR");
    static char text[65536];
    char path[512];
    glob_t found;
    snprintf(path, sizeof path, "%s/bullmq/" VERSION "/node_modules/bullmq/dist/cjs/scripts/moveToActive-*.js",
             clients ? clients : "build/clients");
    if (glob(path, 0, NULL, &found) != 0) return NULL;
    FILE *in = fopen(found.gl_pathv[0], "r");
    globfree(&found);
    if (!in) return NULL;
    text[fread(text, 1, sizeof text - 1, in)] = '\0';
    fclose(in);
    char *begin = strchr(text, '`'), *end = strstr(text, "local maxJobs = tonumber(rateLimitMax");
    if (!begin || !end) die("moveToActive of bullmq " VERSION " has another text");
    *end = '\0';
    return redis_ask(redis, "SCRIPT LOAD %s", begin + 1);
}

static void await_event(redisContext *events, const char *name) {
    for (bool seen = false; !seen;) {
        scoped_reply *event = redis_read(events);
        seen = event->elements == 3 && strcmp(event->element[2]->str, name) == 0;
    }
}

static void await_sidecar(redisContext *redis, pid_t pid) {
    redis_do(redis, "HSET " BULL "warm-up name n priority 0");
    redis_do(redis, "ZADD " BULL "delayed 1 warm-up");
    for (int i = 0; redis_do(redis, "LLEN " BULL "wait") == 0; i++) {
        if (i == 3000 || waitpid(pid, NULL, WNOHANG) == pid) die("the sidecar promotes nothing; see its log");
        sleep_us(5000);
    }
}

// Promotes by the sidecar, or by BullMQ's script `own`.
static rates_t one_round(bench_t *bench, redisContext *redis, pinger_t *pinger, const char *own, bool priorities) {
    redisContext *events = redis_open(bench);
    pid_t sidecar = 0;
    load(redis, priorities);
    if (!own) {
        sidecar = sidecar_start(bench, (sidecar_options_t){.name = "bullmq", .queue = SETTINGS});
        await_sidecar(redis, sidecar);
        redis_do(redis, "DEL " BULL "wait " BULL "marker " BULL "events");
    }
    sleep_us(50000);
    redis_do(events, "SUBSCRIBE __keyspace@0__:" BULL "delayed");
    ping_begin(pinger);
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    redis_do(redis, "RENAME " BULL "stage " BULL "delayed");
    for (bool more = own != NULL; more; more = redis_do(redis, "EXISTS " BULL "delayed") == 1) {
        scoped_reply *done =
            redis_ask(redis,
                      "EVALSHA %s 11 " BULL "wait " BULL "active " BULL "prioritized " BULL "events " BULL "stalled " BULL
                      "limiter " BULL "delayed " BULL "paused " BULL "meta " BULL "pc " BULL "marker " BULL " %lld %b",
                      own, (long long)(wall_us() / 1000), "\x80", (size_t)1);
        (void)done;
    }
    if (!own) await_event(events, "del");
    int64_t us = mono_us() - began;
    cpu = redis_cpu_us(redis) - cpu;
    ping_end(pinger);
    if (sidecar) sidecar_stop(sidecar, SIGTERM);
    redisFree(events);
    if (redis_do(redis, "LLEN " BULL "wait") + redis_do(redis, "ZCARD " BULL "prioritized") != JOBS)
        die("not all of %d jobs were promoted", JOBS);
    redis_do(redis, "FLUSHDB");
    return (rates_t){
        .wall = JOBS / (double)us * 1e6, .cpu = JOBS / cpu * 1e6, .ping = percentile(pinger->ms, pinger->count, 0.99)};
}

static void compare(bench_t *bench, redisContext *redis, pinger_t *pinger, const char *own, bool priorities, double goal) {
    series_t ours = {0}, theirs = {0}, wall = {0}, cpu = {0}, ping = {0}, own_ping = {0}, pings = {0};
    for (int i = 0; i < bench->rounds; i++) {
        rates_t found[2];
        for (int n = 0; n < 2; n++) // each round begins with the other part
            found[(i + n) % 2] = one_round(bench, redis, pinger, (i + n) % 2 ? own : NULL, priorities);
        series_add(&ours, found[0].wall);
        series_add(&theirs, found[1].wall);
        series_add(&wall, found[0].wall / found[1].wall);
        series_add(&cpu, found[0].cpu / found[1].cpu);
        series_add(&ping, found[0].ping);
        series_add(&own_ping, found[1].ping);
        series_add(&pings, found[0].ping / found[1].ping);
        fprintf(stderr, "bullmq: round %d: %.0f jobs/s, PING p99 %.2f ms; BullMQ's script %.0f, %.2f ms\n", i + 1, found[0].wall,
                found[0].ping, found[1].wall, found[1].ping);
    }
    char label[120];
    snprintf(label, sizeof label, "%d jobs%s: sidecar, jobs/s", JOBS, priorities ? " with priorities 1 to 10" : "");
    table_row(bench, label, &ours, 0, 0, 0);
    table_row(bench, "BullMQ's own script, jobs/s", &theirs, 0, 0, 0);
    table_row(bench, "sidecar / BullMQ's script", &wall, 2, '>', goal);
    table_row(bench, "sidecar / BullMQ's script, by CPU of Redis", &cpu, 2, 0, 0);
    table_row(bench, "PING p99, ms", &ping, 2, 0, 0);
    table_row(bench, "PING p99 beside BullMQ's script, ms", &own_ping, 2, 0, 0);
    table_row(bench, "PING p99, sidecar / BullMQ's script", &pings, 2, '<', 1);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    redisReply *own = load_own_script(redis);
    if (!own) {
        printf("\nbullmq: skipped: no bullmq@" VERSION " in build/clients (sh tests/clients/install.sh fetches it)\n");
        return 0;
    }
    pinger_t pinger = ping_open(&bench);
    redis_do(redis, "CONFIG SET notify-keyspace-events Kg");
    table_head("Promotion of due jobs of BullMQ " VERSION);
    compare(&bench, redis, &pinger, own->str, false, 1.5);
    compare(&bench, redis, &pinger, own->str, true, 1.5);
    redis_do(redis, "CONFIG SET notify-keyspace-events %s", "");
    ping_close(&pinger);
    freeReplyObject(own);
    redisFree(redis);
    return bench_end(&bench);
}
