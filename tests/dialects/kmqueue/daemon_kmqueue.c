/* Dialect kmqueue with real sidecars and the real client library (tests/clients/kmqueue): workers die, fail, or hang and send
 * heartbeats; sidecars are killed; KMQueue's own monitor runs beside the sidecar. No task is lost. */
#include "audit_log.h"
#include "cluster.h"
#include "native.h"

#include <criterion/parameterized.h>
#include <signal.h>

enum { ALL_MS = 60000 };

#define BACKUP "back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ=="
#define TURNED "back_up_queue_Iv49kCN9zxHEFCEaMjP9YQ==" /* of the two queues in the other order */
#define SAFE   "worker2_queue"
#define GROUP(settings)                                                                                                          \
    "{ name = \"q\"; dialect = \"kmqueue\"; queues = [\"worker1_queue\", \"worker2_queue:safe\"]; roles = "                      \
    "[\"monitor\"]; " settings " }"

/* Waits for a condition. If the condition stays false, fails with the logs of the sidecars. */
#define await(cluster, cond)                                                                                                     \
    do {                                                                                                                         \
        if (!wait_for(cond, ALL_MS)) cluster_fail(cluster, "still false: " #cond);                                               \
    } while (0)

static const char *const POINTS[] = {"stamp_before",  "stamp_answered", "push_marker_before", "push_marker_answered",
                                     "settle_before", "settle_sent",    "settle_answered",    "settle_answered:2"};
enum { POINT_COUNT = sizeof POINTS / sizeof *POINTS };

ParameterizedTestParameters(daemon_kmqueue, kill_points) {
    static int numbers[POINT_COUNT];
    for (int i = 0; i < POINT_COUNT; i++) numbers[i] = i;
    return cr_make_param_array(int, numbers, POINT_COUNT);
}

static void take(cluster_t *s, const char *id, int retry) {
    redis_ok(s->r, "SADD " SAFE "_unique %s", id);
    redis_ok(s->r, "EVAL %s 1 " BACKUP " %s %d",
             "return redis.call('LPUSH', KEYS[1], '{\"data\":\"x\",\"id\":\"' .. ARGV[1] .. '\",\"queue\":\"worker2_queue\",'"
             " .. '\"taskStatus\":{\"excTimestamp\":1700000000000,\"genTimestamp\":1700000000000,\"retry\":' .. ARGV[2] .. "
             "',\"state\":\"normal\"},\"type\":\"t\",\"unique\":true}')",
             id, retry);
}

static cluster_t s;
SUITE_WITHIN(180, daemon_kmqueue, s = cluster_begin(&(server_options_t){.tcp = true}), cluster_end(&s));

/* The sidecar dies before and after each script. The next sidecar continues: no task is lost or settled twice. */
ParameterizedTest(int *number, daemon_kmqueue, kill_points) {
    const sidecar_t spec = {.queues = GROUP("heartbeat = \"off\"; protected_timeout = \"200ms\"; retry_times = 1;"),
                            .scan = "50ms"};
    char *config = cluster_config(&s, spec);
    char *variable = kept_printf("QS_CRASH_AT=%s", POINTS[*number]);
    take(&s, "again", 0);
    take(&s, "ends", 1);
    daemon_t *d = daemon_start_with(&(daemon_options_t){.env = (const char *const[]){variable, NULL}}, "%s", config);
    cr_assert_eq(daemon_wait_exit(d, 20000).code, 137, "%s is never reached", variable);
    daemon_free(d);
    daemon_t *next = cluster_sidecar_up(&s, spec);
    await(&s, redis_int(s.r, "LLEN " BACKUP) <= 1); /* the marker, if a scan added it before the tasks were settled */
    await(&s, redis_int(s.r, "EXISTS sidecar:q:stamps") == 0);
    cr_assert_eq(redis_int(s.r, "LLEN " SAFE), 1, "%s", variable);
    char *again = redis_str(s.r, "LINDEX " SAFE " 0");
    cr_assert(strstr(again, "\"id\":\"again\"") && strstr(again, "\"retry\":1,\"state\":\"retry\""), "%s", again);
    redis_expect(s.r, "again", "SRANDMEMBER " SAFE "_unique");
    cr_assert_eq(redis_int(s.r, "SCARD " SAFE "_unique"), 1);
    cr_assert_eq(redis_int(s.r, "XLEN sidecar:q:failures"), 2, "%s", variable);
    await(&s, audit_log_rows(daemon_audit_path(next)) == 1);
}

static const char *const WORK[] = {"work", "worker1_queue", "worker2_queue:safe", NULL};
static const char *const PRODUCE[] = {"produce", "worker1_queue", "worker2_queue:safe", NULL};

/* Returns one line for each task, as stdin of the producer; kept. */
static char *story(const char *kind, int from, int to) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    cr_assert(out);
    for (int i = from; i < to; i++)
        fprintf(out, "0 %s %d caf\xc3\xa9 \"quoted\" \\ {\"retry\":9} 12345678901234567890\n", kind, i);
    fclose(out);
    return kept(text);
}

static void produce(const native_t *native, const char *kind, int from, int to, bool unique) {
    char *in = story(kind, from, to);
    native_finish(native, PRODUCE, unique ? (const char *const[]){"QS_UNIQUE=1", NULL} : NULL, in);
}

static void end_worker(child_t *worker, bool kill) {
    child_signal(worker, kill ? SIGKILL : SIGTERM);
    cr_expect(child_wait(worker, ALL_MS) && (kill || worker->exit_code == 0), "a worker did not exit with 0");
    child_free(worker);
}

/* Returns the number of keys of this kind in output lines with this word. */
static int distinct(const native_t *native, const char *word, const char *kind) {
    native_lines_t all = native_lines(native);
    bool seen[4096] = {false};
    int found = 0;
    for (size_t i = 0; i < all.count; i++) {
        const char *dash = strrchr(all.lines[i].key, '-');
        if (strcmp(all.lines[i].word, word) != 0 || !dash || strncmp(all.lines[i].key, kind, strlen(kind)) != 0) continue;
        size_t number = strtoul(dash + 1, NULL, 10);
        if (number < sizeof seen && !seen[number]) found++;
        if (number < sizeof seen) seen[number] = true;
    }
    native_free_lines(&all);
    return found;
}

/* Whether Redis holds no task, no unique id, and at most the marker. */
static bool all_gone(void) {
    return redis_int(s.r, "LLEN worker1_queue") + redis_int(s.r, "LLEN " SAFE) + redis_int(s.r, "SCARD " SAFE "_unique") == 0 &&
           redis_int(s.r, "LLEN " BACKUP) <= 1;
}

/* A worker kills itself in the middle of a task; the next worker gets the task, although the leader is killed meanwhile. A task
 * that always fails ends, with the bytes that the worker wrote. */
Test(daemon_kmqueue, a_real_worker_that_dies_loses_no_task) {
    enum { OK = 60, DIE = 3, FLAKY = 5, POISON = 3 };
    const sidecar_t spec = {.queues = GROUP("protected_timeout = \"1s\"; retry_times = 2;"), .scan = "100ms"};
    scoped(native_end) native_t native = native_begin("kmqueue", s.server);
    /* One thread: if a second thread popped a task before the process dies, and had not pushed it to backup, the task is lost. */
    const char *const env[] = {"QS_BEAT_MS=200", "QS_THREADS=1", NULL};
    child_t *worker = native_start(&native, WORK, env, NULL);
    for (int i = 0; i < 2; i++) cluster_sidecar(&s, spec);
    produce(&native, "ok", 0, OK, true);
    produce(&native, "flaky", 0, FLAKY, true);
    produce(&native, "poison", 0, POISON, true);
    for (int i = 0; i < DIE; i++) {
        produce(&native, "die", i, i + 1, true);
        if (!child_wait(worker, ALL_MS)) native_fail(&native, "the worker does not die");
        child_free(worker);
        daemon_kill(cluster_await_leader(&s, "g", NULL, ALL_MS));
        cluster_sidecar(&s, spec);
        worker = native_start(&native, WORK, env, NULL);
    }
    await(&s, distinct(&native, "done", "ok") == OK && distinct(&native, "done", "flaky") == FLAKY &&
                  distinct(&native, "done", "die") == DIE);
    await(&s, all_gone());
    await(&s, audit_log_rows(daemon_audit_path(s.sidecars[s.count - 1])) > 0);
    cr_expect_eq(native_count(&native, "failed", "poison-0"), 3, "a task runs once, and twice by retries");
    cr_expect_eq(
        redis_int(s.r, "EVAL %s 1 sidecar:q:failures",
                  "local n = 0 for _, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do local f = {} "
                  "for i = 1, #e[2], 2 do f[e[2][i]] = e[2][i + 1] end "
                  "if f.kind == 'failed' and f.reason == 'retries_exhausted' and f.attempts == '3' and "
                  "string.find(f.job, '^poison') and cjson.decode(f.payload).taskStatus.retry == 2 then n = n + 1 end end "
                  "return n"),
        POISON);
    end_worker(worker, false);
}

/* A worker that is slower than the protected timeout keeps its task while it sends heartbeats. A killed worker loses the task,
 * and the sidecar pushes the bytes that KMQueue's own monitor would push. */
Test(daemon_kmqueue, a_real_heartbeat_keeps_a_task) {
    scoped(native_end) native_t native = native_begin("kmqueue", s.server);
    const char *const env[] = {"QS_BEAT_MS=200", NULL};
    /* Two scans are 1 s apart, so a worker that stopped together with the whole machine sends a heartbeat before the second. */
    cluster_sidecar_up(&s, (sidecar_t){.queues = GROUP("protected_timeout = \"600ms\";"), .ttl = "20s", .scan = "1s"});
    child_t *worker = native_start(&native, WORK, env, NULL);
    produce(&native, "hang", 0, 1, true);
    await(&s, native_count(&native, "hangs", "hang-0") == 1);
    await(&s, redis_int(s.r, "LLEN " BACKUP) == 2); /* the task, and the marker of a scan */
    cr_assert(cluster_stays(redis_int(s.r, "LLEN " BACKUP) == 2 && redis_int(s.r, "EXISTS sidecar:q:failures") == 0, 4500));
    char *before = redis_str(s.r, "EVAL %s 1 " BACKUP,
                             "for _, e in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do "
                             "if not string.find(e, '\"type\":\"marker\"') then return e end end");
    end_worker(worker, true);
    await(&s, redis_int(s.r, "LLEN " SAFE) == 1);
    char *after = redis_str(s.r, "LINDEX " SAFE " 0"), *at = strstr(before, "\"retry\":0,\"state\":\"normal\"}");
    cr_assert(at, "%s", before);
    size_t head = (size_t)(at - before);
    cr_assert_eq(strncmp(before, after, head), 0);
    cr_assert_eq(strncmp(after + head, "\"retry\":1,\"state\":\"retry\"}", 26), 0, "%s", after);
    cr_assert_str_eq(after + head + 26, at + 27);
    worker = native_start(&native, WORK, env, NULL);
    await(&s, native_count(&native, "finished", "hang-0") == 1);
    await(&s, all_gone());
    end_worker(worker, false);
}

/* The manager of the workers has the names of `queues` in another order, so they use another backup list. */
Test(daemon_kmqueue, status_names_the_backup_list_of_a_real_manager_with_another_order) {
    static const char *const work[] = {"work", "worker2_queue:safe", "worker1_queue", NULL};
    const sidecar_t spec = {.queues = GROUP(""), .ttl = "20s"};
    scoped(native_end) native_t native = native_begin("kmqueue", s.server);
    char *config = cluster_config_file(&s, spec);
    cluster_sidecar_up(&s, spec);
    child_t *worker = native_start(&native, work, NULL, NULL);
    await(&s, redis_int(s.r, "EXISTS " TURNED) == 1);
    produce(&native, "hang", 0, 1, true);
    await(&s, native_count(&native, "hangs", "hang-0") == 1);
    const daemon_output_t *status = daemon_run("status", "-c", config, "-o", "json");
    cr_assert_eq(status->code, 1, "%s", status->out);
    cr_assert(strstr(status->out, "the workers of its list \\\"" SAFE "\\\" use the backup list \\\"" TURNED "\\\""), "%s",
              status->out);
    end_worker(worker, true);
}

/* KMQueue's own monitor beside the sidecar: some tasks run twice, as docs/dialects/kmqueue.md says, and no task is lost. */
Test(daemon_kmqueue, both_monitors_lose_no_task) {
    enum { OK = 200, FLAKY = 30 };
    scoped(native_end) native_t native = native_begin("kmqueue", s.server);
    daemon_t *d = cluster_sidecar_up(
        &s, (sidecar_t){.queues = GROUP("protected_timeout = \"500ms\"; heartbeat = \"off\";"), .scan = "50ms"});
    child_t *workers[2];
    for (int i = 0; i < 2; i++) workers[i] = native_start(&native, WORK, (const char *const[]){"QS_THREADS=4", NULL}, NULL);
    child_t *monitor = native_start(&native, (const char *const[]){"monitor", "worker1_queue", "worker2_queue:safe", NULL},
                                    (const char *const[]){"QS_PROTECTED_MS=500", "QS_EVERY_MS=50", NULL}, NULL);
    daemon_pause(d); /* each retries some tasks while the other is stopped; then both run */
    produce(&native, "flaky", 0, FLAKY / 3, false);
    await(&s, distinct(&native, "done", "flaky") == FLAKY / 3);
    await(&s, native_count(&native, "retried", NULL) > 0); /* KMQueue's monitor prints it after the retry */
    child_signal(monitor, SIGSTOP);
    daemon_continue(d);
    produce(&native, "flaky", FLAKY / 3, FLAKY / 3 * 2, false);
    await(&s, distinct(&native, "done", "flaky") == FLAKY / 3 * 2);
    await(&s, daemon_log_count(d, "retried a job") > 0);
    child_signal(monitor, SIGCONT);
    produce(&native, "flaky", FLAKY / 3 * 2, FLAKY, false);
    produce(&native, "ok", 0, OK, false);
    await(&s, distinct(&native, "done", "ok") == OK && distinct(&native, "done", "flaky") == FLAKY);
    await(&s, all_gone());
    cr_assert_eq(audit_log_int(daemon_audit_path(d), "SELECT count(*) FROM events WHERE kind = 'failed'"), 0);
    end_worker(monitor, false);
    for (int i = 0; i < 2; i++) end_worker(workers[i], false);
}
