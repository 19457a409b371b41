/* The unchanged workers and producers of docs/worker-contract.md against the real sidecar. tests/clients/install.sh extracts them
 * from that page and finds their client libraries. If this machine cannot run a language, its test is skipped; in CI it fails.
 *
 * A job is "KIND NUMBER ANYTHING". The handlers (tests/clients) write each execution to the file `runs` and each success to
 * `done`, one job a line in hex. Kinds: ok: succeeds; flaky: the first execution fails; poison: all executions fail; hopeless:
 * fails with a text that forbids a retry; hang: the first execution never ends, and writes its worker's pid to `hangs`; wait:
 * runs until the file `go` exists. */
#include "child.h"
#include "cluster.h"
#include "native.h"
#include "tempdir.h"

#include <signal.h>

TestSuite(daemon_workers, .timeout = 120);

enum {
    JOBS = 200,
    DELAYED = 40,   /* of the JOBS */
    DELAY_MS = 600, /* the longest delay */
    WORKERS = 2,
    RETRIES = 3,
    PROTECTED_MS = 2000, /* longer than a slow machine may stop a worker */
    MAX_JOB = 160,
    ALL_MS = 30000,
    UP_MS = 30000,
};

typedef struct {
    char bytes[MAX_JOB];
    size_t len;
    const char *kind;
} job_t;

typedef struct {
    char *run; /* the launcher of the language; owned */
    char *dir; /* working directory of the language's programs; owned */
    char url[64];
    char env[80];
    cluster_t cluster;
    child_t *workers[WORKERS];
} setup_t;

/* The ANYTHING of jobs. */
static const struct {
    const char *bytes;
    size_t len;
} tails[] = {
#define T(text)                                                                                                                  \
    { text, sizeof(text) - 1 }
    T("{\"to\": \"ann@example.org\"}"),
    T("\0NUL\0\0inside and at the end\0"),
    T("\xff\xfe\x80 broken \xc3( UTF-8 \xed\xa0\x80"),
    T("newlines\n\r\n at the end\n\n"),
    T("$HOME `id` \"quoted\" 'too' \\n %s \\x41 *"),
    T("\x01\x02\x1b\x7f\x81\x82\x88"),
    T(""),
#undef T
};

static job_t make_job(const char *kind, int number) {
    job_t job = {.kind = kind};
    size_t tail = (size_t)number % (sizeof(tails) / sizeof(*tails));
    job.len = (size_t)snprintf(job.bytes, sizeof(job.bytes), "%s %d ", kind, number);
    memcpy(job.bytes + job.len, tails[tail].bytes, tails[tail].len);
    job.len += tails[tail].len;
    return job;
}

static const char *kind_of(int number) {
    switch (number) {
    case 8: return "poison";    /* with NULs */
    case 16: return "hopeless"; /* with broken UTF-8 */
    case 23: return "hang";
    default: return number % 17 == 5 ? "flaky" : "ok";
    }
}

/* Returns how often one of the handlers' files has a job. */
static int times(const setup_t *setup, const char *file, const job_t *job) {
    char *path = temp_path(setup->dir, file), *text = temp_read(path), hex[2 * MAX_JOB + 1] = "", *rest = text;
    int count = 0;
    for (size_t i = 0; i < job->len; i++) sprintf(hex + 2 * i, "%02x", (unsigned char)job->bytes[i]);
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) count += strcmp(line, hex) == 0;
    return count;
}

static int lines(const setup_t *setup, const char *file) {
    char *path = temp_path(setup->dir, file), *text = temp_read(path);
    int count = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++) count++;
    return count;
}

/* `program` may have arguments. */
static child_t *start(const setup_t *setup, const char *program, const char *in) {
    char *err = temp_path(setup->dir, "stderr");
    char *shell = kept_printf(in ? "exec \"$0\" $1 <\"$2\"" : "exec \"$0\" $1");
    const char *argv[] = {"sh", "-c", shell, setup->run, program, in, NULL};
    child_t *child = child_start(
        &(child_spec_t){.argv = argv, .env = (const char *const[]){setup->env, NULL}, .dir = setup->dir, .out = err, .err = err});
    return child;
}

static void fail(const setup_t *setup, const char *why) {
    char *path = temp_path(setup->dir, "stderr"), *text = temp_read(path);
    fprintf(stderr, "stderr of the workers:\n%s\n", text);
    cluster_fail(&setup->cluster, why);
}

/* Starts a server, without a sidecar or workers. */
static setup_t begin(const char *language) {
    setup_t setup = {.run = native_launcher(language)};
    setup.dir = temp_dir(language);
    setup.cluster = cluster_begin(&(server_options_t){.tcp = true});
    snprintf(setup.url, sizeof(setup.url), "redis://127.0.0.1:%d", server_port(setup.cluster.server));
    snprintf(setup.env, sizeof(setup.env), "REDIS_URL=%s", setup.url);
    return setup;
}

static void end(setup_t *setup) {
    for (int i = 0; i < WORKERS; i++) child_free(setup->workers[i]);
    cluster_end(&setup->cluster);
    free(setup->dir);
    free(setup->run);
}

static void sidecar(setup_t *setup, const char *settings) {
    char *queues = kept_printf(
        "{ name = \"email\"; protected_timeout = \"%dms\"; retry_times = %d; roles = [\"dispatcher\", \"monitor\"]; %s }",
        wait_scaled_ms(PROTECTED_MS), RETRIES, settings);
    cluster_sidecar_up(&setup->cluster, (sidecar_t){.queues = queues});
}

/* Checks that the language's producer adds the same bytes to ready and to delayed. */
static void check_producer(setup_t *setup) {
    redis_t *r = setup->cluster.r;
    job_t job = make_job("ok", JOBS + 1);
    char *in = temp_path(setup->dir, "in");
    FILE *file = fopen(in, "w");
    cr_assert(file && fwrite(job.bytes, 1, job.len, file) == job.len && fclose(file) == 0);
    child_t *child = start(setup, "producer", in);
    if (!child_wait(child, UP_MS)) fail(setup, "the producer does not end");
    if (child->exit_code != 0) fail(setup, "the producer failed");
    child_free(child);
    if (redis_int(r, "LREM email 1 %b", job.bytes, job.len) != 1) fail(setup, "ready does not hold the producer's bytes");
    char *score = redis_str(r, "ZSCORE email:delayed %b", job.bytes, job.len);
    if (!score) fail(setup, "delayed does not hold the producer's bytes");
    int64_t in_ms = strtoll(score, NULL, 10) - redis_ms(r);
    cr_expect(in_ms > 60000 - wait_scaled_ms(UP_MS) && in_ms <= 60000, "due in %lld ms, not in a minute", (long long)in_ms);
    redis_ok(r, "DEL email email:delayed");
}

/* Waits for the worker that hangs, kills it, and starts another worker in its place. */
static void replace_hanging_worker(setup_t *setup) {
    if (!wait_for(lines(setup, "hangs") == 1, ALL_MS)) fail(setup, "no worker got the job that hangs");
    char *path = temp_path(setup->dir, "hangs"), *text = temp_read(path);
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    int killed = 0;
    for (int i = 0; i < WORKERS; i++) {
        if (setup->workers[i]->pid != pid) continue;
        child_free(setup->workers[i]);
        setup->workers[i] = start(setup, "worker", NULL);
        killed++;
    }
    if (killed != 1) fail(setup, "the launcher must become the worker by exec");
}

static const char *value_of(const redisReply *fields, const char *name, size_t *len) {
    for (size_t i = 0; i + 1 < fields->elements; i += 2)
        if (strcmp(fields->element[i]->str, name) == 0) {
            *len = fields->element[i + 1]->len;
            return fields->element[i + 1]->str;
        }
    *len = 0;
    return "";
}

static bool field_is(const redisReply *fields, const char *name, const char *expected) {
    size_t len;
    return strcmp(value_of(fields, name, &len), expected) == 0;
}

/* Returns the number of final failures in the stream. */
static int failures(redis_t *r) {
    redisReply *all = redis_do(r, "XRANGE sidecar:email:failures - +");
    int count = 0;
    for (size_t i = 0; i < all->elements; i++) count += field_is(all->element[i]->element[1], "kind", "failed");
    return count;
}

/* Checks that the stream has one final failure with this job's bytes. */
static void expect_ended(redis_t *r, const job_t *job, const char *error, const char *attempts) {
    redisReply *all = redis_do(r, "XRANGE sidecar:email:failures - +");
    int found = 0;
    for (size_t i = 0; i < all->elements; i++) {
        const redisReply *fields = all->element[i]->element[1];
        size_t len;
        const char *payload = value_of(fields, "payload", &len);
        if (!field_is(fields, "kind", "failed") || len != job->len || memcmp(payload, job->bytes, len) != 0) continue;
        found++;
        cr_expect(field_is(fields, "reason", "reported") && field_is(fields, "attempts", attempts),
                  "the %s job did not end by the report of execution %s", job->kind, attempts);
        cr_expect(field_is(fields, "error", error), "the error of a %s job is %s", job->kind, value_of(fields, "error", &len));
    }
    cr_expect_eq(found, 1, "%d records of the %s job", found, job->kind);
}

/* Returns the number of jobs that ran and ended as their kind demands. */
static int count_good(setup_t *setup, const job_t *jobs) {
    redis_t *r = setup->cluster.r;
    int good = 0;
    for (int i = 0; i < JOBS; i++) {
        const job_t *job = &jobs[i];
        int runs = times(setup, "runs", job), done = times(setup, "done", job);
        bool well;
        if (strcmp(job->kind, "poison") == 0) {
            well = runs == RETRIES + 1 && done == 0;
            expect_ended(r, job, "poison, caf\xc3\xa9", "4");
        } else if (strcmp(job->kind, "hopeless") == 0) {
            well = runs == 1 && done == 0;
            expect_ended(r, job, "!no such address", "1");
        } else {
            int least = strcmp(job->kind, "ok") == 0 ? 1 : 2;
            well = runs >= least && runs <= RETRIES + 1 && done >= 1;
        }
        cr_expect(well, "job %d (%s) ran %d times, and succeeded %d times", i, job->kind, runs, done);
        good += well;
    }
    cr_expect_eq(failures(r), 2);
    return good;
}

/* Whether the queue holds no job, only the sidecar's sentinel. */
static bool drained(redis_t *r) {
    return redis_int(r, "LLEN email") == 0 && redis_int(r, "ZCARD email:delayed") == 0 &&
           redis_int(r, "HLEN email:errors") == 0 && redis_int(r, "LLEN email:backup") <= 1 && failures(r) == 2;
}

/* Runs this language's producer and workers on jobs of every kind. Returns the number of correct jobs. */
static int count_served(const char *language) {
    scoped(end) setup_t setup = begin(language);
    redis_t *r = setup.cluster.r;
    job_t jobs[JOBS];
    check_producer(&setup);
    sidecar(&setup, "heartbeat = \"off\";");
    for (int i = 0; i < WORKERS; i++) setup.workers[i] = start(&setup, "worker", NULL);
    int64_t now = redis_ms(r);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = make_job(kind_of(i), i);
        if (i % (JOBS / DELAYED) == 1)
            redis_ok(r, "ZADD email:delayed %lld %b", (long long)now + i * DELAY_MS / JOBS, jobs[i].bytes, jobs[i].len);
        else
            redis_ok(r, "LPUSH email %b", jobs[i].bytes, jobs[i].len);
    }
    replace_hanging_worker(&setup);
    if (!wait_for(drained(r) && lines(&setup, "done") >= JOBS - 2, ALL_MS)) fail(&setup, "some job has not ended");
    for (int i = 0; i < WORKERS; i++)
        if (!child_running(setup.workers[i])) fail(&setup, "a worker has ended");
    return count_good(&setup, jobs);
}

Test(daemon_workers, python) { cr_assert_eq(count_served("python"), JOBS); }
Test(daemon_workers, node) { cr_assert_eq(count_served("node"), JOBS); }
Test(daemon_workers, go) { cr_assert_eq(count_served("go"), JOBS); }
Test(daemon_workers, java) { cr_assert_eq(count_served("java"), JOBS); }
Test(daemon_workers, shell) {
    int good = count_served("shell");
    cr_assert_eq(good, JOBS, "%d of %d jobs were served well", good, JOBS);
}

/* Returns the TTL of the only heartbeat; 0 = no heartbeat. */
static long long beat_ms(redis_t *r) {
    redisReply *keys = redis_do(r, "KEYS email:*_alive");
    return keys->elements == 1 ? redis_int(r, "PTTL %s", keys->element[0]->str) : 0;
}

/* G5: a worker with a heartbeat keeps its job; after its death another worker gets the job. */
Test(daemon_workers, heartbeat) {
    scoped(end) setup_t setup = begin("python");
    redis_t *r = setup.cluster.r;
    job_t job = make_job("wait", 1);
    sidecar(&setup, "heartbeat = \"email:*_alive\";");
    setup.workers[0] = start(&setup, "heartbeat", NULL);
    redis_ok(r, "LPUSH email %b", job.bytes, job.len);
    if (!wait_for(lines(&setup, "runs") == 1, UP_MS)) fail(&setup, "the job was not taken");
    setup.workers[1] = start(&setup, "heartbeat", NULL);
    if (!cluster_stays(lines(&setup, "runs") == 1, 4 * wait_scaled_ms(PROTECTED_MS)))
        fail(&setup, "a living worker lost its job");
    bool renewed = wait_for(beat_ms(r) < 8000, UP_MS) && wait_for(beat_ms(r) > 9000, UP_MS);
    if (!renewed || lines(&setup, "runs") != 1) fail(&setup, "the heartbeat is not renewed");
    child_kill(setup.workers[0]);
    if (!wait_for(lines(&setup, "runs") == 2, UP_MS)) fail(&setup, "the job of a dead worker was not given to another");
    char *go = temp_path(setup.dir, "go");
    temp_write(go, "");
    if (!wait_for(times(&setup, "done", &job) == 1 && redis_int(r, "LLEN email:backup") <= 1, UP_MS))
        fail(&setup, "the job was not done");
    cr_expect(wait_for(beat_ms(r) == 0, UP_MS), "a heartbeat outlives its job");
    cr_expect_eq(lines(&setup, "runs"), 2);
}

static void push(redis_t *r, const job_t *job) { redis_ok(r, "LPUSH email %b", job->bytes, job->len); }

/* Starts a worker and waits until it waits for a job. */
static child_t *start_idle(setup_t *setup) {
    child_t *worker = setup->workers[0] = start(setup, "worker", NULL);
    if (!wait_for(server_info_int(setup->cluster.server, "clients", "blocked_clients") == 1, UP_MS))
        fail(setup, "the worker does not wait for a job");
    return worker;
}

static void expect_end(const setup_t *setup, child_t *worker) {
    if (!child_wait(worker, ALL_MS)) fail(setup, "the worker does not end");
    if (worker->exit_code != 0) fail(setup, "the worker did not exit with 0");
}

/* SIGTERM while a job runs. */
static void expect_job_finished(const char *language) {
    scoped(end) setup_t setup = begin(language);
    redis_t *r = setup.cluster.r;
    job_t job = make_job("wait", 1), next = make_job("ok", 2);
    child_t *worker = start_idle(&setup);
    push(r, &job);
    if (!wait_for(lines(&setup, "runs") == 1, UP_MS)) fail(&setup, "the job was not taken");
    push(r, &next);
    child_signal(worker, SIGTERM);
    if (!cluster_stays(child_running(worker), wait_scaled_ms(500))) fail(&setup, "the worker did not finish its job");
    temp_write(temp_path(setup.dir, "go"), "");
    expect_end(&setup, worker);
    cr_expect_eq(times(&setup, "done", &job), 1);
    cr_expect_eq(redis_int(r, "LLEN email:backup"), 0);
    cr_expect(lines(&setup, "runs") == 1 && redis_int(r, "LLEN email") == 1, "the worker took another job");
}

/* The same process works on after an outage; SIGTERM ends it with and without Redis. */
static void expect_redis_awaited(const char *language) {
    scoped(end) setup_t setup = begin(language);
    job_t job = make_job("ok", 1);
    child_t *worker = start_idle(&setup);
    server_kill(setup.cluster.server);
    if (!wait_for(strcasestr(temp_read(temp_path(setup.dir, "stderr")), "redis"), ALL_MS))
        fail(&setup, "the worker says nothing");
    server_restart(setup.cluster.server, SERVER_LOSE_DATA);
    scoped(redis_drop) redis_t *r = redis_open(setup.cluster.server);
    push(r, &job);
    if (!wait_for(times(&setup, "done", &job) == 1, ALL_MS)) fail(&setup, "the worker does not work on");
    child_signal(worker, SIGTERM);
    expect_end(&setup, worker);
    child_free(worker);
    worker = start_idle(&setup);
    server_kill(setup.cluster.server);
    child_signal(worker, SIGTERM);
    expect_end(&setup, worker);
}

Test(daemon_workers, python_finishes_its_job_at_sigterm) { expect_job_finished("python"); }
Test(daemon_workers, node_finishes_its_job_at_sigterm) { expect_job_finished("node"); }
Test(daemon_workers, go_finishes_its_job_at_sigterm) { expect_job_finished("go"); }
Test(daemon_workers, java_finishes_its_job_at_sigterm) { expect_job_finished("java"); }
Test(daemon_workers, shell_finishes_its_job_at_sigterm) { expect_job_finished("shell"); }

Test(daemon_workers, python_waits_for_redis) { expect_redis_awaited("python"); }
Test(daemon_workers, node_waits_for_redis) { expect_redis_awaited("node"); }
Test(daemon_workers, go_waits_for_redis) { expect_redis_awaited("go"); }
Test(daemon_workers, java_waits_for_redis) { expect_redis_awaited("java"); }
Test(daemon_workers, shell_waits_for_redis) { expect_redis_awaited("shell"); }

/* The CronJob's command is given to the documented worker, which must know its arguments. */
Test(daemon_workers, worker_of_the_cron_job_ends_when_ready_is_empty) {
    static const char COMMAND[] = "command: [python, worker.py, ";
    scoped(end) setup_t setup = begin("python");
    char *yaml = temp_read("deploy/examples/python-deployment/base/cronjob.yaml"), *arguments = strstr(yaml, COMMAND);
    cr_assert(arguments);
    arguments = kept_printf("worker %.*s", (int)strcspn(arguments + strlen(COMMAND), "]"), arguments + strlen(COMMAND));
    job_t job = make_job("ok", 1);
    push(setup.cluster.r, &job);
    setup.workers[0] = start(&setup, arguments, NULL);
    expect_end(&setup, setup.workers[0]);
    cr_expect_eq(times(&setup, "done", &job), 1);
}
