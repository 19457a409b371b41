/* The workers and producers of docs/worker-contract.md, as they are there, against the real sidecar: tests/clients/install.sh
 * takes them out of that page and finds their client libraries. A language that this machine cannot run is skipped, but in CI.
 *
 * A job is "KIND NUMBER ANYTHING". The handlers (tests/clients) write each execution into the file `runs` and each success into
 * `done`, one job a line in hex, and do what KIND says: ok; flaky: the first execution fails; poison: all fail; hopeless: fails
 * with a text that forbids a retry; hang: the first execution never ends, its worker's pid is in `hangs`; wait: until there is a
 * file `go`. */
#include "child.h"
#include "cluster.h"
#include "native.h"
#include "tempdir.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(daemon_workers, .timeout = 120);

enum {
    JOBS = 200,
    DELAYED = 40,   /* of them */
    DELAY_MS = 600, /* the longest */
    WORKERS = 2,
    RETRIES = 3,
    PROTECTED_MS = 2000, /* longer than a worker stands still with the machine */
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
    char *dir; /* where its programs work; owned */
    char url[64];
    char env[80];
    cluster_t cluster;
    child_t *workers[WORKERS];
} election_t;

/* What jobs end with: any bytes. */
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

/* How often a job stands in one of the handlers' files. */
static int times(const election_t *stand, const char *file, const job_t *job) {
    char *path = temp_path(stand->dir, file), *text = temp_read(path), hex[2 * MAX_JOB + 1] = "", *rest = text;
    int count = 0;
    for (size_t i = 0; i < job->len; i++) sprintf(hex + 2 * i, "%02x", (unsigned char)job->bytes[i]);
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) count += strcmp(line, hex) == 0;
    free(text);
    free(path);
    return count;
}

static int lines(const election_t *stand, const char *file) {
    char *path = temp_path(stand->dir, file), *text = temp_read(path);
    int count = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++) count++;
    free(text);
    free(path);
    return count;
}

static child_t *start(const election_t *stand, const char *program, const char *in) {
    char *err = temp_path(stand->dir, "stderr"), *shell = NULL;
    if (asprintf(&shell, in ? "exec \"$0\" \"$1\" <\"$2\"" : "exec \"$0\" \"$1\"") < 0) abort();
    const char *argv[] = {"sh", "-c", shell, stand->run, program, in, NULL};
    child_t *child = child_start(
        &(child_spec_t){.argv = argv, .env = (const char *const[]){stand->env, NULL}, .dir = stand->dir, .out = err, .err = err});
    free(shell);
    free(err);
    return child;
}

static void fail(const election_t *stand, const char *why) {
    char *path = temp_path(stand->dir, "stderr"), *text = temp_read(path);
    fprintf(stderr, "what the workers wrote:\n%s\n", text);
    cluster_fail(&stand->cluster, why);
}

/* A server, nothing else. */
static election_t begin(const char *language) {
    election_t stand = {.run = native_launcher(language)};
    stand.dir = temp_dir(language);
    stand.cluster = cluster_begin(&(server_options_t){.tcp = true});
    snprintf(stand.url, sizeof(stand.url), "redis://127.0.0.1:%d", server_port(stand.cluster.server));
    snprintf(stand.env, sizeof(stand.env), "REDIS_URL=%s", stand.url);
    return stand;
}

static void end(election_t *stand) {
    for (int i = 0; i < WORKERS; i++) child_free(stand->workers[i]);
    cluster_end(&stand->cluster);
    free(stand->dir);
    free(stand->run);
}

static void sidecar(election_t *stand, const char *settings) {
    char *queues = NULL;
    if (asprintf(
            &queues,
            "{ name = \"email\"; protected_timeout = \"%dms\"; retry_times = %d; roles = [\"dispatcher\", \"monitor\"]; %s }",
            wait_scaled_ms(PROTECTED_MS), RETRIES, settings) < 0)
        abort();
    cluster_sidecar_up(&stand->cluster, (sidecar_t){.queues = queues});
    free(queues);
}

/* The language's own producer adds the same bytes to ready and to delayed. */
static void produces(election_t *stand) {
    redis_t *r = stand->cluster.r;
    job_t job = make_job("ok", JOBS + 1);
    char *in = temp_path(stand->dir, "in");
    FILE *file = fopen(in, "w");
    cr_assert(file && fwrite(job.bytes, 1, job.len, file) == job.len && fclose(file) == 0);
    child_t *child = start(stand, "producer", in);
    if (!child_wait(child, UP_MS)) fail(stand, "the producer does not end");
    if (child->exit_code != 0) fail(stand, "the producer failed");
    child_free(child);
    if (redis_int(r, "LREM email 1 %b", job.bytes, job.len) != 1) fail(stand, "ready does not hold the producer's bytes");
    char *score = redis_str(r, "ZSCORE email:delayed %b", job.bytes, job.len);
    if (!score) fail(stand, "delayed does not hold the producer's bytes");
    int64_t in_ms = strtoll(score, NULL, 10) - cluster_ms(r);
    cr_expect(in_ms > 60000 - wait_scaled_ms(UP_MS) && in_ms <= 60000, "due in %lld ms, not in a minute", (long long)in_ms);
    redis_ok(r, "DEL email email:delayed");
    free(score);
    free(in);
}

/* Waits for the worker that hangs, kills it as a crash would, and starts another in its place. */
static void kill_the_hanging(election_t *stand) {
    if (!wait_for(lines(stand, "hangs") == 1, ALL_MS)) fail(stand, "no worker got the job that hangs");
    char *path = temp_path(stand->dir, "hangs"), *text = temp_read(path);
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    int killed = 0;
    for (int i = 0; i < WORKERS; i++) {
        if (stand->workers[i]->pid != pid) continue;
        child_free(stand->workers[i]);
        stand->workers[i] = start(stand, "worker", NULL);
        killed++;
    }
    if (killed != 1) fail(stand, "the launcher must become the worker by exec");
    free(text);
    free(path);
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

/* How many records of the stream are final failures. */
static int failures(redis_t *r) {
    redisReply *all = redis_do(r, "XRANGE sidecar:email:failures - +");
    int count = 0;
    for (size_t i = 0; i < all->elements; i++) count += field_is(all->element[i]->element[1], "kind", "failed");
    freeReplyObject(all);
    return count;
}

/* There is one record of the end of this job, with its bytes. */
static void ended(redis_t *r, const job_t *job, const char *error, const char *attempts) {
    redisReply *all = redis_do(r, "XRANGE sidecar:email:failures - +");
    int found = 0;
    for (size_t i = 0; i < all->elements; i++) {
        const redisReply *fields = all->element[i]->element[1];
        size_t len;
        const char *payload = value_of(fields, "payload", &len);
        if (!field_is(fields, "kind", "failed") || len != job->len || memcmp(payload, job->bytes, len) != 0) continue;
        found++;
        cr_expect(field_is(fields, "reason", "reported") && field_is(fields, "attempts", attempts),
                  "a %s job ended otherwise than by the report of execution %s", job->kind, attempts);
        cr_expect(field_is(fields, "error", error), "the error of a %s job is %s", job->kind, value_of(fields, "error", &len));
    }
    cr_expect_eq(found, 1, "%d records of the %s job", found, job->kind);
    freeReplyObject(all);
}

/* How many jobs came to the end that their kind has. */
static int count_good(election_t *stand, const job_t *jobs) {
    redis_t *r = stand->cluster.r;
    int good = 0;
    for (int i = 0; i < JOBS; i++) {
        const job_t *job = &jobs[i];
        int runs = times(stand, "runs", job), done = times(stand, "done", job);
        bool well;
        if (strcmp(job->kind, "poison") == 0) {
            well = runs == RETRIES + 1 && done == 0;
            ended(r, job, "poison, caf\xc3\xa9", "4");
        } else if (strcmp(job->kind, "hopeless") == 0) {
            well = runs == 1 && done == 0;
            ended(r, job, "!no such address", "1");
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

/* Nothing is left but the sidecar's sentinel. */
static bool drained(redis_t *r) {
    return redis_int(r, "LLEN email") == 0 && redis_int(r, "ZCARD email:delayed") == 0 &&
           redis_int(r, "HLEN email:errors") == 0 && redis_int(r, "LLEN email:backup") <= 1 && failures(r) == 2;
}

/* Workers of this language, its own producer, and jobs of every kind. */
static int served(const char *language) {
    election_t stand = begin(language);
    redis_t *r = stand.cluster.r;
    job_t jobs[JOBS];
    produces(&stand);
    sidecar(&stand, "heartbeat = \"off\";");
    for (int i = 0; i < WORKERS; i++) stand.workers[i] = start(&stand, "worker", NULL);
    int64_t now = cluster_ms(r);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = make_job(kind_of(i), i);
        if (i % (JOBS / DELAYED) == 1)
            redis_ok(r, "ZADD email:delayed %lld %b", (long long)now + i * DELAY_MS / JOBS, jobs[i].bytes, jobs[i].len);
        else
            redis_ok(r, "LPUSH email %b", jobs[i].bytes, jobs[i].len);
    }
    kill_the_hanging(&stand);
    if (!wait_for(drained(r) && lines(&stand, "done") >= JOBS - 2, ALL_MS)) fail(&stand, "not every job came to its end");
    for (int i = 0; i < WORKERS; i++)
        if (!child_running(stand.workers[i])) fail(&stand, "a worker has ended");
    int good = count_good(&stand, jobs);
    end(&stand);
    return good;
}

Test(daemon_workers, python) { cr_assert_eq(served("python"), JOBS); }
Test(daemon_workers, node) { cr_assert_eq(served("node"), JOBS); }
Test(daemon_workers, go) { cr_assert_eq(served("go"), JOBS); }
Test(daemon_workers, java) { cr_assert_eq(served("java"), JOBS); }
Test(daemon_workers, shell) { cr_assert_eq(served("shell"), JOBS); }

/* TTL of the only heartbeat; 0: there is none. */
static long long beat_ms(redis_t *r) {
    redisReply *keys = redis_do(r, "KEYS *_alive");
    long long ms = keys->elements == 1 ? redis_int(r, "PTTL %s", keys->element[0]->str) : 0;
    freeReplyObject(keys);
    return ms;
}

/* G5: a worker with a heartbeat keeps its job; after its death another worker gets the job. */
Test(daemon_workers, heartbeat) {
    election_t stand = begin("python");
    redis_t *r = stand.cluster.r;
    job_t job = make_job("wait", 1);
    sidecar(&stand, "");
    stand.workers[0] = start(&stand, "heartbeat", NULL);
    redis_ok(r, "LPUSH email %b", job.bytes, job.len);
    if (!wait_for(lines(&stand, "runs") == 1, UP_MS)) fail(&stand, "the job was not taken");
    stand.workers[1] = start(&stand, "heartbeat", NULL);
    if (!cluster_stays(lines(&stand, "runs") == 1, 4 * wait_scaled_ms(PROTECTED_MS)))
        fail(&stand, "a living worker lost its job");
    bool renewed = wait_for(beat_ms(r) < 8000, UP_MS) && wait_for(beat_ms(r) > 9000, UP_MS);
    if (!renewed || lines(&stand, "runs") != 1) fail(&stand, "the heartbeat is not renewed");
    child_kill(stand.workers[0]);
    if (!wait_for(lines(&stand, "runs") == 2, UP_MS)) fail(&stand, "the job of a dead worker was not given to another");
    char *go = temp_path(stand.dir, "go");
    temp_write(go, "");
    if (!wait_for(times(&stand, "done", &job) == 1 && redis_int(r, "LLEN email:backup") <= 1, UP_MS))
        fail(&stand, "the job was not done");
    cr_expect(wait_for(beat_ms(r) == 0, UP_MS), "a heartbeat outlives its job");
    cr_expect_eq(lines(&stand, "runs"), 2);
    free(go);
    end(&stand);
}
