/* The Python workers of docs/worker-contract.md and three sidecars, while sidecars are killed, paused and ended, and workers
 * killed, at random: each job is done, or ends because it was made to fail, and then once. QS_SEED=n repeats the order of the
 * jobs and of the blows, though not what a fault meets; QS_LONG=1 is 10,000 jobs, as `make test-long` has it, else a tenth.
 *
 * A job is "KIND NUMBER"; what the handler does with it (tests/clients/python/handler.py) goes by KIND. slow: is done, after 20
 * ms; die: the first execution kills its worker; flaky: the first execution fails; poison: all fail; hopeless: fails with a text
 * that forbids a retry. The handler writes each execution into the file `runs`, and into `done` when it is done. */
#include "audit_log.h"
#include "child.h"
#include "cluster.h"
#include "native.h"
#include "tempdir.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    JOBS = 1000,
    JOBS_LONG = 10000,
    JOBS_PER_BLOW = 10,
    DELAY_MS = 1500, /* the longest, of every fourth job */
    GAP_MS = 40,     /* between two blows at least, and at most 4 times that */
    SIDECARS = 3,
    WORKERS = 3,
    RETRIES = 8, /* so many that no job ends by chance because its workers were killed */
    PROTECTED_MS = 400,
    UP_MS = 10000,
    CALM_MS = 60000, /* until all is done once the blows are over */
};

typedef enum { RUNS, PAUSED, DEAD } fate_t;

/* What became of one job. */
typedef struct {
    int runs, done, ended;
} job_t;

typedef struct {
    char *run; /* the launcher of Python's programs; owned */
    char *dir; /* where the workers work; owned */
    char url[64];
    cluster_t cluster;
    child_t *workers[WORKERS];
    fate_t fates[SIDECARS];
    int connected[SIDECARS];             /* lines "connected" in the log when it was last started */
    uint64_t random_jobs, random_blows;  /* apart, because which of them draws next is a matter of time */
    job_t *jobs;                         /* owned */
    int total, added, faults;            /* jobs, jobs so far, blows so far */
    int killed, paused, ended, murdered; /* blows of each kind; the last is of workers */
    int suicides;                        /* workers that a job killed */
    int64_t next_us;                     /* when the next fault comes */
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

/* What stands in Redis, for the reader of a failure. */
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
    free(text);
    free(clients);
}

__attribute__((format(printf, 2, 3))) static void fail(const loop_t *loop, const char *format, ...) {
    char *path = temp_path(loop->dir, "stderr"), *text = temp_read(path), why[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    fprintf(stderr, "what the workers wrote:\n%s\n", text);
    show(loop);
    free(text);
    free(path);
    cluster_fail(&loop->cluster, why);
}

static child_t *worker(const loop_t *loop) {
    char *err = temp_path(loop->dir, "stderr");
    child_t *child = child_start(&(child_spec_t){.argv = (const char *const[]){loop->run, "worker", NULL},
                                                 .env = (const char *const[]){loop->url, NULL},
                                                 .dir = loop->dir,
                                                 .err = err});
    free(err);
    return child;
}

static loop_t begin(void) {
    const char *stress = getenv("QS_LONG");
    loop_t loop = {.run = native_launcher("python"), .total = stress && stress[0] == '1' ? JOBS_LONG : JOBS};
    loop.jobs = calloc((size_t)loop.total, sizeof(*loop.jobs));
    cr_assert_not_null(loop.jobs);
    loop.random_jobs = cluster_seed("daemon_loop");
    loop.random_blows = cluster_random(&loop.random_jobs, UINT64_MAX);
    loop.dir = temp_dir("python");
    loop.cluster = cluster_begin(&(server_options_t){.tcp = true});
    snprintf(loop.url, sizeof(loop.url), "REDIS_URL=redis://127.0.0.1:%d", server_port(loop.cluster.server));
    char *queues = NULL;
    if (asprintf(&queues,
                 "{ name = \"email\"; roles = [\"dispatcher\", \"monitor\"]; heartbeat = \"off\"; protected_timeout = \"%dms\"; "
                 "retry_times = %d; retry_backoff = \"fixed\"; retry_delay = \"50ms\"; }",
                 wait_scaled_ms(PROTECTED_MS), RETRIES) < 0)
        abort();
    for (int i = 0; i < SIDECARS; i++)
        cluster_sidecar_up(&loop.cluster, (sidecar_t){.ttl = "300ms", .scan = "50ms", .queues = queues});
    free(queues);
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

/* The next jobs, some of them for later. */
static void produce(loop_t *loop) {
    for (int i = 0; i < JOBS_PER_BLOW; i++, loop->added++) {
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
    loop->fates[i] = RUNS;
}

/* Not before it has come up: until then the signal's default action ends it. */
static void terminate(loop_t *loop, uint64_t i) {
    daemon_t *d = loop->cluster.sidecars[i];
    if (!wait_for(daemon_log_count(d, "\"msg\":\"connected\"") > loop->connected[i], UP_MS))
        fail(loop, "a sidecar does not start");
    daemon_exit_t exit = daemon_terminate(d, UP_MS);
    if (exit.code != 0) fail(loop, "a sidecar ended with code %d, signal %d", exit.code, exit.signal);
    loop->fates[i] = DEAD;
    loop->ended++;
}

/* A worker is killed and replaced; a sidecar that runs is killed, paused or ended, another runs again. It draws the same numbers
 * whatever it meets. */
static void fault(loop_t *loop) {
    uint64_t gap = GAP_MS + cluster_random(&loop->random_blows, 3 * GAP_MS + 1);
    uint64_t what = cluster_random(&loop->random_blows, 4), whom = cluster_random(&loop->random_blows, SIDECARS);
    daemon_t *d = loop->cluster.sidecars[whom];
    loop->faults++;
    if (what == 3) {
        child_kill(loop->workers[whom % WORKERS]);
        child_free(loop->workers[whom % WORKERS]);
        loop->workers[whom % WORKERS] = worker(loop);
        loop->murdered++;
    } else if (loop->fates[whom] == PAUSED) {
        daemon_continue(d);
        loop->fates[whom] = RUNS;
    } else if (loop->fates[whom] == DEAD) {
        start_again(loop, whom);
    } else if (what == 2) {
        terminate(loop, whom);
    } else if (what == 1) {
        daemon_pause(d);
        loop->fates[whom] = PAUSED;
        loop->paused++;
    } else {
        daemon_kill(d);
        loop->fates[whom] = DEAD;
        loop->killed++;
    }
    loop->next_us = wait_now_us() + (int64_t)gap * 1000;
}

static void calm(loop_t *loop) {
    for (uint64_t i = 0; i < SIDECARS; i++) {
        if (loop->fates[i] == PAUSED) daemon_continue(loop->cluster.sidecars[i]);
        if (loop->fates[i] == DEAD) start_again(loop, i);
        loop->fates[i] = RUNS;
    }
}

/* A worker whose job has killed it gets a successor; nothing else may end one. */
static void replace(loop_t *loop) {
    for (int i = 0; i < WORKERS; i++) {
        child_t *gone = loop->workers[i];
        if (child_running(gone)) continue;
        if (gone->term_signal != SIGKILL)
            fail(loop, "a worker ended with code %d, signal %d", gone->exit_code, gone->term_signal);
        child_free(gone);
        loop->workers[i] = worker(loop);
        loop->suicides++;
    }
}

/* What stands in ready, delayed, backup and errors at one moment, but for one sentinel. */
static long long left(const loop_t *loop) {
    static const char script[] =
        "local left, sentinels = redis.call('LLEN', KEYS[1]) + redis.call('ZCARD', KEYS[2]) + redis.call('HLEN', KEYS[4]), 0 "
        "for _, entry in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do "
        "if string.find(entry, 'sidecar-sentinel:', 1, true) == 1 then sentinels = sentinels + 1 else left = left + 1 end end "
        "return left + math.max(sentinels - 1, 0)";
    return redis_int(loop->cluster.r, "EVAL %s 4 email email:delayed email:backup email:errors", script);
}

/* One look at all of it; true when the blows are over and nothing is left. */
static bool step(loop_t *loop) {
    replace(loop);
    if (loop->added == loop->total) return left(loop) == 0;
    if (wait_now_us() < loop->next_us) return false;
    produce(loop);
    fault(loop);
    if (loop->added == loop->total) calm(loop);
    return false;
}

/* The number of a job; fails the test where it is none of ours. */
static int number_of(const loop_t *loop, const char *job) {
    const char *blank = strchr(job, ' ');
    long number = blank ? strtol(blank, NULL, 10) : -1;
    char whole[32] = "";
    if (number >= 0 && number < loop->added) snprintf(whole, sizeof(whole), "%s %ld", kind_of((int)number), number);
    if (strcmp(job, whole) != 0) fail(loop, "there was no job %s", job);
    return (int)number;
}

/* Calls `each` for every line of a file of the handler's: a job in hex. */
static void tally(loop_t *loop, const char *file, void (*each)(job_t *job)) {
    char *path = temp_path(loop->dir, file), *text = temp_read(path), *rest = text;
    for (char *line = strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n")) {
        char job[64] = "";
        unsigned byte;
        for (size_t i = 0; i < sizeof(job) - 1 && sscanf(line + 2 * i, "%2x", &byte) == 1; i++) job[i] = (char)byte;
        each(&loop->jobs[number_of(loop, job)]);
    }
    free(text);
    free(path);
}

static void ran(job_t *job) { job->runs++; }
static void was_done(job_t *job) { job->done++; }

static const char *field(const redisReply *fields, const char *name) {
    for (size_t i = 0; i + 1 < fields->elements; i += 2)
        if (strcmp(fields->element[i]->str, name) == 0) return fields->element[i + 1]->str;
    return "";
}

/* One record of a final failure; a poison job whose last worker was killed ends without a report. */
static void judge(loop_t *loop, const redisReply *record) {
    const char *payload = field(record, "payload"), *reason = field(record, "reason"), *attempts = field(record, "attempts");
    int number = number_of(loop, payload);
    if (!is_made_to_fail(number)) fail(loop, "%s has ended (%s, attempt %s), and should not", payload, reason, attempts);
    if (loop->jobs[number].ended++) fail(loop, "%s has ended twice", payload);
    bool reported = strcmp(reason, "reported") == 0, spent = strtol(attempts, NULL, 10) == RETRIES + 1;
    bool right = strcmp(kind_of(number), "hopeless") == 0 ? reported && strcmp(field(record, "error"), "!no such address") == 0
                                                          : spent && (reported || strcmp(reason, "retries_exhausted") == 0);
    if (!right) fail(loop, "%s has ended as %s in attempt %s: %s", payload, reason, attempts, field(record, "error"));
}

/* Each job was done, or has its one record; returns how many have ended. */
static int expect_all(loop_t *loop) {
    int ended = 0;
    redisReply *records = redis_do(loop->cluster.r, "XRANGE sidecar:email:failures - +");
    for (size_t i = 0; i < records->elements; i++) {
        const redisReply *record = records->element[i]->element[1];
        if (strcmp(field(record, "kind"), "failed") == 0) judge(loop, record);
    }
    freeReplyObject(records);
    tally(loop, "runs", ran);
    tally(loop, "done", was_done);
    for (int i = 0; i < loop->total; i++) {
        const job_t *job = &loop->jobs[i];
        const char *kind = kind_of(i);
        int least = strcmp(kind, "die") == 0 || strcmp(kind, "flaky") == 0 ? 2 : 1;
        bool right = is_made_to_fail(i) ? job->ended == 1 && job->done == 0 : job->done >= 1;
        if (!right)
            fail(loop, "%s %d is lost: it ran %d times, was done %d and ended %d times", kind, i, job->runs, job->done,
                 job->ended);
        if (job->runs < least || job->runs > RETRIES + 1) fail(loop, "%s %d ran %d times", kind, i, job->runs);
        ended += job->ended;
    }
    return ended;
}

/* The log of each sidecar is a copy of the stream, with a row for each job that has ended and no other. */
static void expect_logs(loop_t *loop, int ended) {
    static const char ends[] = "SELECT count(DISTINCT payload) FROM events WHERE kind = 'failed' AND (payload LIKE 'poison %' OR "
                               "payload LIKE 'hopeless %')";
    long long records = redis_int(loop->cluster.r, "XLEN sidecar:email:failures");
    char *first = NULL;
    for (int i = 0; i < SIDECARS; i++) {
        const char *path = daemon_audit_path(loop->cluster.sidecars[i]);
        if (!wait_for(audit_log_int(path, "SELECT count(*) FROM events") >= records, UP_MS))
            fail(loop, "an audit log is not whole");
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

/* G1, G4, G6 and, where nobody asks for another life, one row for each final failure in every log. */
Test(daemon_loop, workers_and_sidecars_that_die_lose_no_job_and_end_none_early, .timeout = 700) {
    loop_t loop = begin();
    int64_t began_us = wait_now_us();
    bool over = wait_for(step(&loop), loop.total / JOBS_PER_BLOW * 5 * GAP_MS + CALM_MS);
    fprintf(stderr,
            "daemon_loop: %d jobs in %lld ms, %d blows: sidecars killed %d, paused %d, ended %d, workers killed %d; %d by their "
            "jobs\n",
            loop.added, (long long)(wait_now_us() - began_us) / 1000, loop.faults, loop.killed, loop.paused, loop.ended,
            loop.murdered, loop.suicides);
    if (!over) fail(&loop, "%lld entries are left in Redis", left(&loop));
    /* A worker that has lost its job meanwhile may still report it; that goes too. */
    for (int i = 0; i < WORKERS; i++) child_free(loop.workers[i]);
    if (!wait_for(left(&loop) == 0, UP_MS)) fail(&loop, "%lld entries are left in Redis", left(&loop));
    int ended = expect_all(&loop);
    cr_assert_eq(ended, loop.total / 50);
    expect_logs(&loop, ended);
    for (int i = 0; i < SIDECARS; i++) /* before that the signal's default action ends one */
        cr_assert(wait_for(daemon_log_count(loop.cluster.sidecars[i], "\"msg\":\"connected\"") > loop.connected[i], UP_MS));
    end(&loop);
}
