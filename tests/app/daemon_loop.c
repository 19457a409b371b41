/* The Python workers of docs/worker-contract.md and three sidecars. The test kills, pauses and terminates sidecars, and kills
 * workers, at random. Each job must be done, or end exactly once if its handler fails on purpose. QS_SEED=n repeats the order of
 * jobs and faults, but not their timing. QS_LONG=1 (`make test-long`): 10,000 jobs; else 1000.
 *
 * A job is "KIND NUMBER". KIND tells the handler (tests/clients/python/handler.py) what to do. slow: succeed after 20 ms; die:
 * kill the worker in the first execution; flaky: fail in the first execution; poison: fail in every execution; hopeless: fail
 * with a text that forbids a retry. The handler appends each execution to the file `runs`, and each success to `done`. */
#include "audit_log.h"
#include "child.h"
#include "cluster.h"
#include "native.h"
#include "tempdir.h"

#include <signal.h>
#include <stdarg.h>

enum {
    JOBS = 1000,
    JOBS_LONG = 10000,
    JOBS_PER_FAULT = 10,
    DELAY_MS = 1500, /* longest delay; every fourth job is delayed */
    GAP_MS = 40,     /* shortest time between two faults; the longest is 4 times that */
    SIDECARS = 3,
    WORKERS = 3,
    RETRIES = 8, /* so many that killed workers alone do not exhaust them */
    PROTECTED_MS = 400,
    UP_MS = 10000,
    CALM_MS = 60000, /* time limit for the remaining jobs after the last fault */
};

typedef enum { RUNS, PAUSED, DEAD } state_t; /* of a sidecar */

/* The numbers of times that one job was run, was done and has ended (as a final failure). */
typedef struct {
    int runs, done, ended;
} job_t;

typedef struct {
    char *run; /* path of the launcher of the Python worker; owned */
    char *dir; /* working directory of the workers; owned */
    char url[64];
    cluster_t cluster;
    child_t *workers[WORKERS];
    state_t states[SIDECARS];
    int connected[SIDECARS];                   /* number of lines "connected" when the sidecar was last started */
    uint64_t random_jobs, random_faults;       /* two generators, because timing decides which one is used next */
    job_t *jobs;                               /* owned */
    int total, added, faults;                  /* all jobs, jobs so far, faults so far */
    int killed, paused, ended, workers_killed; /* faults of each kind; the last counts workers, the others sidecars */
    int workers_crashed;                       /* workers that a job of KIND die killed */
    int64_t next_us;                           /* when the next fault comes */
} loop_t;

static const char *kind_of(int number) {
    switch (number % 100) {
    case 7:
    case 51: return "die";
    case 13:
    case 29:
    case 66:
    case 82: return "flaky";
    case 37: return "poison";
    case 74: return "hopeless";
    default: return "slow";
    }
}

static bool is_made_to_fail(int number) {
    return strcmp(kind_of(number), "poison") == 0 || strcmp(kind_of(number), "hopeless") == 0;
}

/* Prints the jobs and clients of Redis, for the reader of a failure. */
static void show(const loop_t *loop) {
    static const char script[] =
        "local t, lines = redis.call('TIME'), {} "
        "lines[1] = 'now ' .. t[1] .. string.format('%03d', math.floor(t[2] / 1000)) .. ', lock ' .. (redis.call('GET', "
        "'sidecar:g:lock') or '-') .. ', ready ' .. redis.call('LLEN', 'email') "
        "lines[2] = 'delayed: ' .. table.concat(redis.call('ZRANGE', 'email:delayed', 0, 19, 'WITHSCORES'), ' ') "
        "lines[3] = 'backup: ' .. table.concat(redis.call('LRANGE', 'email:backup', 0, 19), ', ') "
        "lines[4] = 'errors: ' .. table.concat(redis.call('HGETALL', 'email:errors'), ', ') "
        "return table.concat(lines, '\\n')";
    char *text = redis_str(loop->cluster.r, "EVAL %s 0", script), *clients = redis_str(loop->cluster.r, "CLIENT LIST");
    fprintf(stderr, "%s\n%s\n", text, clients);
}

__attribute__((format(printf, 2, 3))) static void fail(const loop_t *loop, const char *format, ...) {
    char *path = temp_path(loop->dir, "stderr"), *text = temp_read(path), why[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    fprintf(stderr, "stderr of the workers:\n%s\n", text);
    show(loop);
    cluster_fail(&loop->cluster, why);
}

static child_t *worker(const loop_t *loop) {
    char *err = temp_path(loop->dir, "stderr");
    child_t *child = child_start(&(child_spec_t){.argv = (const char *const[]){loop->run, "worker", NULL},
                                                 .env = (const char *const[]){loop->url, NULL},
                                                 .dir = loop->dir,
                                                 .err = err});
    return child;
}

static loop_t begin(void) {
    const char *stress = getenv("QS_LONG");
    loop_t loop = {.run = native_launcher("python"), .total = stress && stress[0] == '1' ? JOBS_LONG : JOBS};
    loop.jobs = calloc((size_t)loop.total, sizeof(*loop.jobs));
    cr_assert_not_null(loop.jobs);
    loop.random_jobs = cluster_seed("daemon_loop");
    loop.random_faults = cluster_random(&loop.random_jobs, UINT64_MAX);
    loop.dir = temp_dir("python");
    loop.cluster = cluster_begin(&(server_options_t){.tcp = true});
    snprintf(loop.url, sizeof(loop.url), "REDIS_URL=redis://127.0.0.1:%d", server_port(loop.cluster.server));
    char *queues = kept_printf(
        "{ name = \"email\"; roles = [\"dispatcher\", \"monitor\"]; heartbeat = \"off\"; protected_timeout = \"%dms\"; "
        "retry_times = %d; retry_backoff = \"fixed\"; retry_delay = \"50ms\"; }",
        wait_scaled_ms(PROTECTED_MS), RETRIES);
    for (int i = 0; i < SIDECARS; i++)
        cluster_sidecar_up(&loop.cluster, (sidecar_t){.ttl = "300ms", .scan = "50ms", .queues = queues});
    for (int i = 0; i < WORKERS; i++) loop.workers[i] = worker(&loop);
    loop.next_us = wait_now_us();
    return loop;
}

static void end(loop_t *loop) {
    cluster_end(&loop->cluster);
    free(loop->jobs);
    free(loop->dir);
    free(loop->run);
}

/* Adds the next jobs, some of them delayed. */
static void produce(loop_t *loop) {
    for (int i = 0; i < JOBS_PER_FAULT; i++, loop->added++) {
        char job[32];
        int delay = (int)cluster_random(&loop->random_jobs, DELAY_MS);
        snprintf(job, sizeof(job), "%s %d", kind_of(loop->added), loop->added);
        if (loop->added % 4 == 1)
            cluster_delay(loop->cluster.r, "email", job, delay);
        else
            redis_ok(loop->cluster.r, "LPUSH email %s", job);
    }
}

static void start_again(loop_t *loop, uint64_t i) {
    loop->connected[i] = daemon_log_count(loop->cluster.sidecars[i], "\"msg\":\"connected\"");
    daemon_restart(loop->cluster.sidecars[i]);
    loop->states[i] = RUNS;
}

/* Waits until the sidecar is connected: before it blocks signals, SIGTERM would end it by the default action. */
static void terminate(loop_t *loop, uint64_t i) {
    daemon_t *d = loop->cluster.sidecars[i];
    if (!wait_for(daemon_log_count(d, "\"msg\":\"connected\"") > loop->connected[i], UP_MS))
        fail(loop, "a sidecar does not start");
    daemon_exit_t exit = daemon_terminate(d, UP_MS);
    if (exit.code != 0) fail(loop, "a sidecar ended with code %d, signal %d", exit.code, exit.signal);
    loop->states[i] = DEAD;
    loop->ended++;
}

/* Kills and replaces a worker; or kills, pauses or terminates a running sidecar; or continues or restarts another one. Always
 * draws the same number of random numbers, so that a seed repeats the faults. */
static void fault(loop_t *loop) {
    uint64_t gap = GAP_MS + cluster_random(&loop->random_faults, 3 * GAP_MS + 1);
    uint64_t what = cluster_random(&loop->random_faults, 4), whom = cluster_random(&loop->random_faults, SIDECARS);
    daemon_t *d = loop->cluster.sidecars[whom];
    loop->faults++;
    if (what == 3) {
        child_kill(loop->workers[whom % WORKERS]);
        child_free(loop->workers[whom % WORKERS]);
        loop->workers[whom % WORKERS] = worker(loop);
        loop->workers_killed++;
    } else if (loop->states[whom] == PAUSED) {
        daemon_continue(d);
        loop->states[whom] = RUNS;
    } else if (loop->states[whom] == DEAD) {
        start_again(loop, whom);
    } else if (what == 2) {
        terminate(loop, whom);
    } else if (what == 1) {
        daemon_pause(d);
        loop->states[whom] = PAUSED;
        loop->paused++;
    } else {
        daemon_kill(d);
        loop->states[whom] = DEAD;
        loop->killed++;
    }
    loop->next_us = wait_now_us() + (int64_t)gap * 1000;
}

static void calm(loop_t *loop) {
    for (uint64_t i = 0; i < SIDECARS; i++) {
        if (loop->states[i] == PAUSED) daemon_continue(loop->cluster.sidecars[i]);
        if (loop->states[i] == DEAD) start_again(loop, i);
        loop->states[i] = RUNS;
    }
}

/* Replaces each worker that its job has killed. A worker must not end for another reason. */
static void replace(loop_t *loop) {
    for (int i = 0; i < WORKERS; i++) {
        child_t *gone = loop->workers[i];
        if (child_running(gone)) continue;
        if (gone->term_signal != SIGKILL)
            fail(loop, "a worker ended with code %d, signal %d", gone->exit_code, gone->term_signal);
        child_free(gone);
        loop->workers[i] = worker(loop);
        loop->workers_crashed++;
    }
}

/* The number of entries in ready, delayed, backup and errors, without one sentinel. */
static long long left(const loop_t *loop) {
    static const char script[] =
        "local left, sentinels = redis.call('LLEN', KEYS[1]) + redis.call('ZCARD', KEYS[2]) + redis.call('HLEN', KEYS[4]), 0 "
        "for _, entry in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do "
        "if string.find(entry, 'sidecar-sentinel:', 1, true) == 1 then sentinels = sentinels + 1 else left = left + 1 end end "
        "return left + math.max(sentinels - 1, 0)";
    return redis_int(loop->cluster.r, "EVAL %s 4 email email:delayed email:backup email:errors", script);
}

/* Adds jobs and makes a fault if it is time. True: all jobs were added and no job is left. */
static bool step(loop_t *loop) {
    replace(loop);
    if (loop->added == loop->total) return left(loop) == 0;
    if (wait_now_us() < loop->next_us) return false;
    produce(loop);
    fault(loop);
    if (loop->added == loop->total) calm(loop);
    return false;
}

/* The number of a job. Fails the test if the test has not added this job. */
static int number_of(const loop_t *loop, const char *job) {
    const char *blank = strchr(job, ' ');
    long number = blank ? strtol(blank, NULL, 10) : -1;
    char whole[32] = "";
    if (number >= 0 && number < loop->added) snprintf(whole, sizeof(whole), "%s %ld", kind_of((int)number), number);
    if (strcmp(job, whole) != 0) fail(loop, "job %s was never added", job);
    return (int)number;
}

/* Calls `each` for every line of a file that the handler has written: a job in hex. */
static void tally(loop_t *loop, const char *file, void (*each)(job_t *job)) {
    char *path = temp_path(loop->dir, file), *text = temp_read(path), *rest = text;
    for (char *line = strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n")) {
        char job[64] = "";
        unsigned byte;
        for (size_t i = 0; i < sizeof(job) - 1 && sscanf(line + 2 * i, "%2x", &byte) == 1; i++) job[i] = (char)byte;
        each(&loop->jobs[number_of(loop, job)]);
    }
}

static void ran(job_t *job) { job->runs++; }
static void was_done(job_t *job) { job->done++; }

static const char *field(const redisReply *fields, const char *name) {
    for (size_t i = 0; i + 1 < fields->elements; i += 2)
        if (strcmp(fields->element[i]->str, name) == 0) return fields->element[i + 1]->str;
    return "";
}

/* Checks one record of a final failure. A poison job whose last worker was killed ends without a report. */
static void judge(loop_t *loop, const redisReply *record) {
    const char *payload = field(record, "payload"), *reason = field(record, "reason"), *attempts = field(record, "attempts");
    int number = number_of(loop, payload);
    if (!is_made_to_fail(number)) fail(loop, "%s must not end, but has ended (%s, attempt %s)", payload, reason, attempts);
    if (loop->jobs[number].ended++) fail(loop, "%s has ended twice", payload);
    bool reported = strcmp(reason, "reported") == 0, spent = strtol(attempts, NULL, 10) == RETRIES + 1;
    bool right = strcmp(kind_of(number), "hopeless") == 0 ? reported && strcmp(field(record, "error"), "!no such address") == 0
                                                          : spent && (reported || strcmp(reason, "retries_exhausted") == 0);
    if (!right) fail(loop, "%s has ended as %s in attempt %s: %s", payload, reason, attempts, field(record, "error"));
}

/* Each job was done or has exactly one record. Returns how many have ended. */
static int expect_all(loop_t *loop) {
    int ended = 0;
    redisReply *records = redis_do(loop->cluster.r, "XRANGE sidecar:email:failures - +");
    for (size_t i = 0; i < records->elements; i++) {
        const redisReply *record = records->element[i]->element[1];
        if (strcmp(field(record, "kind"), "failed") == 0) judge(loop, record);
    }
    tally(loop, "runs", ran);
    tally(loop, "done", was_done);
    for (int i = 0; i < loop->total; i++) {
        const job_t *job = &loop->jobs[i];
        const char *kind = kind_of(i);
        int least = strcmp(kind, "die") == 0 || strcmp(kind, "flaky") == 0 ? 2 : 1;
        bool right = is_made_to_fail(i) ? job->ended == 1 && job->done == 0 : job->done >= 1;
        if (!right)
            fail(loop, "%s %d is lost or ended wrongly: ran %d times, done %d times, ended %d times", kind, i, job->runs,
                 job->done, job->ended);
        if (job->runs < least || job->runs > RETRIES + 1) fail(loop, "%s %d ran %d times", kind, i, job->runs);
        ended += job->ended;
    }
    return ended;
}

/* Each audit log is a copy of the stream: one row for each ended job, and no other row for a failure. */
static void expect_logs(loop_t *loop, int ended) {
    static const char ends[] = "SELECT count(DISTINCT payload) FROM events WHERE kind = 'failed' AND (payload LIKE 'poison %' OR "
                               "payload LIKE 'hopeless %')";
    long long records = redis_int(loop->cluster.r, "XLEN sidecar:email:failures");
    char *first = NULL;
    for (int i = 0; i < SIDECARS; i++) {
        const char *path = daemon_audit_path(loop->cluster.sidecars[i]);
        if (!wait_for(audit_log_int(path, "SELECT count(*) FROM events") >= records, UP_MS))
            fail(loop, "an audit log lacks records");
        cr_assert_eq(audit_log_int(path, "SELECT count(*) FROM events"), records);
        cr_assert_eq(audit_log_int(path, "SELECT count(*) FROM events WHERE kind = 'gap'"), 0);
        cr_assert_eq(audit_log_rows(path), ended);
        cr_assert_eq(audit_log_int(path, ends), ended);
        char *text = audit_log_text(path);
        if (first) cr_assert_str_eq(text, first, "two audit logs differ");
        free(first);
        first = text;
    }
    free(first);
}

/* G1, G4, G6, and G7 without gaps. */
Test(daemon_loop, workers_and_sidecars_that_die_lose_no_job_and_end_none_early, .timeout = 700) {
    scoped(end) loop_t loop = begin();
    int64_t began_us = wait_now_us();
    bool over = wait_for(step(&loop), loop.total / JOBS_PER_FAULT * 5 * GAP_MS + CALM_MS);
    fprintf(stderr,
            "daemon_loop: %d jobs in %lld ms, %d faults: sidecars killed %d, paused %d, terminated %d; workers killed %d, and %d "
            "by their jobs\n",
            loop.added, (long long)(wait_now_us() - began_us) / 1000, loop.faults, loop.killed, loop.paused, loop.ended,
            loop.workers_killed, loop.workers_crashed);
    if (!over) fail(&loop, "%lld entries are left in Redis", left(&loop));
    /* A worker that has lost its job meanwhile may still report a failure; the monitor removes this orphan report. */
    for (int i = 0; i < WORKERS; i++) child_free(loop.workers[i]);
    if (!wait_for(left(&loop) == 0, UP_MS)) fail(&loop, "%lld entries are left in Redis", left(&loop));
    int ended = expect_all(&loop);
    cr_assert_eq(ended, loop.total / 50);
    expect_logs(&loop, ended);
    for (int i = 0; i < SIDECARS; i++) /* before it blocks signals, SIGTERM would end a sidecar by the default action */
        cr_assert(wait_for(daemon_log_count(loop.cluster.sidecars[i], "\"msg\":\"connected\"") > loop.connected[i], UP_MS));
}
