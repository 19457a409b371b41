/* The account of each job: every copy that a producer or a requeue made was removed by a worker or has a final failure, and the
 * three audit logs agree. */
#include "chaos.h"

#include "audit_log.h"

#include <sqlite3.h>
#include <stdarg.h>

enum { TOLD = 10, COPY_MS = 60000, TAKEOVER_MS = 900 + 1000, SLOW_MS = 2000, EXPIRED_MS = 30000 };
#define EVENTS "SELECT count(*) FROM events WHERE kind <> 'gap'"

/* The rows of one job in the log of the first instance. */
typedef struct {
    int failed, requeued, back; /* back: from workers that seemed to be gone */
} told_t;

void chaos_fail(chaos_t *c, const char *format, ...) {
    va_list arguments;
    char why[1000], *kept = NULL;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (asprintf(&kept, "build/chaos/%s", c->seed_text) < 0) abort();
    const char *argv[] = {"sh",
                          "-c",
                          "rm -rf \"$0\" && mkdir -p \"$0\" && cp -R \"$@\" \"$0\"",
                          kept,
                          server_dir(c->cluster.server),
                          daemon_dir(c->cluster.sidecars[0]),
                          daemon_dir(c->cluster.sidecars[1]),
                          daemon_dir(c->cluster.sidecars[2]),
                          NULL};
    child_t *copy = child_start(&(child_spec_t){.argv = argv});
    if (!child_wait(copy, COPY_MS)) fprintf(stderr, "chaos: the files could not be kept\n");
    child_free(copy);
    fprintf(stderr, "chaos: %s\nchaos: repeat it by CHAOS_SEED=%s; its files are in %s\n", why, c->seed_text, kept);
    cr_assert_fail("%s", why);
    abort();
}

static const char *log_path(const chaos_t *c, int instance) { return daemon_audit_path(c->cluster.sidecars[instance]); }

static int apart_in(const char *queue) {
    for (int q = 0; q < CHAOS_QUEUES; q++)
        if (strcmp(chaos_queues[q].name, queue) == 0) return chaos_queues[q].apart;
    return 0;
}

/* Numbers of events by job and kind; owned by the caller. */
static told_t *read_events(chaos_t *c) {
    told_t *told = calloc((size_t)c->added + 1, sizeof *told);
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    static const char sql[] = "SELECT job, kind, queue FROM events WHERE kind IN ('failed', 'requeued', 'retried')";
    if (!told || sqlite3_open_v2(log_path(c, 0), &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) abort();
    sqlite3_busy_timeout(db, 10000);
    if (sqlite3_prepare_v2(db, sql, -1, &row, NULL) != SQLITE_OK) chaos_fail(c, "audit log 0: %s", sqlite3_errmsg(db));
    while (sqlite3_step(row) == SQLITE_ROW) {
        const char *job = (const char *)sqlite3_column_text(row, 0), *id = strrchr(job, 'j');
        long number = id ? strtol(id + 1, NULL, 10) + apart_in((const char *)sqlite3_column_text(row, 2)) : -1;
        if (number < 0 || number >= c->added) chaos_fail(c, "the audit log tells of a job %s that nobody added", job);
        const char *kind = (const char *)sqlite3_column_text(row, 1);
        told[number].failed += strcmp(kind, "failed") == 0;
        told[number].requeued += strcmp(kind, "requeued") == 0;
        told[number].back += strcmp(kind, "retried") == 0;
    }
    sqlite3_finalize(row);
    sqlite3_close(db);
    return told;
}

static long long records(chaos_t *c, int queue) {
    return redis_int(c->cluster.r, "XLEN sidecar:%s:failures", chaos_queues[queue].name);
}

/* Records in all streams. `requeue --to` writes the answer to the stream of the queue that gets the job. */
static long long all_records(chaos_t *c) {
    long long all = 0;
    for (int q = 0; q < CHAOS_QUEUES; q++) all += records(c, q);
    return all;
}

static long long left(chaos_t *c, int queue) { return chaos_int(c, queue, chaos_queues[queue].left, "", "", ""); }

/* With the clock set back, failures that workers date may be missed: docs/promises.md, G6 of bull and of sidekiq. */
static bool is_missed(chaos_t *c, int number) {
    const chaos_queue_t *queue = &chaos_queues[c->jobs[number].queue];
    static const char dead[] = "for _, job in ipairs(redis.call('ZRANGE', 'sk:dead', 0, -1)) do "
                               "if cjson.decode(job).jid == 'j' .. ARGV[1] then return 1 end end return 0";
    if (!c->stepped_back) return false;
    if (queue->repeats) return redis_int(c->cluster.r, "EVAL %s 0 %d", dead, number) == 1;
    if (!queue->is_bull) return false;
    char *score = redis_str(c->cluster.r, "ZSCORE bull:%s:failed j%d", queue->name, number);
    bool missed = score != NULL;
    free(score);
    return missed;
}

/* The clock was stepped forward by so much since a worker took the job that the worker's keys have expired. */
static bool is_expired(const chaos_t *c, const chaos_job_t *job) {
    return chaos_queues[job->queue].repeats && c->forward_ms - job->forward_ms >= EXPIRED_MS;
}

static bool adds_up(chaos_t *c, int number, const told_t *told) {
    const chaos_job_t *job = &c->jobs[number];
    int made = 1 + told->requeued, ended = job->removed + told->failed;
    if (chaos_queues[job->queue].repeats && told->back > job->notes) return false;
    if (made == ended) return true;
    /* A full stream takes no record of a job that comes back. */
    if (made < ended) return chaos_queues[job->queue].repeats && (ended <= made + told->back || c->made[FULL]);
    return made == ended + 1 && (is_missed(c, number) || is_expired(c, job));
}

/* Returns the number of jobs whose copies do not add up; prints the first. */
static int count_wrong(chaos_t *c, bool print) {
    told_t *told = read_events(c);
    int wrong = 0;
    for (int i = 0; i < c->added; i++) {
        const chaos_job_t *job = &c->jobs[i];
        int made = 1 + told[i].requeued, ended = job->removed + told[i].failed;
        if (adds_up(c, i, &told[i])) continue;
        if (print && wrong < TOLD)
            fprintf(stderr,
                    "chaos: %s: job j%d of %s: added once, requeued %d times; taken %d times, came back %d times with a record, "
                    "removed by workers %d times, %d final failures\n",
                    made > ended ? "G1, lost" : "G2 or G6, a copy", i, chaos_queues[job->queue].name, told[i].requeued,
                    job->takes, told[i].back, job->removed, told[i].failed);
        wrong++;
    }
    free(told);
    return wrong;
}

bool chaos_drained(chaos_t *c) {
    for (int i = 0; i < CHAOS_WORKERS; i++)
        if (c->workers[i].job >= 0) return false;
    for (int q = 0; q < CHAOS_QUEUES; q++)
        if (left(c, q)) return false;
    for (int i = 0; i < CHAOS_SIDECARS; i++)
        if (audit_log_int(log_path(c, i), EVENTS) < all_records(c)) return false;
    return count_wrong(c, false) == 0;
}

void chaos_tell_rest(chaos_t *c) {
    for (int q = 0; q < CHAOS_QUEUES; q++)
        fprintf(stderr, "chaos: queue %s: %lld jobs left, %lld records\n", chaos_queues[q].name, left(c, q), records(c, q));
    for (int i = 0; i < CHAOS_SIDECARS; i++)
        fprintf(stderr, "chaos: audit log %d: %lld events\n", i, audit_log_int(log_path(c, i), EVENTS));
}

/* G4. Several executions of a job are explained by its lives and by retries. */
static int count_repeated(chaos_t *c) {
    told_t *told = read_events(c);
    int repeated = 0;
    for (int i = 0; i < c->added; i++) {
        const chaos_queue_t *queue = &chaos_queues[c->jobs[i].queue];
        int lives = 1 + told[i].requeued, most = lives * (1 + CHAOS_RETRIES);
        if (queue->forgets || told[i].requeued) most *= 1 + c->forgotten;
        if (!queue->counts || c->jobs[i].takes <= most) continue;
        if (repeated++ < TOLD)
            fprintf(stderr, "chaos: G4: job j%d of %s was taken %d times in %d lives, %d times are the most\n", i, queue->name,
                    c->jobs[i].takes, lives, most);
    }
    free(told);
    return repeated;
}

/* Returns the number of events that log `a` has and log `b` lacks. */
static long long count_missing(chaos_t *c, int a, int b) {
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    char *attach = sqlite3_mprintf("ATTACH %Q AS other", log_path(c, b));
    if (sqlite3_open_v2(log_path(c, a), &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) abort();
    sqlite3_busy_timeout(db, 10000);
    static const char sql[] =
        "SELECT count(*) FROM (SELECT event, kind, queue, job, at, answers, payload FROM main.events "
        "WHERE kind <> 'gap' EXCEPT SELECT event, kind, queue, job, at, answers, payload FROM other.events)";
    if (sqlite3_exec(db, attach, NULL, NULL, NULL) != SQLITE_OK || sqlite3_prepare_v2(db, sql, -1, &row, NULL) != SQLITE_OK ||
        sqlite3_step(row) != SQLITE_ROW)
        chaos_fail(c, "audit logs %d and %d: %s", a, b, sqlite3_errmsg(db));
    long long missing = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(db);
    sqlite3_free(attach);
    return missing;
}

/* G6 and G7: each record is one row of each log, and no log has more. */
static void check_logs(chaos_t *c) {
    for (int i = 0; i < CHAOS_SIDECARS; i++) {
        long long rows = audit_log_int(log_path(c, i), EVENTS), all = all_records(c);
        if (rows != all) chaos_fail(c, "G6 or G7: the streams have %lld records, and audit log %d has %lld", all, i, rows);
        long long missing = count_missing(c, i, (i + 1) % CHAOS_SIDECARS);
        if (missing) chaos_fail(c, "G7: audit log %d lacks %lld events of log %d", (i + 1) % CHAOS_SIDECARS, missing, i);
    }
}

static void check_answers(chaos_t *c) {
    long long twice =
        audit_log_int(log_path(c, 0), "SELECT count(*) FROM (SELECT 1 FROM events WHERE kind IN ('requeued', 'discarded') "
                                      "GROUP BY answers HAVING count(*) > 1)");
    if (twice) chaos_fail(c, "G8: %lld failures were answered more than once", twice);
}

/* G9, once at the end: the leader is killed while nothing else happens. */
static void check_takeover(chaos_t *c) {
    daemon_t *leader = cluster_await_leader(&c->cluster, "g", NULL, 20000);
    daemon_kill(leader);
    int64_t killed_us = wait_now_us();
    cluster_await_leader(&c->cluster, "g", leader, 20000);
    int64_t ms = (wait_now_us() - killed_us) / 1000;
    if (ms > wait_scaled_ms(TAKEOVER_MS + SLOW_MS)) chaos_fail(c, "G9: the takeover took %lld ms", (long long)ms);
}

void chaos_account(chaos_t *c) {
    int wrong = count_wrong(c, true);
    if (wrong) chaos_fail(c, "the copies of %d jobs do not add up", wrong);
    int repeated = count_repeated(c);
    if (repeated) chaos_fail(c, "G4: %d jobs ran too often", repeated);
    check_logs(c);
    check_answers(c);
    check_takeover(c);
}
