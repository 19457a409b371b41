// Promotion of a backlog: jobs per second against one huge script that moves all jobs in one call, and how long another client's
// PING takes meanwhile. There are two huge scripts: a simple one, which the goal refers to, and the fastest one that we found,
// which is the ceiling of this machine. Then against a bare loop: a client that asks for a bare script again and again, with as
// many jobs as take Redis SLICE_US, the default of redis.slice.
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
    STEP = 400, // jobs of a script of the bare loop, while their time is unknown
    SLICE_US = 500,
    LONG_JOB_BYTES = 10000,
};

typedef struct backlog {
    const char *name;
    size_t jobs, bytes; // bytes of a job
    bool shuffled;      // loaded in random order
} backlog_t;

static const backlog_t FEW = {"200000 jobs", SMALL, JOB_BYTES, false};
static const backlog_t MANY = {"1000000 jobs", LARGE, JOB_BYTES, false};
static const backlog_t SHUFFLED = {"200000 jobs, random order", SMALL, JOB_BYTES, true};
static const backlog_t LONG = {"50000 jobs of 10 KB", SMALL / 4, LONG_JOB_BYTES, false};

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
static void load(redisContext *redis, const backlog_t *backlog) {
    enum { ARGS = 2 + 2 * JOBS_PER_ADD };
    static char scores[JOBS_PER_ADD][32];
    static char bytes[JOBS_PER_ADD][LONG_JOB_BYTES + 1];
    const char *argv[ARGS] = {"ZADD", "stage"};
    size_t lens[ARGS] = {4, 5};
    uint64_t random = 42;
    double now_ms = (double)wall_us() / 1000;
    const int adds_ahead = backlog->bytes > JOB_BYTES ? 1 : ADDS_AHEAD;
    int ahead = 0;
    for (size_t done = 0; done < backlog->jobs; done += JOBS_PER_ADD) {
        for (size_t i = 0; i < JOBS_PER_ADD; i++) {
            double ago = backlog->shuffled ? random_unit(&random) : 1 - (double)(done + i) / (double)backlog->jobs;
            int len = snprintf(scores[i], sizeof scores[i], "%.3f", now_ms - 60000 * ago);
            snprintf(bytes[i], sizeof bytes[i], "{\"id\":\"%012zu\",\"data\":\"%0*d\"}", done + i, (int)backlog->bytes - 31, 0);
            argv[2 + 2 * i] = scores[i];
            lens[2 + 2 * i] = (size_t)len;
            argv[3 + 2 * i] = bytes[i];
            lens[3 + 2 * i] = backlog->bytes;
        }
        redisAppendCommandArgv(redis, ARGS, argv, lens);
        if (++ahead == adds_ahead)
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
        scoped_reply *event = redis_read(events);
        seen = event->elements == 3 && strcmp(event->element[2]->str, name) == 0;
    }
}

// The pinger (or NULL) runs until all jobs have moved.
static rates_t sidecar_round(redisContext *redis, redisContext *events, const backlog_t *backlog, pinger_t *pinger) {
    load(redis, backlog);
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
    expect(redis, "q0", backlog->jobs);
    return rates(backlog->jobs, ended - began, cpu);
}

// chunk 0: the simple huge script.
static rates_t script_round(redisContext *redis, const backlog_t *backlog, int chunk, pinger_t *pinger) {
    load(redis, backlog);
    sleep_us(20000);
    if (pinger) ping_begin(pinger);
    double cpu = redis_cpu_us(redis);
    int64_t began = mono_us();
    redis_do(redis, "EVAL %s 2 stage huge %d", chunk ? CHUNK_SCRIPT : HUGE_SCRIPT, chunk);
    int64_t ended = mono_us();
    cpu = redis_cpu_us(redis) - cpu;
    if (pinger) ping_end(pinger);
    expect(redis, "huge", backlog->jobs);
    return rates(backlog->jobs, ended - began, cpu);
}

// The lowest delay of other clients that batches allow: a client asks only for the next batch after each reply.
static double step_round(redisContext *redis, const backlog_t *backlog, int batch, pinger_t *pinger) {
    load(redis, backlog);
    scoped_reply *sha = redis_ask(redis, "SCRIPT LOAD %s", STEP_SCRIPT);
    sleep_us(20000);
    ping_begin(pinger);
    int64_t began = mono_us();
    while (redis_do(redis, "EVALSHA %s 2 stage steps %d", sha->str, batch) > 0) {
    }
    int64_t ended = mono_us();
    ping_end(pinger);
    expect(redis, "steps", backlog->jobs);
    return rate(backlog->jobs, ended - began);
}

// The usual loop of workers: read some jobs, ZREM each, and LPUSH the job if ZREM removed it.
static double naive_round(redisContext *redis, size_t jobs) {
    load(redis, &(backlog_t){.jobs = jobs, .bytes = JOB_BYTES});
    int64_t began = mono_us();
    for (;;) {
        scoped_reply *due = redis_ask(redis, "ZRANGEBYSCORE stage -inf %lld LIMIT 0 100", (long long)(wall_us() / 1000));
        size_t count = due->elements;
        for (size_t i = 0; i < count; i++) {
            const redisReply *job = due->element[i];
            if (redis_do(redis, "ZREM stage %b", job->str, job->len) == 1) redis_do(redis, "LPUSH naive %b", job->str, job->len);
        }
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
        double found = script_round(redis, &FEW, CHUNKS[i], NULL).cpu;
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
static void one_round(redisContext *redis, redisContext *events, const backlog_t *backlog, int chunk, int round, rates_t of[3]) {
    for (int n = 0; n < 3; n++) {
        int which = (round + n) % 3;
        of[which] =
            which == 1 ? sidecar_round(redis, events, backlog, NULL) : script_round(redis, backlog, which == 0 ? 0 : chunk, NULL);
    }
}

static void compare(bench_t *bench, redisContext *redis, redisContext *events, const backlog_t *backlog, int chunk) {
    series_t ours = {0};
    series_t huge = {0};
    series_t chunks = {0};
    series_t to_huge = {0};
    series_t to_chunks = {0};
    series_t cpu_to_chunks = {0};
    const char *name = backlog->name;
    for (int i = 0; i < bench->rounds; i++) {
        rates_t of[3];
        one_round(redis, events, backlog, chunk, i, of);
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
    ratio_row(bench, "huge script", name, &to_huge, backlog->shuffled ? 0 : 0.9);
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

static void idle_pings(bench_t *bench, redisContext *redis, pinger_t *pinger) {
    ping_series_t idle = {0}, huge = {0};
    for (int i = 0; i < bench->rounds; i++) {
        ping_begin(pinger);
        sleep_us(500000);
        ping_end(pinger);
        ping_add(&idle, pinger);
        script_round(redis, &FEW, 0, pinger);
        ping_add(&huge, pinger);
    }
    ping_rows(bench, "idle Redis", &idle, 0);
    table_row(bench, "PING max, huge script moves 200000 jobs, ms", &huge.max, 3, 0, 0);
}

// Jobs of a script of the bare loop that takes Redis SLICE_US.
static int step_jobs(redisContext *redis, const backlog_t *backlog, pinger_t *pinger) {
    int jobs = STEP * JOB_BYTES / (int)backlog->bytes;
    for (int n = 0; n < 2; n++) {
        redis_do(redis, "CONFIG RESETSTAT");
        step_round(redis, backlog, jobs, pinger);
        jobs = (int)(jobs * SLICE_US / us_of_a_script(redis));
        if (jobs < 1) jobs = 1;
    }
    return jobs;
}

// The sidecar and a bare loop of scripts of the same length, in turns.
static void beside_loop(bench_t *bench, redisContext *redis, redisContext *events, pinger_t *pinger, const backlog_t *backlog) {
    ping_series_t ours = {0}, steps = {0};
    series_t rate_of_ours = {0}, rate_of_steps = {0}, rates = {0}, pings = {0};
    char label[120];
    int jobs = step_jobs(redis, backlog, pinger);
    for (int i = 0; i < bench->rounds; i++) {
        for (int n = 0; n < 2; n++) {
            bool loop = (i + n) % 2 == 0;
            double rate = loop ? step_round(redis, backlog, jobs, pinger) : sidecar_round(redis, events, backlog, pinger).wall;
            series_add(loop ? &rate_of_steps : &rate_of_ours, rate);
            ping_add(loop ? &steps : &ours, pinger);
        }
        series_add(&rates, rate_of_ours.values[i] / rate_of_steps.values[i]);
        series_add(&pings, ours.p99.values[i] / steps.p99.values[i]);
        fprintf(stderr, "promote: %s, round %d: %.0f jobs/s, PING p99 %.2f ms; bare loop, %d jobs a script: %.0f, %.2f\n",
                backlog->name, i + 1, rate_of_ours.values[i], ours.p99.values[i], jobs, rate_of_steps.values[i],
                steps.p99.values[i]);
    }
    rate_row(bench, "sidecar", backlog->name, &rate_of_ours);
    rate_row(bench, "a bare loop", backlog->name, &rate_of_steps);
    ratio_row(bench, "the bare loop", backlog->name, &rates, 0.97);
    snprintf(label, sizeof label, "%s", backlog->name);
    ping_rows(bench, label, &ours, 0);
    snprintf(label, sizeof label, "%s, the bare loop", backlog->name);
    ping_rows(bench, label, &steps, 0);
    snprintf(label, sizeof label, "%s: PING p99, sidecar / the bare loop", backlog->name);
    table_row(bench, label, &pings, 2, '<', 1.3);
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
            series_add(&rates, sidecar_round(redis, events, &FEW, NULL).wall);
            sidecar_round(redis, events, &FEW, pinger);
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
    compare(&bench, redis, events, &FEW, chunk);
    compare(&bench, redis, events, &MANY, chunk);
    compare(&bench, redis, events, &SHUFFLED, chunk);
    idle_pings(&bench, redis, &pinger);
    table_head("Promotion beside a bare loop of scripts of the same length");
    beside_loop(&bench, redis, events, &pinger, &MANY);
    beside_loop(&bench, redis, events, &pinger, &SHUFFLED);
    beside_loop(&bench, redis, events, &pinger, &LONG);
    sidecar_stop(sidecar, SIGTERM);
    batches(&bench, redis, events, &pinger);
    redis_do(redis, "CONFIG SET notify-keyspace-events %s", "");
    ping_close(&pinger);
    redisFree(events);
    redisFree(redis);
    return bench_end(&bench);
}
