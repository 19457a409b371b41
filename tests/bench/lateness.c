// Lateness: the time at which a job arrives in ready, by Redis's own clock (arrivals.h), minus its due time.
//
//   floor   no sidecar: a loop that knows all due times sleeps until each due time and LPUSHes the job itself
//   loaded  all jobs are in the zsets beforehand, due at random times
//   live    a producer adds jobs during the round, 50 to 1500 ms before they are due
//
// The time of Redis for a job includes the observer's commands, and that of the ZADD of loaded and live.
#include "arrivals.h"

enum {
    LEAD_IN_US = 200000,
    LOAD_US = 5, // time to load one job
    JOBS_PER_ADD = 200,
    DELAY_MIN_US = 50000,
    DELAY_MAX_US = 1500000,
    PRODUCER_PAUSE_US = 1000,
};

typedef enum mode { MODE_FLOOR, MODE_LOADED, MODE_LIVE, MODE_COUNT } mode_kind_t;

static const char *const MODE_NAMES[] = {"floor", "loaded", "live"};

static void read_replies(redisContext *redis, size_t count) {
    while (count-- > 0) freeReplyObject(redis_read(redis));
}

static void load(const arrivals_t *arrivals, redisContext *redis) {
    for (size_t done = 0; done < arrivals->jobs;) {
        size_t ahead = 0;
        for (; ahead < JOBS_PER_ADD && done < arrivals->jobs; ahead++) arrivals_append(arrivals, redis, done++);
        read_replies(redis, ahead);
    }
}

// Adds `rate` jobs each second, and draws the due time of each job when it adds the job.
static void produce(arrivals_t *arrivals, redisContext *redis, size_t rate, uint64_t *random) {
    int64_t began = wall_us();
    for (size_t done = 0; done < arrivals->jobs;) {
        int64_t now = wall_us();
        size_t wanted = (size_t)(now - began) * rate / 1000000, ahead = 0;
        for (; done < wanted && done < arrivals->jobs; ahead++) {
            arrivals->due_us[done] = now + DELAY_MIN_US + (int64_t)(random_unit(random) * (DELAY_MAX_US - DELAY_MIN_US));
            arrivals_append(arrivals, redis, done++);
        }
        read_replies(redis, ahead);
        sleep_us(PRODUCER_PAUSE_US);
    }
}

static int compare_times(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static void push_by_oneself(const arrivals_t *arrivals, redisContext *redis) {
    for (size_t done = 0; done < arrivals->jobs;) {
        arrivals_sleep_until(arrivals->due_us[done]);
        int64_t now = wall_us();
        size_t ahead = 0;
        for (; done < arrivals->jobs && arrivals->due_us[done] <= now; ahead++) {
            char job[ARRIVALS_JOB_BYTES + 1];
            size_t len = arrivals_job(job, done);
            redisAppendCommand(redis, "LPUSH q%d %b", (int)(done++ % (size_t)arrivals->queues), job, len);
        }
        read_replies(redis, ahead);
    }
}

static void make_due_times(arrivals_t *arrivals, size_t rate, mode_kind_t mode, uint64_t *random) {
    double span = (double)arrivals->jobs / (double)rate * 1e6;
    int64_t began = wall_us() + LEAD_IN_US + (int64_t)arrivals->jobs * LOAD_US;
    for (size_t i = 0; i < arrivals->jobs; i++) arrivals->due_us[i] = began + (int64_t)(random_unit(random) * span);
    if (mode == MODE_FLOOR) qsort(arrivals->due_us, arrivals->jobs, sizeof *arrivals->due_us, compare_times);
}

static void run_round(arrivals_t *arrivals, redisContext *redis, size_t rate, mode_kind_t mode, uint64_t *random) {
    arrivals_begin(arrivals);
    if (mode != MODE_LIVE) make_due_times(arrivals, rate, mode, random);
    switch (mode) {
    case MODE_FLOOR: push_by_oneself(arrivals, redis); break;
    case MODE_LOADED: load(arrivals, redis); break;
    default: produce(arrivals, redis, rate, random); break;
    }
    arrivals_end(arrivals, redis, arrivals->jobs);
}

static void measure(bench_t *bench, redisContext *redis, size_t rate, int queues) {
    series_t p50[MODE_COUNT] = {0}, p99[MODE_COUNT] = {0}, shares[MODE_COUNT] = {0}, cpu_us[MODE_COUNT] = {0}, early = {0};
    size_t jobs = rate * (size_t)env_number("BENCH_SECONDS", 3);
    arrivals_t arrivals;
    arrivals_open(&arrivals, bench, queues, jobs);
    uint64_t random = 7;
    for (int i = 0; i < bench->rounds; i++) {
        double too_early = 0;
        for (int mode = 0; mode < MODE_COUNT; mode++) {
            double before_us = redis_cpu_us(redis);
            run_round(&arrivals, redis, rate, (mode_kind_t)mode, &random);
            series_add(&cpu_us[mode], (redis_cpu_us(redis) - before_us) / (double)jobs);
            for (size_t k = 0; k < jobs && mode != MODE_FLOOR; k++) too_early += arrivals.late_ms[k] < 0;
            series_add(&p50[mode], percentile(arrivals.late_ms, jobs, 0.5));
            series_add(&p99[mode], percentile(arrivals.late_ms, jobs, 0.99));
            series_add(&shares[mode], p99[mode].values[i] / p99[MODE_FLOOR].values[i]);
            fprintf(stderr, "lateness: %zu/s, %d queues, round %d, %-6s p50 %.3f p99 %.3f max %.3f ms\n", rate, queues, i + 1,
                    MODE_NAMES[mode], p50[mode].values[i], p99[mode].values[i], percentile(arrivals.late_ms, jobs, 1));
        }
        series_add(&early, too_early);
    }
    arrivals_close(&arrivals);
    char label[96];
    snprintf(label, sizeof label, "Lateness in ready, ms, %zu jobs/s, %d queue%s", rate, queues, queues > 1 ? "s" : "");
    table_head(label);
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        snprintf(label, sizeof label, "%s: p50", MODE_NAMES[mode]);
        table_row(bench, label, &p50[mode], 3, 0, 0);
        snprintf(label, sizeof label, "%s: p99", MODE_NAMES[mode]);
        table_row(bench, label, &p99[mode], 3, 0, 0);
        snprintf(label, sizeof label, "%s: time of Redis for a job, us", MODE_NAMES[mode]);
        table_row(bench, label, &cpu_us[mode], 1, 0, 0);
        if (mode == MODE_FLOOR) continue;
        snprintf(label, sizeof label, "%s: p99 / the floor's", MODE_NAMES[mode]);
        table_row(bench, label, &shares[mode], 2, '<', 1.3);
    }
    table_row(bench, "jobs that came early", &early, 0, '<', 0);
}

int main(int argc, char **argv) {
    static const size_t rates[] = {1000, 10000, 50000};
    static const int queues[] = {1, 1000};
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    for (size_t q = 0; q < sizeof queues / sizeof *queues; q++) {
        redis_do(redis, "FLUSHALL");
        pid_t sidecar = sidecar_start(&bench, (sidecar_options_t){.name = "lateness", .queues = queues[q]});
        sidecar_await(redis, sidecar);
        for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) measure(&bench, redis, rates[i], queues[q]);
        sidecar_stop(sidecar, SIGTERM);
    }
    redis_do(redis, "FLUSHALL");
    redisFree(redis);
    return bench_end(&bench);
}
