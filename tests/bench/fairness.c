// Fairness: a storm in one queue, and the lateness of the delayed jobs of another, by Redis's own clock (arrivals.h).
//
// Rounds without and with the storm take turns. In both the queue `storm` holds the same jobs, and a producer adds 1,000 delayed
// jobs/s to q0. Meanwhile a bare loop sleeps until the due times of its own 1,000 jobs/s and pushes them to q1, a queue without
// sidecar: so late is a client of this machine anyhow. The lock has the shortest TTL. Its remaining time, read each millisecond,
// tells how late a renewal was.
#include "arrivals.h"

enum {
    CALM_RATE = 1000,
    CALM_MAX = 120 * CALM_RATE,
    AHEAD_US = 100000, // how long before its due time a job is added
    WARM_UP_US = 1000000,
    WINDOW_US = 2000000, // length of a round without a storm
    DUE_AFTER_MS = 3000, // time to load a job that falls due
    HOUR_MS = 3600000,
    LOOK_US = 1000,
    LOOKS_MAX = 60000,
    LOAD_STEP = 1000,
    TTL_MS = 200,
    PERIOD_MS = TTL_MS / 3, // between two renewals
};

#define MONITORED(timeout, retries)                                                                                              \
    "{ name = \"storm\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"" timeout                             \
    "\"; retry_times = " retries "; }"
#define DELAYED "{ name = \"storm\"; roles = [\"dispatcher\"]; }"

typedef struct storm {
    const char *name;
    const char *label;
    const char *settings[2]; // of the queue, without and with the storm
    int jobs;
    bool due;           // jobs fall due; otherwise they stall
    const char *counts; // command whose reply is the number of jobs done
} storm_t;

// The clients of q0 and q1. Even jobs are for q0, odd ones for q1.
typedef struct calm {
    arrivals_t arrivals;
    double *late_ms; // of the jobs that are due in the window
    redisContext *redis[2];
    size_t added[2];
    int64_t began_us;
    atomic_bool stop;
    pthread_t threads[2];
} calm_t;

typedef enum who { SIDECAR, BARE, WHO_COUNT } who_t;

typedef struct round {
    int64_t from_us, to_us; // the window
    double p99[WHO_COUNT];  // lateness of jobs that are due in the window
    double renewal_ms;      // the largest delay of a renewal
    double rate;            // jobs/s of the storm
    bool lost;              // the lock changed its owner
} round_t;

static int64_t calm_draw(calm_t *calm, who_t who, uint64_t *random) {
    size_t number = 2 * calm->added[who] + who;
    double slot = (double)calm->added[who]++ + random_unit(random);
    return calm->arrivals.due_us[number] = calm->began_us + (int64_t)(slot * 1e6 / CALM_RATE);
}

static bool calm_goes_on(calm_t *calm, who_t who) { return !atomic_load(&calm->stop) && calm->added[who] < CALM_MAX; }

static void *calm_produce(void *arg) {
    calm_t *calm = arg;
    uint64_t random = 11;
    while (calm_goes_on(calm, SIDECAR)) {
        size_t ahead = 0;
        for (int64_t due = 0; due < wall_us() + AHEAD_US && calm_goes_on(calm, SIDECAR); ahead++) {
            due = calm_draw(calm, SIDECAR, &random);
            arrivals_append(&calm->arrivals, calm->redis[SIDECAR], 2 * (calm->added[SIDECAR] - 1));
        }
        while (ahead-- > 0) freeReplyObject(redis_read(calm->redis[SIDECAR]));
        sleep_us(LOOK_US);
    }
    return NULL;
}

static void *calm_push(void *arg) {
    calm_t *calm = arg;
    uint64_t random = 13;
    while (calm_goes_on(calm, BARE)) {
        char job[ARRIVALS_JOB_BYTES + 1];
        size_t len = arrivals_job(job, 2 * calm->added[BARE] + BARE);
        arrivals_sleep_until(calm_draw(calm, BARE, &random));
        redis_do(calm->redis[BARE], "LPUSH q1 %b", job, len);
    }
    return NULL;
}

static void calm_begin(calm_t *calm) {
    static void *(*const mains[])(void *) = {calm_produce, calm_push};
    atomic_store(&calm->stop, false);
    calm->began_us = wall_us() + AHEAD_US;
    arrivals_begin(&calm->arrivals);
    for (who_t who = 0; who < WHO_COUNT; who++) {
        calm->added[who] = 0;
        if (pthread_create(&calm->threads[who], NULL, mains[who], calm) != 0) die("no thread");
    }
}

static void calm_end(calm_t *calm, redisContext *redis, round_t *round) {
    const arrivals_t *arrivals = &calm->arrivals;
    atomic_store(&calm->stop, true);
    for (who_t who = 0; who < WHO_COUNT; who++) pthread_join(calm->threads[who], NULL);
    arrivals_end(&calm->arrivals, redis, calm->added[SIDECAR] + calm->added[BARE]);
    for (who_t who = 0; who < WHO_COUNT; who++) {
        size_t count = 0;
        for (size_t i = who; i < 2 * calm->added[who]; i += 2)
            if (arrivals->due_us[i] >= round->from_us && arrivals->due_us[i] < round->to_us)
                calm->late_ms[count++] = arrivals->late_ms[i];
        round->p99[who] = percentile(calm->late_ms, count, 0.99);
    }
}

// The jobs of the storm: in backup, or in delayed with a due time that comes soon or not in this round.
static void storm_load(redisContext *redis, const storm_t *storm, bool storms) {
    static const char LOAD[] =
        "for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do local job = string.format('{\"id\":\"%012d\",\"data\":\"%069d\"}', i, 0) "
        "if ARGV[3] == '' then redis.call('LPUSH', KEYS[1], job) else redis.call('ZADD', KEYS[1], ARGV[3], job) end end";
    char due[24] = "";
    if (storm->due) snprintf(due, sizeof due, "%lld", (long long)(wall_us() / 1000 + (storms ? DUE_AFTER_MS : HOUR_MS)));
    for (int i = 0; i < storm->jobs; i += LOAD_STEP)
        redis_do(redis, "EVAL %s 1 storm:%s %d %d %s", LOAD, storm->due ? "delayed" : "backup", i, LOAD_STEP, due);
}

// Looks at the lock and at the storm until the window is over.
static void look(redisContext *redis, const storm_t *storm, bool storms, round_t *round) {
    int64_t least = TTL_MS, first = 0, done = 0, looks = 0;
    if (!storms) round->from_us = wall_us();
    for (bool over = false; !over; sleep_us(LOOK_US)) {
        if (++looks > LOOKS_MAX) die("%s: %lld of %d jobs", storm->name, (long long)done, storm->jobs);
        done = redis_do(redis, storm->counts);
        if (done && !round->from_us) {
            round->from_us = wall_us();
            first = done;
        }
        over = storms ? done >= storm->jobs : wall_us() >= round->from_us + WINDOW_US;
        int64_t left = redis_do(redis, "PTTL sidecar:" BENCH_GROUP ":lock");
        if (round->from_us && left < least) least = left; // -2: there is no lock
    }
    round->to_us = wall_us();
    round->renewal_ms = (double)(TTL_MS - PERIOD_MS - least);
    round->rate = (double)(done - first) / (double)(round->to_us - round->from_us) * 1e6;
}

static round_t measure_round(const bench_t *bench, redisContext *redis, calm_t *calm, const storm_t *storm, bool storms) {
    char queues[512];
    round_t round = {0};
    snprintf(queues, sizeof queues, "{ name = \"q0\"; roles = [\"dispatcher\"]; }, %s", storm->settings[storms]);
    redis_do(redis, "FLUSHALL");
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = storm->name, .monitor = "off", .queue = queues, .ttl = "200ms"});
    sidecar_await(redis, pid);
    storm_load(redis, storm, storms);
    calm_begin(calm);
    if (!storms) sleep_us(WARM_UP_US);
    scoped_reply *before = redis_ask(redis, "GET sidecar:" BENCH_GROUP ":lock");
    look(redis, storm, storms, &round);
    scoped_reply *after = redis_ask(redis, "GET sidecar:" BENCH_GROUP ":lock");
    round.lost = !before->str || !after->str || strcmp(before->str, after->str) != 0;
    calm_end(calm, redis, &round);
    sidecar_stop(pid, SIGTERM);
    return round;
}

static void measure(bench_t *bench, redisContext *redis, calm_t *calm, const storm_t *storm) {
    series_t late[2][WHO_COUNT] = {0}, more[WHO_COUNT] = {0}, renewal[2] = {0}, lost = {0}, rate = {0};
    static const char *const when[] = {"without the storm", "in the storm"}, *const who[] = {"sidecar", "bare loop"};
    for (int i = 0; i < bench->rounds; i++) {
        round_t rounds[2];
        for (int storms = 0; storms < 2; storms++) {
            rounds[storms] = measure_round(bench, redis, calm, storm, storms);
            for (who_t w = 0; w < WHO_COUNT; w++) series_add(&late[storms][w], rounds[storms].p99[w]);
            series_add(&renewal[storms], rounds[storms].renewal_ms);
            fprintf(stderr, "fairness: %s, round %d, %s: p99 %.2f ms, of the bare loop %.2f, renewal %.0f ms late, %.0f jobs/s\n",
                    storm->label, i + 1, when[storms], rounds[storms].p99[SIDECAR], rounds[storms].p99[BARE],
                    rounds[storms].renewal_ms, rounds[storms].rate);
        }
        for (who_t w = 0; w < WHO_COUNT; w++) series_add(&more[w], rounds[1].p99[w] - rounds[0].p99[w]);
        series_add(&lost, rounds[0].lost + rounds[1].lost);
        series_add(&rate, rounds[1].rate);
    }
    char label[96];
    table_head(storm->label);
    table_row(bench, "jobs/s of the storm", &rate, 0, 0, 0);
    for (who_t w = 0; w < WHO_COUNT; w++) {
        for (int storms = 0; storms < 2; storms++) {
            snprintf(label, sizeof label, "%s: lateness p99 of another queue %s, ms", who[w], when[storms]);
            table_row(bench, label, &late[storms][w], 2, 0, 0);
        }
        snprintf(label, sizeof label, "%s: the difference, ms", who[w]);
        table_row(bench, label, &more[w], 2, w == SIDECAR ? '<' : 0, 2);
    }
    for (int storms = 0; storms < 2; storms++) {
        snprintf(label, sizeof label, "largest delay of a renewal %s, ms", when[storms]);
        table_row(bench, label, &renewal[storms], 0, 0, 0);
    }
    table_row(bench, "locks lost, lock.ttl 200ms", &lost, 0, '<', 0);
}

int main(int argc, char **argv) {
    static const storm_t storms[] = {
        {"fair-back",
         "50,000 stalled jobs are given back",
         {MONITORED("1h", "3"), MONITORED("3s", "3")},
         50000,
         false,
         "LLEN storm"},
        {"fair-ended",
         "50,000 stalled jobs are ended",
         {MONITORED("1h", "0"), MONITORED("3s", "0")},
         50000,
         false,
         "XLEN sidecar:storm:failures"},
        {"fair-due", "500,000 jobs fall due at once", {DELAYED, DELAYED}, 500000, true, "LLEN storm"},
    };
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    calm_t calm = {.redis = {redis_open(&bench), redis_open(&bench)}, .late_ms = calloc(CALM_MAX, sizeof(double))};
    if (!calm.late_ms) die("no memory");
    arrivals_open(&calm.arrivals, &bench, 2, 2 * CALM_MAX);
    for (size_t i = 0; i < sizeof storms / sizeof *storms; i++) measure(&bench, redis, &calm, &storms[i]);
    arrivals_close(&calm.arrivals);
    redis_do(redis, "FLUSHALL");
    for (who_t who = 0; who < WHO_COUNT; who++) redisFree(calm.redis[who]);
    free(calm.late_ms);
    redisFree(redis);
    return bench_end(&bench);
}
