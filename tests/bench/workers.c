// Workers beside scans: how long the LREM of quick jobs takes Redis while many long jobs are in progress, and how long another
// client's PING takes, without the sidecar and with it in turn. And what an idle scan writes to the append-only file.
//
// A worker's LREM searches from the head of the list, where its job was put a moment ago: a few entries without a sidecar.
#include <sys/stat.h>

#include "pass.h"
#include "ping.h"

enum {
    AT_A_TIME = 20,   // quick jobs; each takes 100 ms
    PAUSE_US = 5000,  // from one quick job to the next
    LONG_EVERY = 2,   // quick jobs for each long one that ends, if long ones end: 100 each second
    DEAD_EVERY = 100, // of the long jobs, if some stall
    SLOW_US = 500,    // the default of redis.slice
    WINDOW_US = 3000000,
    VARIANT_ENTRIES = 100000,
    HEARTBEATS_STEP = 1000,
    SCANS_OF_STALLED = 4, // until the jobs that stall at once are back
    SCAN_POLL_US = 100000,
    SCAN_POLLS_MAX = 600,
    AOF_BYTES_MAX = 64 * 1024, // of one scan
};

// The fate of the long jobs, and the sidecar's settings for the queue. With a protected timeout of 1m, "auto" is 6 s.
typedef struct workload {
    const char *name, *title;
    bool goals;
    bool some_end;
    bool some_stall;
    const char *queue;
} workload_t;

static const workload_t LONG_ONES_STAY = {
    .name = "stay", .title = "", .goals = true, .queue = "{ name = \"q0\"; heartbeat = \"off\"; protected_timeout = \"1m\"; }"};
static const workload_t LONG_ONES_END = {.name = "end",
                                         .title = ", 100/s end",
                                         .some_end = true,
                                         .queue = "{ name = \"q0\"; heartbeat = \"off\"; protected_timeout = \"1m\"; }"};
static const workload_t LONG_ONES_STALL = {
    .name = "stall",
    .title = ", 1 % stall",
    .some_stall = true,
    .queue = "{ name = \"q0\"; heartbeat = \"*_alive\"; id_path = \"/id\"; protected_timeout = \"2s\"; }"};

// The figures of one phase.
typedef struct phase {
    double lrem_us;
    double slow;
    double ping_ms;
} phase_t;

typedef struct worker {
    redisContext *redis;
    const workload_t *workload;
    int entries;
    uint64_t random; // goes on from phase to phase: a long job that ended is near the head
    atomic_bool stop;
    pthread_t thread;
} worker_t;

static void long_job(char bytes[JOB_BYTES + 1], int number) { // as backup_load makes it
    snprintf(bytes, JOB_BYTES + 1, "{\"id\":\"%012d\",\"data\":\"%069d\"}", number, 0);
}

// Takes the oldest job of q0, which may be one that the sidecar gave back.
static void take(redisContext *redis, int number, char job[JOB_BYTES + 1]) {
    redis_do(redis, "LPUSH q0 {\"id\":\"quick%07d\",\"data\":\"%069d\"}", number, 0);
    redisReply *reply = redis_ask(redis, "LMOVE q0 q0:backup RIGHT LEFT");
    if (reply->type != REDIS_REPLY_STRING || reply->len != JOB_BYTES) die("no job to take");
    memcpy(job, reply->str, JOB_BYTES + 1);
    freeReplyObject(reply);
}

static void end_long_job(redisContext *redis, int entries, uint64_t *random) {
    char job[JOB_BYTES + 1];
    long_job(job, (int)(random_bits(random) % (uint64_t)entries));
    if (redis_do(redis, "LREM q0:backup 1 %s", job)) redis_do(redis, "LPUSH q0:backup %s", job);
}

static void *worker_main(void *arg) {
    worker_t *worker = arg;
    static char jobs[AT_A_TIME][JOB_BYTES + 1];
    int taken = 0;
    for (int64_t next = mono_us(); !atomic_load(&worker->stop); next += PAUSE_US) {
        char *job = jobs[taken % AT_A_TIME];
        if (taken >= AT_A_TIME) redis_do(worker->redis, "LREM q0:backup 1 %s", job);
        take(worker->redis, taken++, job);
        if (worker->workload->some_end && taken % LONG_EVERY == 0) end_long_job(worker->redis, worker->entries, &worker->random);
        sleep_us(next + PAUSE_US - mono_us());
    }
    for (int i = 0; i < AT_A_TIME && i < taken; i++) redis_do(worker->redis, "LREM q0:backup 1 %s", jobs[i]);
    return NULL;
}

static void worker_begin(worker_t *worker) {
    redis_do(worker->redis, "CONFIG SET slowlog-log-slower-than %d slowlog-max-len 1000000", SLOW_US);
    redis_do(worker->redis, "SLOWLOG RESET");
    redis_do(worker->redis, "CONFIG RESETSTAT");
    atomic_store(&worker->stop, false);
    if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) die("no thread");
}

// Ends the worker, and reads from Redis what its LREMs took.
static phase_t worker_end(worker_t *worker) {
    phase_t phase = {0};
    atomic_store(&worker->stop, true);
    pthread_join(worker->thread, NULL);
    redisReply *info = redis_ask(worker->redis, "INFO commandstats");
    const char *stat = strstr(info->str, "cmdstat_lrem:"), *each = stat ? strstr(stat, "usec_per_call=") : NULL;
    if (!each || sscanf(each, "usec_per_call=%lf", &phase.lrem_us) != 1) die("no time of LREM");
    freeReplyObject(info);
    redisReply *slow = redis_ask(worker->redis, "SLOWLOG GET 1000000");
    for (size_t i = 0; i < slow->elements; i++) phase.slow += strcmp(slow->element[i]->element[3]->element[0]->str, "LREM") == 0;
    freeReplyObject(slow);
    redis_do(worker->redis, "CONFIG SET slowlog-log-slower-than 10000 slowlog-max-len 128");
    return phase;
}

static void heartbeats_load(redisContext *redis, int entries) {
    for (int i = 0; i < entries; i++) {
        redisAppendCommand(redis, "SET %012d_alive worker", i);
        for (int n = 0; i % HEARTBEATS_STEP == HEARTBEATS_STEP - 1 && n < HEARTBEATS_STEP; n++)
            freeReplyObject(redis_read(redis));
    }
}

// Their workers die, all at once.
static void heartbeats_stop(redisContext *redis, int entries) {
    int dead = 0;
    for (int i = 0; i < entries; i += DEAD_EVERY, dead++) redisAppendCommand(redis, "DEL %012d_alive", i);
    while (dead--) freeReplyObject(redis_read(redis));
}

static void scans_await(const bench_t *bench, pid_t pid, const char *name, int scans) {
    int64_t wanted = passes_ask(bench, pid, name, "q0").passes + scans;
    for (int i = 0; i < SCAN_POLLS_MAX; i++, sleep_us(SCAN_POLL_US))
        if (passes_ask(bench, pid, name, "q0").passes >= wanted) return;
    die("no scan ends");
}

// One phase. `scan`: the sidecar's scan_interval; NULL = without the sidecar. The first scan, which writes the stamps, comes
// before the phase.
static phase_t phase_run(const bench_t *bench, redisContext *redis, worker_t *worker, pinger_t *pinger, const char *scan) {
    const workload_t *workload = worker->workload;
    static int phases;
    char name[64];
    pid_t pid = 0;
    snprintf(name, sizeof name, "workers-%d", ++phases); // a log of its own, which passes_await_leading reads
    if (scan) {
        pid = sidecar_start(bench, (sidecar_options_t){.name = name, .scan = scan, .queue = workload->queue});
        passes_await_leading(bench, name);
        passes_await(bench, pid, name, "q0", 1, worker->entries);
    }
    worker_begin(worker);
    ping_begin(pinger);
    int64_t began = mono_us();
    if (workload->some_stall) heartbeats_stop(redis, worker->entries);
    if (scan) scans_await(bench, pid, name, workload->some_stall ? SCANS_OF_STALLED : 1);
    sleep_us(began + WINDOW_US - mono_us());
    ping_end(pinger);
    phase_t phase = worker_end(worker);
    phase.ping_ms = percentile(pinger->ms, pinger->count, 0.99);
    if (pid) sidecar_stop(pid, SIGTERM);
    return phase;
}

// Figures of all rounds of one scan_interval.
typedef struct figures {
    series_t lrem_us, lrem_ratio, slow, more_slow, ping_ms, ping_ratio;
} figures_t;

static void figures_add(figures_t *figures, const phase_t *without, const phase_t *phase) {
    series_add(&figures->lrem_us, phase->lrem_us);
    series_add(&figures->lrem_ratio, phase->lrem_us / without->lrem_us);
    series_add(&figures->slow, phase->slow);
    series_add(&figures->more_slow, phase->slow - without->slow);
    series_add(&figures->ping_ms, phase->ping_ms);
    series_add(&figures->ping_ratio, phase->ping_ms / without->ping_ms);
}

static void figures_print(bench_t *bench, figures_t *figures, const char *mode, bool sidecar, bool goals) {
    char label[80];
    snprintf(label, sizeof label, "%s: LREM, us", mode);
    table_row(bench, label, &figures->lrem_us, 2, 0, 0);
    snprintf(label, sizeof label, "%s: LREM, to that without", mode);
    if (sidecar) table_row(bench, label, &figures->lrem_ratio, 2, goals ? '<' : 0, 1.3);
    snprintf(label, sizeof label, "%s: LREMs above 0.5 ms", mode);
    table_row(bench, label, &figures->slow, 0, 0, 0);
    snprintf(label, sizeof label, "%s: LREMs above 0.5 ms, more than without", mode);
    if (sidecar) table_row(bench, label, &figures->more_slow, 0, goals ? '<' : 0, 0);
    snprintf(label, sizeof label, "%s: PING p99, ms", mode);
    table_row(bench, label, &figures->ping_ms, 3, 0, 0);
    snprintf(label, sizeof label, "%s: PING p99, to that without", mode);
    if (sidecar) table_row(bench, label, &figures->ping_ratio, 2, 0, 0);
}

static void measure(bench_t *bench, redisContext *redis, pinger_t *pinger, const workload_t *workload, int entries) {
    static const char *const MODES[] = {"without", "each 2 s", "auto, 6 s"}, *const SCANS[] = {NULL, "2s", "auto"};
    worker_t worker = {.redis = redis_open(bench), .workload = workload, .entries = entries, .random = 11};
    figures_t figures[3] = {{.slow = {.count = 0}}};
    series_t retried = {.count = 0};
    char title[80];
    int modes = workload->goals ? 3 : 2;
    for (int round = 0; round < bench->rounds; round++) {
        phase_t phases[3];
        redis_do(redis, "FLUSHALL");
        backup_load(redis, entries);
        if (workload->some_stall) heartbeats_load(redis, entries);
        for (int i = 0; i < modes; i++) {
            phases[i] = phase_run(bench, redis, &worker, pinger, SCANS[i]);
            figures_add(&figures[i], &phases[0], &phases[i]);
            fprintf(stderr, "workers: %d, %s, round %d, %s: LREM %.2f us, %.0f slow, PING p99 %.2f ms\n", entries, workload->name,
                    round + 1, MODES[i], phases[i].lrem_us, phases[i].slow, phases[i].ping_ms);
        }
        series_add(&retried, (double)redis_do(redis, "XLEN sidecar:q0:failures"));
    }
    snprintf(title, sizeof title, "%d quick jobs at a time beside %d long ones%s", AT_A_TIME, entries, workload->title);
    table_head(title);
    for (int i = 0; i < modes; i++) figures_print(bench, &figures[i], MODES[i], i > 0, workload->goals);
    if (workload->some_stall) table_row(bench, "stalled jobs given back", &retried, 0, 0, 0);
    redisFree(worker.redis);
}

// Bytes that idle scans write, on a server of its own with an append-only file. They include those of the lock's renewals.
static void measure_aof(bench_t *bench, int entries) {
    const char *program = getenv("REDIS_SERVER") ? getenv("REDIS_SERVER") : "redis-server";
    char dir[200], socket[220], log[220];
    bench_t own = *bench;
    series_t written = {.count = 0};
    snprintf(dir, sizeof dir, "%s/aof", bench->dir);
    snprintf(socket, sizeof socket, "%s/redis.sock", dir);
    snprintf(log, sizeof log, "%s/redis.log", dir);
    mkdir(dir, 0700);
    own.dir = dir;
    pid_t server = fork();
    if (server < 0) die("cannot fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp(program, program, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes",
               "--auto-aof-rewrite-percentage", "0", "--logfile", log, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 500 && access(socket, F_OK) != 0; i++) sleep_us(10000);
    redisContext *redis = redis_open(&own);
    backup_load(redis, entries);
    pid_t pid = sidecar_start(&own, (sidecar_options_t){.name = "aof", .scan = "1s", .queue = LONG_ONES_STAY.queue});
    passes_await_leading(&own, "aof");
    passes_await(&own, pid, "aof", "q0", 2, entries);
    for (int i = 0; i < bench->rounds; i++) {
        int64_t scans = passes_ask(&own, pid, "aof", "q0").passes;
        double before = redis_info(redis, "persistence", "aof_current_size:");
        scans_await(&own, pid, "aof", 3);
        double bytes = redis_info(redis, "persistence", "aof_current_size:") - before;
        series_add(&written, bytes / (double)(passes_ask(&own, pid, "aof", "q0").passes - scans));
    }
    sidecar_stop(pid, SIGTERM);
    redisFree(redis);
    sidecar_stop(server, SIGTERM);
    table_head("The append-only file, 100000 jobs in progress, nothing happens");
    table_row(bench, "written for each scan, bytes", &written, 0, '<', AOF_BYTES_MAX);
}

int main(int argc, char **argv) {
    static const int entries[] = {1000, 20000, 100000, 500000};
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    pinger_t pinger = ping_open(&bench);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) measure(&bench, redis, &pinger, &LONG_ONES_STAY, entries[i]);
    measure(&bench, redis, &pinger, &LONG_ONES_END, VARIANT_ENTRIES);
    measure(&bench, redis, &pinger, &LONG_ONES_STALL, VARIANT_ENTRIES);
    measure_aof(&bench, VARIANT_ENTRIES);
    redis_do(redis, "FLUSHALL");
    ping_close(&pinger);
    redisFree(redis);
    return bench_end(&bench);
}
