// observe DIR KIND KEY COUNT START_MS RATE LIMIT_S BLIND_S: watches from outside how one peer makes COUNT delayed jobs ready.
//
// The jobs are due at START_MS, or from then on RATE of them each second. KEY is the list of ready jobs (KIND is `list`), or the
// zset that jobs leave in the moment in which they become ready (`zset`). One client asks for PING, and then for TIME and the
// length of KEY in one request, again and again: Redis answers the two without a command between. The n-th job to arrive is the
// n-th to fall due, and has arrived at the first look that sees it. LIMIT_S after START_MS, jobs that have not arrived count with
// the lateness they have by then.
//
// BLIND_S after START_MS the client begins to look, and the lateness is that of the jobs that arrive from then on. What Redis
// spends until then is the peer's alone. Without that time it includes `requests` commands of this client, so the client rests
// for a hundredth of the elapsed time between two looks.
//
// Prints one JSON object: `commands` and `redis_us` are what Redis ran and used for the `counted` jobs.
#include "../bench.h"

enum { PAUSE_US = 200, LEAD_IN_US = 20000, MAX_PINGS = 500000 };

typedef struct watch {
    redisContext *redis;
    const char *key;
    bool zset; // KEY holds the jobs that have not arrived
    size_t jobs;
    int64_t start_us;
    int64_t rate;
    size_t arrived;
    size_t unseen; // arrived in the blind time
    size_t early;
    int64_t first_us; // when the first job arrived; 0 = none has
    double *late_ms;
    double *ping_ms;
    size_t pings;
    size_t requests; // commands that this client has sent
} watch_t;

static int64_t due_us(const watch_t *watch, size_t number) {
    return watch->start_us + (watch->rate ? (int64_t)number * 1000 / watch->rate * 1000 : 0); // whole milliseconds
}

static void watch_ping(watch_t *watch) {
    int64_t sent = mono_us();
    redis_do(watch->redis, "PING");
    if (wall_us() >= watch->start_us && watch->pings < MAX_PINGS)
        watch->ping_ms[watch->pings++] = (double)(mono_us() - sent) / 1000;
}

static void watch_arrive(watch_t *watch, int64_t now_us, size_t arrived) {
    if (watch->first_us == 0 && arrived > 0) watch->first_us = now_us;
    for (; watch->arrived < arrived; watch->arrived++) {
        double late_ms = (double)(now_us - due_us(watch, watch->arrived)) / 1000;
        watch->early += late_ms < 0;
        watch->late_ms[watch->arrived] = late_ms;
    }
}

// Returns the time of Redis.
static int64_t watch_look(watch_t *watch) {
    redisAppendCommand(watch->redis, "TIME");
    redisAppendCommand(watch->redis, "%s %s", watch->zset ? "ZCARD" : "LLEN", watch->key);
    watch->requests += 3; // with the PING before
    redisReply *time = redis_read(watch->redis);
    redisReply *count = redis_read(watch->redis);
    int64_t now_us = strtoll(time->element[0]->str, NULL, 10) * 1000000 + strtoll(time->element[1]->str, NULL, 10);
    size_t number = (size_t)count->integer < watch->jobs ? (size_t)count->integer : watch->jobs;
    watch_arrive(watch, now_us, watch->zset ? watch->jobs - number : number);
    freeReplyObject(time);
    freeReplyObject(count);
    return now_us;
}

typedef struct spent {
    size_t commands; // also those inside scripts
    double redis_us; // processor time of the main thread
} spent_t;

static spent_t spent_so_far(redisContext *redis) {
    static const char FIELD[] = "calls=";
    spent_t spent = {.redis_us = redis_cpu_us(redis)};
    redisReply *info = redis_ask(redis, "INFO commandstats");
    for (const char *at = info->str; (at = strstr(at, FIELD));) spent.commands += strtoul(at += strlen(FIELD), NULL, 10);
    freeReplyObject(info);
    return spent;
}

static void print_spent(const watch_t *watch, spent_t before) {
    spent_t after = spent_so_far(watch->redis);
    printf("{\"counted\": %zu, \"commands\": %zu, \"redis_us\": %.0f, \"requests\": %zu", watch->arrived,
           after.commands - before.commands, after.redis_us - before.redis_us, watch->requests);
}

static void print_percentiles(const char *name, double *values, size_t count) {
    double p50 = percentile(values, count, 0.5);
    double p99 = percentile(values, count, 0.99);
    printf(", \"%s\": {\"p50\": %.3f, \"p99\": %.3f, \"max\": %.3f}", name, p50, p99, percentile(values, count, 1));
}

static void watch_print(watch_t *watch, int64_t now_us) {
    printf(", \"arrived\": %zu, \"early\": %zu, \"seconds\": %.6f", watch->arrived, watch->early,
           (double)(now_us - watch->start_us) / 1e6);
    if (watch->first_us) printf(", \"first_ms\": %.3f", (double)(watch->first_us - watch->start_us) / 1000);
    watch_arrive(watch, now_us, watch->jobs);
    print_percentiles("late_ms", watch->late_ms + watch->unseen, watch->jobs - watch->unseen);
    print_percentiles("ping_ms", watch->ping_ms, watch->pings);
    puts("}");
}

int main(int argc, char **argv) {
    if (argc != 9) die("usage: %s DIR KIND KEY COUNT START_MS RATE LIMIT_S BLIND_S", argv[0]);
    const bench_t bench = {.dir = argv[1]};
    watch_t watch = {.redis = redis_open(&bench), .zset = strcmp(argv[2], "zset") == 0, .key = argv[3]};
    watch.jobs = strtoul(argv[4], NULL, 10);
    watch.start_us = strtoll(argv[5], NULL, 10) * 1000;
    watch.rate = strtoll(argv[6], NULL, 10);
    watch.late_ms = calloc(watch.jobs, sizeof(double));
    watch.ping_ms = calloc(MAX_PINGS, sizeof(double));
    if (!watch.late_ms || !watch.ping_ms) die("no memory");
    int64_t limit_us = watch.start_us + strtoll(argv[7], NULL, 10) * 1000000;
    int64_t blind_us = (int64_t)(strtod(argv[8], NULL) * 1e6);

    prctl(PR_SET_TIMERSLACK, 1UL);
    use_realtime_priority();
    sleep_us(watch.start_us - LEAD_IN_US - wall_us());
    spent_t before = spent_so_far(watch.redis);
    if (blind_us) {
        sleep_us(watch.start_us + blind_us - wall_us());
        watch_look(&watch);
        watch.unseen = watch.arrived;
        watch.early = 0;
        print_spent(&watch, before);
    }
    int64_t now_us = 0;
    while (watch.arrived < watch.jobs && now_us < limit_us) {
        watch_ping(&watch);
        now_us = watch_look(&watch);
        sleep_us(PAUSE_US + (blind_us ? 0 : (now_us - watch.start_us) / 100));
    }
    if (!blind_us) print_spent(&watch, before);
    watch_print(&watch, now_us);
    redisFree(watch.redis);
    return 0;
}
