// Lateness: the time at which a blocking consumer gets a job, minus the due time of the job.
//
//   floor       no sidecar: a thread that knows all due times sleeps until each due time and LPUSHes the job itself
//   loaded      all jobs are in the zset beforehand, due at random times
//   whole ms    like loaded, with scores that are whole milliseconds
//   live        a producer adds jobs during the round, 50 to 1500 ms before they are due
#include <errno.h>
#include <pthread.h>

#include "bench.h"

enum {
    LEAD_IN_US = 200000,
    JOBS_PER_ADD = 200,
    JOB_BYTES = 100,
    DELAY_MIN_US = 50000,
    DELAY_MAX_US = 1500000,
    PRODUCER_PAUSE_US = 1000,
    MAX_CONSUMERS = 8,
};

typedef enum mode { MODE_FLOOR, MODE_LOADED, MODE_WHOLE_MS, MODE_LIVE, MODE_COUNT } mode_kind_t;

static const char *const MODE_NAMES[] = {"floor", "loaded", "whole ms", "live"};

typedef struct round {
    const bench_t *bench;
    size_t jobs;
    size_t rate;     // jobs/s
    int64_t *due_us; // of each job
    double *late_ms;
} round_t;

static size_t job_bytes(char *job, size_t number) { return (size_t)snprintf(job, JOB_BYTES + 1, "%012zu%088d", number, 0); }

static void *consumer_main(void *arg) {
    round_t *round = arg;
    redisContext *redis = redis_open(round->bench);
    use_realtime_priority();
    for (bool stop = false; !stop;) {
        redisReply *reply = redis_ask(redis, "BRPOP q0 0");
        int64_t now = wall_us();
        char *job = reply->element[1]->str;
        stop = strcmp(job, "stop") == 0;
        if (!stop) {
            job[12] = '\0';
            size_t number = strtoul(job, NULL, 10);
            round->late_ms[number] = (double)(now - round->due_us[number]) / 1000;
        }
        freeReplyObject(reply);
    }
    redisFree(redis);
    return NULL;
}

static void sleep_until(int64_t us) {
    struct timespec until = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

static void read_replies(redisContext *redis, size_t count) {
    while (count-- > 0) freeReplyObject(redis_read(redis));
}

static void append_add(redisContext *redis, const round_t *round, size_t number) {
    char job[JOB_BYTES + 1];
    size_t len = job_bytes(job, number);
    int64_t due = round->due_us[number];
    redisAppendCommand(redis, "ZADD q0:delayed %lld.%03d %b", (long long)(due / 1000), (int)(due % 1000), job, len);
}

static void load(redisContext *redis, const round_t *round) {
    for (size_t done = 0; done < round->jobs;) {
        size_t ahead = 0;
        for (; ahead < JOBS_PER_ADD && done < round->jobs; ahead++) append_add(redis, round, done++);
        read_replies(redis, ahead);
    }
}

// Adds `rate` jobs each second, and draws the due time of each job when it adds the job.
static void produce(redisContext *redis, round_t *round, uint64_t *random) {
    int64_t began = wall_us();
    for (size_t done = 0; done < round->jobs;) {
        int64_t now = wall_us();
        size_t wanted = (size_t)(now - began) * round->rate / 1000000;
        size_t ahead = 0;
        for (; done < wanted && done < round->jobs; ahead++) {
            round->due_us[done] = now + DELAY_MIN_US + (int64_t)(random_unit(random) * (DELAY_MAX_US - DELAY_MIN_US));
            append_add(redis, round, done++);
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

static void push_by_oneself(redisContext *redis, round_t *round) {
    for (size_t done = 0; done < round->jobs;) {
        sleep_until(round->due_us[done]);
        int64_t now = wall_us();
        size_t ahead = 0;
        for (; done < round->jobs && round->due_us[done] <= now; ahead++) {
            char job[JOB_BYTES + 1];
            size_t len = job_bytes(job, done++);
            redisAppendCommand(redis, "LPUSH q0 %b", job, len);
        }
        read_replies(redis, ahead);
    }
}

static void make_due_times(round_t *round, mode_kind_t mode, uint64_t *random) {
    double span = (double)round->jobs / (double)round->rate * 1e6;
    int64_t began = wall_us() + LEAD_IN_US + (int64_t)round->jobs * 5; // time to load them
    for (size_t i = 0; i < round->jobs; i++) {
        round->due_us[i] = began + (int64_t)(random_unit(random) * span);
        if (mode == MODE_WHOLE_MS) round->due_us[i] -= round->due_us[i] % 1000;
    }
    if (mode == MODE_FLOOR) qsort(round->due_us, round->jobs, sizeof *round->due_us, compare_times);
}

static void run_round(redisContext *redis, round_t *round, mode_kind_t mode, int consumers, uint64_t *random) {
    pthread_t threads[MAX_CONSUMERS];
    for (int i = 0; i < consumers; i++)
        if (pthread_create(&threads[i], NULL, consumer_main, round) != 0) die("no thread");
    if (mode != MODE_LIVE) make_due_times(round, mode, random);
    switch (mode) {
    case MODE_FLOOR: push_by_oneself(redis, round); break;
    case MODE_LIVE: produce(redis, round, random); break;
    default: load(redis, round); break;
    }
    while (redis_do(redis, "ZCARD q0:delayed") > 0) sleep_us(10000);
    for (int i = 0; i < consumers; i++) redis_do(redis, "LPUSH q0 stop");
    for (int i = 0; i < consumers; i++) pthread_join(threads[i], NULL);
}

static void measure(bench_t *bench, redisContext *redis, size_t rate, int consumers, double goal) {
    static series_t p50[MODE_COUNT];
    static series_t p99[MODE_COUNT];
    static series_t most[MODE_COUNT];
    size_t jobs = rate * (size_t)env_number("BENCH_SECONDS", 3);
    round_t round = {.bench = bench, .jobs = jobs, .rate = rate};
    round.due_us = calloc(jobs, sizeof *round.due_us);
    round.late_ms = calloc(jobs, sizeof *round.late_ms);
    if (!round.due_us || !round.late_ms) die("no memory");
    uint64_t random = 7;
    series_t early = {0};
    memset(p50, 0, sizeof p50);
    memset(p99, 0, sizeof p99);
    memset(most, 0, sizeof most);
    for (int i = 0; i < bench->rounds; i++) {
        double too_early = 0;
        for (int mode = 0; mode < MODE_COUNT; mode++) {
            run_round(redis, &round, (mode_kind_t)mode, consumers, &random);
            if (mode != MODE_FLOOR)
                for (size_t k = 0; k < jobs; k++) too_early += round.late_ms[k] < 0;
            series_add(&p50[mode], percentile(round.late_ms, jobs, 0.5));
            series_add(&p99[mode], percentile(round.late_ms, jobs, 0.99));
            series_add(&most[mode], percentile(round.late_ms, jobs, 1));
            fprintf(stderr, "lateness: %zu/s, round %d, %-8s p50 %.3f p99 %.3f max %.3f ms\n", rate, i + 1, MODE_NAMES[mode],
                    p50[mode].values[i], p99[mode].values[i], most[mode].values[i]);
        }
        series_add(&early, too_early);
    }
    char title[80];
    snprintf(title, sizeof title, "Lateness in ms at %zu jobs/s, %d BRPOP consumer%s", rate, consumers, consumers > 1 ? "s" : "");
    table_head(title);
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        char label[80];
        snprintf(label, sizeof label, "%s: p50", MODE_NAMES[mode]);
        table_row(bench, label, &p50[mode], 3, 0, 0);
        snprintf(label, sizeof label, "%s: p99", MODE_NAMES[mode]);
        table_row(bench, label, &p99[mode], 3, mode == MODE_FLOOR ? 0 : '<', goal);
        snprintf(label, sizeof label, "%s: max", MODE_NAMES[mode]);
        table_row(bench, label, &most[mode], 3, 0, 0);
    }
    table_row(bench, "jobs that came early", &early, 0, '<', 0);
    free(round.due_us);
    free(round.late_ms);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    pid_t sidecar = sidecar_start(&bench, (sidecar_options_t){.name = "lateness"});
    sidecar_await(redis, sidecar);
    measure(&bench, redis, 1000, 1, 0.6);
    measure(&bench, redis, 10000, (int)env_number("BENCH_CONSUMERS", 1), 1.2);
    sidecar_stop(sidecar, SIGTERM);
    redisFree(redis);
    return bench_end(&bench);
}
