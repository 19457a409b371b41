// Storms: all jobs in progress stall at once, as when a node pool dies. They are given back to the workers, or ended with
// records.
//
// Before each round a client does the least that a storm needs, without any check: record, push, stamp and removal. Its scripts
// have as many jobs as take Redis SLICE_US, the default of redis.slice, as those of the sidecar do. Its rate is the most that
// this machine and its Redis allow. Another client's PING is measured in both.
//
// And reports: workers take BENCH_REPORTS (20,000) jobs a second and report each as failed, with 1,000, 20,000 or 200,000 slow
// jobs in progress. Every second job ends with a record, the others are given back. The floor is a client that answers the same
// reports by scripts without any check. The time of Redis includes the workers' own commands in both.
//
// BENCH_MILLION=1 measures only a million jobs that end.
#include "pass.h"
#include "ping.h"

#include <sqlite3.h>

enum { JOBS = 72, SLICE_US = 500, FLOOR_ENTRIES = 60000, POLL_US = 2000, STORM_POLLS_MAX = 60000 };

// KEYS: backup, ready, stamps, failures. ARGV: how many jobs.
static const char FLOOR[] =
    "local jobs = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1) if #jobs == 0 then return 0 end "
    "for i, job in ipairs(jobs) do "
    "redis.call('XADD', KEYS[4], '*', 'at', '1700000000000', 'kind', 'retried', 'dialect', 'list', 'queue', 'q0', 'job', job, "
    "'event', string.rep('0', 64), 'sha256', string.rep('1', 64), 'attempts', '1', 'size', '100', 'reason', 'stalled') "
    "redis.call('HSET', KEYS[3], i, 'stamp') end "
    "redis.call('RPUSH', KEYS[2], unpack(jobs)) "
    "for _, job in ipairs(jobs) do redis.call('LREM', KEYS[1], 1, job) end return #jobs";

typedef struct storm {
    const char *name;
    const char *label;
    int retry_times;
    const char *counts; // command whose reply is the number of jobs done
    double goal, cpu_goal;
} storm_t;

typedef struct round {
    double rate, cpu_us, p99;
} round_t;

// The scripts of the floor, of `jobs` jobs each, one after another.
static round_t floor_round(redisContext *redis, pinger_t *pinger, int entries, int jobs) {
    redis_do(redis, "FLUSHALL");
    backup_load(redis, entries);
    redisReply *sha = redis_ask(redis, "SCRIPT LOAD %s", FLOOR);
    double cpu = redis_cpu_us(redis);
    ping_begin(pinger);
    int64_t began = mono_us();
    while (redis_do(redis, "EVALSHA %s 4 q0:backup q0 stamps failures %d", sha->str, jobs) > 0) continue;
    double took = (double)(mono_us() - began);
    ping_end(pinger);
    freeReplyObject(sha);
    return (round_t){entries / took * 1e6, (redis_cpu_us(redis) - cpu) / entries, percentile(pinger->ms, pinger->count, 0.99)};
}

static round_t storm_round(const bench_t *bench, redisContext *redis, pinger_t *pinger, const storm_t *storm, int entries) {
    char queue[256];
    snprintf(queue, sizeof queue,
             "{ name = \"q0\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"3s\"; retry_times = %d; }",
             storm->retry_times);
    redis_do(redis, "FLUSHALL");
    backup_load(redis, entries);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = storm->name, .monitor = "off", .queue = queue});
    int64_t done = 0;
    for (int i = 0; i < STORM_POLLS_MAX && done == 0; i++, sleep_us(POLL_US)) done = redis_do(redis, storm->counts);
    int64_t first = done, began = mono_us();
    double cpu = redis_cpu_us(redis);
    ping_begin(pinger);
    for (int i = 0; i < STORM_POLLS_MAX && done < entries; i++, sleep_us(POLL_US)) done = redis_do(redis, storm->counts);
    double took = (double)(mono_us() - began), jobs = (double)(done - first);
    ping_end(pinger);
    if (done < entries) die("%s: %lld of %d jobs after two minutes", storm->name, (long long)done, entries);
    round_t round = {jobs / took * 1e6, (redis_cpu_us(redis) - cpu) / jobs, percentile(pinger->ms, pinger->count, 0.99)};
    sidecar_stop(pid, SIGTERM);
    return round;
}

// Jobs of a script of the floor that takes Redis SLICE_US.
static int floor_jobs(redisContext *redis, pinger_t *pinger) {
    int jobs = JOBS;
    for (int n = 0; n < 2; n++) {
        redis_do(redis, "CONFIG RESETSTAT");
        floor_round(redis, pinger, FLOOR_ENTRIES, jobs);
        jobs = (int)(jobs * SLICE_US / us_of_a_script(redis));
    }
    return jobs;
}

static void measure(bench_t *bench, redisContext *redis, pinger_t *pinger, const storm_t *storm, int entries) {
    series_t rates = {0}, cpu = {0}, pings = {0}, shares = {0};
    char label[96];
    for (int i = 0; i < bench->rounds; i++) {
        int jobs = floor_jobs(redis, pinger);
        round_t least = floor_round(redis, pinger, entries < FLOOR_ENTRIES ? FLOOR_ENTRIES : entries, jobs);
        round_t ours = storm_round(bench, redis, pinger, storm, entries);
        series_add(&rates, ours.rate);
        series_add(&cpu, ours.cpu_us);
        series_add(&pings, ours.p99 / least.p99);
        series_add(&shares, ours.rate / least.rate);
        fprintf(stderr,
                "storm: %s, round %d: %.0f jobs/s, %.1f us of Redis each, PING p99 %.2f ms; the floor, %d jobs a script: "
                "%.0f, %.1f, %.2f\n",
                storm->label, i + 1, ours.rate, ours.cpu_us, ours.p99, jobs, least.rate, least.cpu_us, least.p99);
    }
    snprintf(label, sizeof label, "%s, jobs/s", storm->label);
    table_row(bench, label, &rates, 0, '>', storm->goal);
    snprintf(label, sizeof label, "%s, share of the floor", storm->label);
    table_row(bench, label, &shares, 2, 0, 0);
    snprintf(label, sizeof label, "%s, us of Redis for a job", storm->label);
    table_row(bench, label, &cpu, 1, '<', storm->cpu_goal);
    snprintf(label, sizeof label, "%s, PING p99 as a multiple of the floor's", storm->label);
    table_row(bench, label, &pings, 2, '<', 1.3);
}

static int64_t rows_in_log(const char *path) {
    sqlite3 *db;
    sqlite3_stmt *statement;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) die("%s: %s", path, sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 10000);
    if (sqlite3_prepare_v2(db, "SELECT count(*) FROM failed_jobs", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        die("%s: %s", path, sqlite3_errmsg(db));
    int64_t rows = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return rows;
}

// How often the sidecar of this name has held a job back because the failure stream was full.
static int64_t times_held(const bench_t *bench, const char *name) {
    char path[256], line[1024];
    int64_t times = 0;
    snprintf(path, sizeof path, "%s/%s.log", bench->dir, name);
    FILE *log = fopen(path, "r");
    if (!log) die("cannot read %s", path);
    while (fgets(line, sizeof line, log)) {
        const char *full = strstr(line, "failure stream is full"), *repeated = full ? strstr(full, "\"repeated\":") : NULL;
        times += full ? 1 + (repeated ? strtol(repeated + 11, NULL, 10) : 0) : 0;
    }
    fclose(log);
    return times;
}

// A million jobs end, more than the stream has room for, with the default settings of the stream.
static void measure_million(bench_t *bench, redisContext *redis) {
    enum { MILLION = 1000000, LOOK_US = 100000, LOOKS_MAX = 6000 };
    series_t rates = {0}, missing = {0}, held = {0}, behind = {0}, memory = {0};
    for (int i = 0; i < bench->rounds; i++) {
        char name[32], path[256];
        snprintf(name, sizeof name, "storm-million-%d", i);
        snprintf(path, sizeof path, "%s/%s.db", bench->dir, name);
        redis_do(redis, "FLUSHALL");
        backup_load(redis, MILLION);
        pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = name,
                                                             .monitor = "off",
                                                             .queue = "{ name = \"q0\"; roles = [\"monitor\"]; heartbeat = "
                                                                      "\"off\"; protected_timeout = \"3s\"; retry_times = 0; }"});
        int64_t began = 0, left = MILLION, rows = 0, first = 0;
        for (int n = 0; n < LOOKS_MAX && left > 1; n++, sleep_us(LOOK_US)) { // the marker stays
            left = redis_do(redis, "LLEN q0:backup");
            if (began || left >= MILLION) continue;
            began = mono_us();
            first = left; // a slow machine has ended some by now
        }
        int64_t ended = mono_us();
        for (int n = 0; n < LOOKS_MAX && rows < MILLION; n++, sleep_us(LOOK_US)) rows = rows_in_log(path);
        series_add(&rates, (double)(first - left) / (double)(ended - began) * 1e6);
        series_add(&missing, (double)(MILLION - rows));
        series_add(&held, (double)times_held(bench, name));
        series_add(&behind, (double)(mono_us() - ended) / 1e6);
        series_add(&memory, (double)status_kib(pid, "VmHWM") / 1024);
        fprintf(stderr, "storm: a million end, round %d: %.0f jobs/s, all in the log %.1f s later, %.0f held back, %.1f MiB\n",
                i + 1, rates.values[i], behind.values[i], held.values[i], memory.values[i]);
        sidecar_stop(pid, SIGTERM);
        unlink(path);
    }
    table_row(bench, "1,000,000 jobs end with the defaults, jobs/s", &rates, 0, '>', 1000000 / 3600.0);
    table_row(bench, "of these not in the audit log", &missing, 0, '<', 0);
    table_row(bench, "times that one was held back: the stream was full", &held, 0, '<', 0);
    table_row(bench, "seconds from the last end to the last row", &behind, 1, 0, 0);
    table_row(bench, "largest resident memory, MiB", &memory, 1, '<', 32);
}

enum { REPORT_BATCH = 100, REPORT_SECONDS = 4, READ_COUNT = 1000 };

// KEYS: backup, ready, stamps, failures, errors. ARGV: how many jobs.
static const char REPORT_FLOOR[] =
    "local jobs = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1) if #jobs == 0 then return 0 end "
    "local texts = redis.call('HMGET', KEYS[5], unpack(jobs)) for i, job in ipairs(jobs) do "
    "redis.call('XADD', KEYS[4], '*', 'at', '1700000000000', 'kind', 'retried', 'dialect', 'list', 'queue', 'q0', 'job', job, "
    "'event', string.rep('0', 64), 'sha256', string.rep('1', 64), 'attempts', '1', 'size', '100', 'error', texts[i]) "
    "redis.call('HSET', KEYS[3], i, 'stamp') end "
    "redis.call('RPUSH', KEYS[2], unpack(jobs)) redis.call('HDEL', KEYS[5], unpack(jobs)) "
    "for _, job in ipairs(jobs) do redis.call('LREM', KEYS[1], 1, job) end return #jobs";

// Workers take a batch of jobs and report them. The text of a report is the time.
static void report_batch(redisContext *redis, int first) {
    static char jobs[REPORT_BATCH][JOB_BYTES + 1], texts[REPORT_BATCH][32];
    const char *pushes[2 + REPORT_BATCH] = {"LPUSH", "q0:backup"}, *reports[2 + 2 * REPORT_BATCH] = {"HSET", "q0:errors"};
    for (int i = 0; i < REPORT_BATCH; i++) {
        snprintf(jobs[i], sizeof jobs[i], "{\"id\":\"f%011d\",\"data\":\"%069d\"}", first + i, 0);
        snprintf(texts[i], sizeof texts[i], "%s%lld", i % 2 ? "!" : " ", (long long)wall_us());
        pushes[2 + i] = reports[2 + 2 * i] = jobs[i];
        reports[3 + 2 * i] = texts[i];
    }
    redisAppendCommandArgv(redis, 2 + REPORT_BATCH, pushes, NULL);
    redisAppendCommandArgv(redis, 2 + 2 * REPORT_BATCH, reports, NULL);
    for (int i = 0; i < 2; i++) freeReplyObject(redis_read(redis));
}

static round_t report_floor(redisContext *redis) {
    enum { FLOOR_REPORTS = 20000 };
    redis_do(redis, "FLUSHALL");
    scoped_reply *sha = redis_ask(redis, "SCRIPT LOAD %s", REPORT_FLOOR);
    double cpu = redis_cpu_us(redis);
    for (int i = 0; i < FLOOR_REPORTS; i += REPORT_BATCH) report_batch(redis, i);
    int64_t began = mono_us();
    while (redis_do(redis, "EVALSHA %s 5 q0:backup q0 stamps failures q0:errors %d", sha->str, JOBS) > 0) continue;
    double took = (double)(mono_us() - began);
    return (round_t){FLOOR_REPORTS / took * 1e6, (redis_cpu_us(redis) - cpu) / FLOOR_REPORTS, 0};
}

static const char *record_field(const redisReply *fields, const char *name) {
    for (size_t i = 0; i + 1 < fields->elements; i += 2)
        if (strcmp(fields->element[i]->str, name) == 0) return fields->element[i + 1]->str;
    die("a record without %s", name);
}

// The longest time in ms from a report to its record.
static double longest_wait(redisContext *redis) {
    char from[64] = "-";
    double longest = 0;
    for (size_t count = READ_COUNT; count == READ_COUNT;) {
        scoped_reply *reply = redis_ask(redis, "XRANGE sidecar:q0:failures %s + COUNT %d", from, READ_COUNT);
        count = reply->elements;
        for (size_t i = 0; i < count; i++) {
            const redisReply *fields = reply->element[i]->element[1];
            double at = strtod(record_field(fields, "at"), NULL) - strtod(record_field(fields, "error") + 1, NULL) / 1000;
            if (at > longest) longest = at;
        }
        if (count) snprintf(from, sizeof from, "(%s", reply->element[count - 1]->element[0]->str);
    }
    return longest;
}

// *wait is the longest wait of a report, in ms.
static round_t report_round(const bench_t *bench, redisContext *redis, pinger_t *pinger, int entries, int rate, double *wait) {
    int total = (rate * REPORT_SECONDS + REPORT_BATCH - 1) / REPORT_BATCH * REPORT_BATCH;
    redis_do(redis, "FLUSHALL");
    backup_load(redis, entries);
    pid_t pid = sidecar_start(bench, (sidecar_options_t){.name = "storm-reports",
                                                         .scan = "1s", // so that some scans begin in each storm
                                                         .queue = "{ name = \"q0\"; roles = [\"monitor\"]; heartbeat = \"off\"; "
                                                                  "protected_timeout = \"1h\"; }"});
    for (int i = 0; i < STORM_POLLS_MAX && redis_do(redis, "HLEN sidecar:q0:stamps") < entries; i++) sleep_us(POLL_US);
    redis_do(redis, "HSET q0:errors orphan x"); // makes two more scans: jobs of a long list end only then
    for (int i = 0; i < STORM_POLLS_MAX && redis_do(redis, "HLEN q0:errors") > 0; i++) sleep_us(POLL_US);
    double cpu = redis_cpu_us(redis);
    ping_begin(pinger);
    int64_t began = mono_us();
    for (int done = 0; done < total; done += REPORT_BATCH) {
        int64_t due = began + (int64_t)done * 1000000 / rate, now = mono_us();
        if (now < due) sleep_us(due - now);
        report_batch(redis, done);
    }
    for (int i = 0; i < STORM_POLLS_MAX && redis_do(redis, "HLEN q0:errors") > 0; i++) sleep_us(POLL_US);
    double took = (double)(mono_us() - began);
    ping_end(pinger);
    round_t round = {total / took * 1e6, (redis_cpu_us(redis) - cpu) / total, percentile(pinger->ms, pinger->count, 0.99)};
    if (redis_do(redis, "XLEN sidecar:q0:failures") != total) die("not each report has one record");
    *wait = longest_wait(redis);
    sidecar_stop(pid, SIGTERM);
    return round;
}

static void measure_reports(bench_t *bench, redisContext *redis, pinger_t *pinger) {
    static const int slow[] = {1000, 20000, 200000};
    char label[96];
    int rate = (int)env_number("BENCH_REPORTS", 20000);
    for (size_t n = 0; n < sizeof slow / sizeof *slow; n++) {
        series_t rates = {0}, waits = {0}, cpu = {0}, floors = {0}, pings = {0};
        for (int i = 0; i < bench->rounds; i++) {
            double wait;
            round_t least = report_floor(redis);
            double floor_p99 = floor_round(redis, pinger, FLOOR_ENTRIES, floor_jobs(redis, pinger)).p99;
            round_t ours = report_round(bench, redis, pinger, slow[n], rate, &wait);
            series_add(&rates, ours.rate);
            series_add(&waits, wait);
            series_add(&pings, ours.p99 / floor_p99);
            series_add(&cpu, ours.cpu_us);
            series_add(&floors, least.cpu_us);
            fprintf(stderr,
                    "storm: %d in progress, round %d: %.0f reports/s, longest wait %.0f ms, %.1f us of Redis, PING p99 %.2f ms; "
                    "the floor %.0f, %.1f us, %.2f ms\n",
                    slow[n], i + 1, ours.rate, wait, ours.cpu_us, ours.p99, least.rate, least.cpu_us, floor_p99);
        }
        snprintf(label, sizeof label, "%d in progress, reports/s of %d/s", slow[n], rate);
        table_row(bench, label, &rates, 0, '>', 0.95 * rate);
        snprintf(label, sizeof label, "%d in progress, longest wait of a report, ms", slow[n]);
        table_row(bench, label, &waits, 0, '<', 1000);
        snprintf(label, sizeof label, "%d in progress, us of Redis for a report", slow[n]);
        table_row(bench, label, &cpu, 1, 0, 0);
        table_row(bench, "the floor, us of Redis for a report", &floors, 1, 0, 0);
        snprintf(label, sizeof label, "%d in progress, PING p99 as a multiple of a bare loop's", slow[n]);
        table_row(bench, label, &pings, 2, '<', 1.3);
    }
}

int main(int argc, char **argv) {
    static const storm_t back = {"storm-back", "20,000 stalled jobs given back", 3, "LLEN q0", 40000, 25};
    static const storm_t all = {"storm-all", "1,000,000 stalled jobs given back", 3, "LLEN q0", 40000, 25};
    static const storm_t ended = {"storm-ended", "20,000 stalled jobs ended", 0, "XLEN sidecar:q0:failures", 25000, 40};
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    pinger_t pinger = ping_open(&bench);
    bool all_parts = env_number("BENCH_MILLION", 0) == 0;
    table_head("A storm: every job in progress stalls");
    if (all_parts) {
        measure(&bench, redis, &pinger, &back, 20000);
        measure(&bench, redis, &pinger, &ended, 20000);
        measure(&bench, redis, &pinger, &all, 1000000);
    }
    measure_million(&bench, redis);
    if (all_parts) {
        table_head("Workers that report failures");
        measure_reports(&bench, redis, &pinger);
    }
    redis_do(redis, "FLUSHALL");
    ping_close(&pinger);
    redisFree(redis);
    return bench_end(&bench);
}
