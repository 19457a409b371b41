// Promotion of a backlog: jobs per second against one huge script that moves all jobs in one call, and how long another client's
// PING takes meanwhile. There are two huge scripts: a simple one, which the goal refers to, and the fastest one that we found,
// which is the ceiling of this machine.
//
// A round begins with RENAME, which moves a loaded zset to delayed, and ends with the keyspace event that Redis sends when this
// zset is empty. So no client polls, and the wake-up of the sidecar is part of the time.
#include "ping.h"

enum {
    JOB_BYTES = 100,
    JOBS_PER_ADD = 200,
    ADDS_AHEAD = 50,
    SMALL = 200000,
    LARGE = 1000000,
    NAIVE = 20000,
    STEP = 400, // the default of dispatcher.batch
};

#define NOW "local t = redis.call('TIME') local now = string.format('%s%03d', t[1], math.floor(t[2] / 1000)) "

// One huge script: reads all due jobs, pushes as many at once as unpack allows, and removes all by one command. No fence, no
// checks.
static const char HUGE_SCRIPT[] = NOW "local jobs = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now) "
                                      "for i = 1, #jobs, 5000 do "
                                      "redis.call('LPUSH', KEYS[2], unpack(jobs, i, math.min(i + 4999, #jobs))) end "
                                      "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)";

// Does the same in chunks that fit the processor's caches.
static const char CHUNK_SCRIPT[] = NOW "while true do "
                                       "local jobs = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1]) "
                                       "if #jobs == 0 then return end "
                                       "redis.call('LPUSH', KEYS[2], unpack(jobs)) "
                                       "redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #jobs - 1) end";

// Moves one such chunk. A client calls this again and again, so that Redis serves other clients between the calls.
static const char STEP_SCRIPT[] = NOW "local jobs = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1]) "
                                      "if #jobs == 0 then return 0 end "
                                      "redis.call('LPUSH', KEYS[2], unpack(jobs)) "
                                      "redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #jobs - 1) return #jobs";

// Fills the zset `stage` with jobs that fell due within the last minute, in the order of their due times or at random. Random
// order spreads neighbours over the memory of Redis, which slows down every way of promotion.
static void load(redisContext *redis, size_t jobs, bool shuffled) {
    enum { ARGS = 2 + 2 * JOBS_PER_ADD };
    static char scores[JOBS_PER_ADD][32];
    static char bytes[JOBS_PER_ADD][JOB_BYTES + 1];
    const char *argv[ARGS] = {"ZADD", "stage"};
    size_t lens[ARGS] = {4, 5};
    uint64_t random = 42;
    double now_ms = (double)wall_us() / 1000;
    int ahead = 0;
    for (size_t done = 0; done < jobs; done += JOBS_PER_ADD) {
        for (size_t i = 0; i < JOBS_PER_ADD; i++) {
            double ago = shuffled ? random_unit(&random) : 1 - (double)(done + i) / (double)jobs;
            int len = snprintf(scores[i], sizeof scores[i], "%.3f", now_ms - 60000 * ago);
            snprintf(bytes[i], sizeof bytes[i], "{\"id\":\"%012zu\",\"data\":\"%069d\"}", done + i, 0);
            argv[2 + 2 * i] = scores[i];
            lens[2 + 2 * i] = (size_t)len;
            argv[3 + 2 * i] = bytes[i];
            lens[3 + 2 * i] = JOB_BYTES;
        }
        redisAppendCommandArgv(redis, ARGS, argv, lens);
        if (++ahead == ADDS_AHEAD)
            for (; ahead > 0; ahead--) freeReplyObject(redis_read(redis));
    }
    for (; ahead > 0; ahead--) freeReplyObject(redis_read(redis));
}

// Result of one round: jobs per second, and jobs per second of Redis's CPU time.
typedef struct rates {
    double wall;
    double cpu;
} rates_t;

static void expect(redisContext *redis, const char *ready, size_t jobs) {
    int64_t found = redis_do(redis, "LLEN %s", ready);
    if (found != (int64_t)jobs) die("%lld jobs of %zu arrived", (long long)found, jobs);
    redis_do(redis, "DEL %s", ready);
}

static double rate(size_t jobs, int64_t us) { return (double)jobs / (double)us * 1e6; }

static rates_t rates(size_t jobs, int64_t us, double cpu_us) {
    return (rates_t){.wall = rate(jobs, us), .cpu = (double)jobs / cpu_us * 1e6};
}

static void await_event(redisContext *events, const char *name) {
    for (bool seen = false; !seen;) {
        redisReply *event = redis_read(events);
        seen = event->elements == 3 && strcmp(event->element[2]->str, name) == 0;
        freeReplyObject(event);
    }
}

// The pinger (or NULL) runs until all jobs have moved.
static rates_t sidecar_round(redisContext *redis, redisContext *events, size_t jobs, bool shuffled, pinger_t *pinger) {
    load(redis, jobs, shuffled);
    sleep_us(20000);
    if (pinger) ping_begin(pinger);
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    redis_do(redis, "RENAME stage q0:delayed");
    await_event(events, "rename_to"); // skips events of the warm-up
    await_event(events, "del");
    int64_t ended = mono_us();
    cpu = redis_cpu_us(redis) - cpu;
    if (pinger) ping_end(pinger);
    expect(redis, "q0", jobs);
    return rates(jobs, ended - began, cpu);
}

// chunk 0: the simple huge script.
static rates_t script_round(redisContext *redis, size_t jobs, bool shuffled, int chunk, pinger_t *pinger) {
    load(redis, jobs, shuffled);
    sleep_us(20000);
    if (pinger) ping_begin(pinger);
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    redis_do(redis, "EVAL %s 2 stage huge %d", chunk ? CHUNK_SCRIPT : HUGE_SCRIPT, chunk);
    int64_t ended = mono_us();
    cpu = redis_cpu_us(redis) - cpu;
    if (pinger) ping_end(pinger);
    expect(redis, "huge", jobs);
    return rates(jobs, ended - began, cpu);
}

// The lowest delay of other clients that batches allow: a client asks only for the next batch after each reply.
static double step_round(redisContext *redis, size_t jobs, int batch, pinger_t *pinger) {
    load(redis, jobs, false);
    redisReply *sha = redis_ask(redis, "SCRIPT LOAD %s", STEP_SCRIPT);
    sleep_us(20000);
    ping_begin(pinger);
    int64_t began = mono_us();
    while (redis_do(redis, "EVALSHA %s 2 stage steps %d", sha->str, batch) > 0) {
    }
    int64_t ended = mono_us();
    ping_end(pinger);
    freeReplyObject(sha);
    expect(redis, "steps", jobs);
    return rate(jobs, ended - began);
}

// The usual loop of workers: read some jobs, ZREM each, and LPUSH the job if ZREM removed it.
static double naive_round(redisContext *redis, size_t jobs) {
    load(redis, jobs, false);
    int64_t began = mono_us();
    for (;;) {
        redisReply *due = redis_ask(redis, "ZRANGEBYSCORE stage -inf %lld LIMIT 0 100", (long long)(wall_us() / 1000));
        size_t count = due->elements;
        for (size_t i = 0; i < count; i++) {
            const redisReply *job = due->element[i];
            if (redis_do(redis, "ZREM stage %b", job->str, job->len) == 1) redis_do(redis, "LPUSH naive %b", job->str, job->len);
        }
        freeReplyObject(due);
        if (count == 0) break;
    }
    int64_t ended = mono_us();
    expect(redis, "naive", jobs);
    return rate(jobs, ended - began);
}

static int fastest_chunk(redisContext *redis) {
    static const int CHUNKS[] = {500, 1000, 2000, 5000};
    int best = 0;
    double best_rate = 0;
    for (size_t i = 0; i < sizeof CHUNKS / sizeof *CHUNKS; i++) {
        double found = script_round(redis, SMALL, false, CHUNKS[i], NULL).cpu;
        fprintf(stderr, "promote: the script in chunks of %d: %.0f jobs/s\n", CHUNKS[i], found);
        if (found > best_rate) {
            best_rate = found;
            best = CHUNKS[i];
        }
    }
    return best;
}

static redisContext *watch_end(const bench_t *bench, redisContext *redis) {
    redisContext *events = redis_open(bench);
    redis_do(redis, "CONFIG SET notify-keyspace-events Kg");
    redis_do(events, "SUBSCRIBE __keyspace@0__:q0:delayed");
    return events;
}

static void rate_row(bench_t *bench, const char *what, const char *of, series_t *series) {
    char label[120];
    snprintf(label, sizeof label, "%s: %s, jobs/s", of, what);
    table_row(bench, label, series, 0, 0, 0);
}

static void ratio_row(bench_t *bench, const char *what, const char *of, series_t *series, double goal) {
    char label[120];
    snprintf(label, sizeof label, "%s: sidecar / %s", of, what);
    table_row(bench, label, series, 3, goal > 0 ? '>' : 0, goal);
}

// Runs the huge script, the sidecar and the chunks one after the other. Each of them changes the memory layout of Redis for the
// next one, so each round begins with another of the three.
static void one_round(redisContext *redis, redisContext *events, size_t jobs, bool shuffled, int chunk, int round,
                      rates_t of[3]) {
    for (int n = 0; n < 3; n++) {
        int which = (round + n) % 3;
        of[which] = which == 1 ? sidecar_round(redis, events, jobs, shuffled, NULL)
                               : script_round(redis, jobs, shuffled, which == 0 ? 0 : chunk, NULL);
    }
}

static void compare(bench_t *bench, redisContext *redis, redisContext *events, size_t jobs, bool shuffled, int chunk) {
    series_t ours = {0};
    series_t huge = {0};
    series_t chunks = {0};
    series_t to_huge = {0};
    series_t to_chunks = {0};
    series_t cpu_to_chunks = {0};
    char name[60];
    snprintf(name, sizeof name, "%zu jobs%s", jobs, shuffled ? ", random order" : "");
    for (int i = 0; i < bench->rounds; i++) {
        rates_t of[3];
        one_round(redis, events, jobs, shuffled, chunk, i, of);
        const rates_t h = of[0], s = of[1], c = of[2];
        series_add(&huge, h.wall);
        series_add(&ours, s.wall);
        series_add(&chunks, c.wall);
        series_add(&to_huge, s.wall / h.wall);
        series_add(&to_chunks, s.wall / c.wall);
        series_add(&cpu_to_chunks, s.cpu / c.cpu);
        fprintf(stderr, "promote: %s, round %d: %.0f jobs/s, huge %.0f, chunks %.0f\n", name, i + 1, s.wall, h.wall, c.wall);
    }
    rate_row(bench, "sidecar", name, &ours);
    rate_row(bench, "one huge script", name, &huge);
    rate_row(bench, "that script in chunks", name, &chunks);
    ratio_row(bench, "huge script", name, &to_huge, shuffled ? 0 : 0.9);
    ratio_row(bench, "in chunks (ceiling)", name, &to_chunks, 0);
    ratio_row(bench, "in chunks, by CPU of Redis", name, &cpu_to_chunks, 0);
}

typedef struct ping_series {
    series_t p50;
    series_t p99;
    series_t max;
} ping_series_t;

static void ping_add(ping_series_t *series, const pinger_t *pinger) {
    series_add(&series->p50, percentile(pinger->ms, pinger->count, 0.5));
    series_add(&series->p99, percentile(pinger->ms, pinger->count, 0.99));
    series_add(&series->max, percentile(pinger->ms, pinger->count, 1));
}

static void ping_rows(bench_t *bench, const char *what, ping_series_t *series, double goal) {
    char label[120];
    snprintf(label, sizeof label, "PING p50, %s, ms", what);
    table_row(bench, label, &series->p50, 3, 0, 0);
    snprintf(label, sizeof label, "PING p99, %s, ms", what);
    table_row(bench, label, &series->p99, 3, goal > 0 ? '<' : 0, goal);
    snprintf(label, sizeof label, "PING max, %s, ms", what);
    table_row(bench, label, &series->max, 3, 0, 0);
}

static void pings(bench_t *bench, redisContext *redis, redisContext *events, pinger_t *pinger) {
    ping_series_t idle = {0};
    ping_series_t ours = {0};
    ping_series_t steps = {0};
    ping_series_t huge = {0};
    series_t rate_of_ours = {0};
    series_t rate_of_steps = {0};
    for (int i = 0; i < bench->rounds; i++) {
        fprintf(stderr, "promote: ping round %d\n", i + 1);
        ping_begin(pinger);
        sleep_us(500000);
        ping_end(pinger);
        ping_add(&idle, pinger);
        series_add(&rate_of_ours, sidecar_round(redis, events, LARGE, false, pinger).wall);
        ping_add(&ours, pinger);
        series_add(&rate_of_steps, step_round(redis, LARGE, STEP, pinger));
        ping_add(&steps, pinger);
        script_round(redis, SMALL, false, 0, pinger);
        ping_add(&huge, pinger);
    }
    ping_rows(bench, "idle Redis (floor)", &idle, 0);
    ping_rows(bench, "sidecar promotes 1000000 jobs", &ours, 1.5);
    table_row(bench, "jobs/s meanwhile", &rate_of_ours, 0, 0, 0);
    ping_rows(bench, "a bare loop of a bare script, 400 at once", &steps, 0);
    table_row(bench, "jobs/s of that loop", &rate_of_steps, 0, 0, 0);
    table_row(bench, "PING max, huge script moves 200000 jobs, ms", &huge.max, 3, 0, 0);
}

// The trade-off of the batch: throughput against the delay of other clients.
static void batches(bench_t *bench, redisContext *redis, redisContext *events, pinger_t *pinger) {
    static const int BATCHES[] = {100, 400, 1000, 2000};
    table_head("The batch: 200000 jobs");
    for (size_t b = 0; b < sizeof BATCHES / sizeof *BATCHES; b++) {
        series_t rates = {0};
        ping_series_t ping = {0};
        char label[120];
        fprintf(stderr, "promote: batch %d\n", BATCHES[b]);
        pid_t sidecar = sidecar_start(bench, (sidecar_options_t){.name = "batch", .batch = BATCHES[b]});
        sidecar_await(redis, sidecar);
        for (int i = 0; i < bench->rounds; i++) {
            series_add(&rates, sidecar_round(redis, events, SMALL, false, NULL).wall);
            sidecar_round(redis, events, SMALL, false, pinger);
            ping_add(&ping, pinger);
        }
        sidecar_stop(sidecar, SIGTERM);
        snprintf(label, sizeof label, "batch %d, jobs/s", BATCHES[b]);
        table_row(bench, label, &rates, 0, 0, 0);
        snprintf(label, sizeof label, "batch %d, PING p99, ms", BATCHES[b]);
        table_row(bench, label, &ping.p99, 3, 0, 0);
    }
    series_t naive = {0};
    for (int i = 0; i < bench->rounds; i++) series_add(&naive, naive_round(redis, NAIVE));
    table_row(bench, "naive loop in C (ZRANGEBYSCORE, ZREM, LPUSH), jobs/s", &naive, 0, 0, 0);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    redisContext *events = watch_end(&bench, redis);
    pinger_t pinger = ping_open(&bench);
    int chunk = fastest_chunk(redis);
    pid_t sidecar = sidecar_start(&bench, (sidecar_options_t){.name = "promote"});
    sidecar_await(redis, sidecar);
    table_head("Promotion of due jobs of 100 bytes");
    compare(&bench, redis, events, SMALL, false, chunk);
    compare(&bench, redis, events, LARGE, false, chunk);
    compare(&bench, redis, events, SMALL, true, chunk);
    pings(&bench, redis, events, &pinger);
    sidecar_stop(sidecar, SIGTERM);
    batches(&bench, redis, events, &pinger);
    redis_do(redis, "CONFIG SET notify-keyspace-events %s", "");
    ping_close(&pinger);
    redisFree(events);
    redisFree(redis);
    return bench_end(&bench);
}
