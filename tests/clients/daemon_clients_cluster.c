/* Workers in a Redis Cluster, in Python and Node with the Cluster clients of their libraries, beside two sidecars. Slots move and
 * a replica takes over meanwhile. Each job must be done, or end as a failure if its handler always fails; it must keep the bytes
 * of its producer.
 *
 * QS_LONG=1: 3,000 jobs instead of 600. */
#include "audit_log.h"
#include "daemon.h"
#include "native.h"
#include "redis_cluster.h"
#include "suite.h"
#include "tempdir.h"
#include "wait.h"

#include <signal.h>

TestSuite(daemon_clients_cluster, .timeout = 240);

enum { QUEUES = 3, SIDECARS = 2, WORKERS = 2, ROUNDS = 3, JOBS = 600, JOBS_LONG = 3000, TIMEOUT_MS = 3000, ALL_MS = 90000 };

typedef struct {
    nodes_t nodes;
    native_t native;
    daemon_t *sidecars[SIDECARS];
    child_t *workers[WORKERS];
    int count; /* jobs */
} story_t;

static const char *kind_of(int number) {
    if (number % 50 == 7) return "poison";
    if (number % 20 == 3) return "flaky";
    return number % 7 ? "ok" : "slow";
}

static child_t *run(const story_t *s, const char *program, const char *in) {
    return native_start(&s->native, (const char *const[]){program, "{q0}", "{q1}", "{q2}", NULL}, NULL, in);
}

static daemon_t *start_sidecar(const story_t *s) {
    char *seeds = nodes_seeds(&s->nodes), *queues = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&queues, &size);
    for (int i = 0; i < QUEUES; i++)
        fprintf(out, "%s{ name = \"{q%d}\"; id_path = \"/id\"; protected_timeout = \"%dms\"; retry_times = 5; }", i ? ", " : "",
                i, wait_scaled_ms(TIMEOUT_MS));
    fclose(out);
    daemon_t *d = daemon_start("group = \"g\";\nredis = { nodes = [%s]; };\nlock = { ttl = \"1s\"; };\nhttp = { port = 0; };\n"
                               "log = { format = \"json\"; };\nmonitor = { scan_interval = \"100ms\"; };\n"
                               "defaults = { heartbeat = \"off\"; };\nqueues = ( %s );\n",
                               seeds, queues);
    free(queues);
    return d;
}

static void begin(story_t *s, const char *client) {
    const char *stress = getenv("QS_LONG");
    free(native_launcher(client)); /* skips before the servers start */
    *s = (story_t){.nodes = nodes_start(3, 1), .count = stress && stress[0] == '1' ? JOBS_LONG : JOBS};
    s->native = native_begin(client, s->nodes.servers[0]);
    for (int i = 0; i < SIDECARS; i++) s->sidecars[i] = start_sidecar(s);
    for (int i = 0; i < WORKERS; i++) s->workers[i] = run(s, "work", NULL);
    if (!wait_for(native_count(&s->native, "ready", NULL) == WORKERS, ALL_MS)) native_fail(&s->native, "a worker does not start");
}

static void end(story_t *s) {
    for (int i = 0; i < WORKERS; i++) {
        child_signal(s->workers[i], SIGTERM);
        cr_expect(child_wait(s->workers[i], ALL_MS) && s->workers[i]->exit_code == 0, "a worker ended badly");
        child_free(s->workers[i]);
    }
    native_end(&s->native);
    for (int i = 0; i < SIDECARS; i++) daemon_stop(s->sidecars[i]);
    nodes_free(&s->nodes);
}

static __attribute__((noreturn)) void fail(const story_t *s, const char *why) {
    for (int i = 0; i < SIDECARS; i++) {
        char *log = daemon_log(s->sidecars[i]);
        fprintf(stderr, "%s", log);
    }
    native_fail(&s->native, why);
    abort();
}

/* The input of the producer for a round. Kept. */
static char *lines_of(const story_t *s, int round) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (int i = s->count * round / ROUNDS; i < s->count * (round + 1) / ROUNDS; i++)
        fprintf(out, "%d %s %d caf\xc3\xa9 \"quoted\"\n", i % 5 ? 0 : 1000, kind_of(i), i);
    fclose(out);
    return kept(text);
}

static void move_slot(story_t *s, const char *queue) {
    unsigned slot = nodes_slot(&s->nodes, queue);
    size_t from = nodes_owner(&s->nodes, slot), to = from;
    for (unsigned other = 0; to == from; other += 100) to = nodes_owner(&s->nodes, other);
    nodes_move(&s->nodes, slot, to);
}

/* Produces the jobs of a round while a slot moves, or while a replica takes over. */
static void round_of(story_t *s, int round) {
    char *in = lines_of(s, round);
    int before = native_count(&s->native, "taken", NULL);
    scoped(child_drop) child_t *producer = run(s, "produce", in);
    if (!wait_for(native_count(&s->native, "taken", NULL) > before + s->count / ROUNDS / 5, ALL_MS)) fail(s, "no job comes");
    if (round == 1)
        nodes_fail_over(&s->nodes, nodes_slot(&s->nodes, "{q1}"));
    else
        move_slot(s, round ? "{q2}" : "{q0}");
    if (!child_wait(producer, ALL_MS) || producer->exit_code != 0) fail(s, "the producer failed");
}

typedef struct {
    const char *hex; /* of the producer; borrowed from the lines */
    int taken, done;
} fate_t;

/* The number of jobs that succeed and are done. */
static int count_done(const story_t *s, fate_t *fates, const native_lines_t *all) {
    int done = 0;
    for (size_t i = 0; i < all->count; i++) {
        const native_line_t *line = &all->lines[i];
        const char *dash = strchr(line->key, '-');
        if (!dash || !dash[1]) continue;
        long number = strtol(dash + 1, NULL, 10);
        cr_assert(number >= 0 && number < s->count);
        fate_t *fate = &fates[number];
        if (strcmp(line->word, "produced") == 0) fate->hex = line->detail;
        if (strcmp(line->word, "taken") == 0) fate->taken++;
        if (strcmp(line->word, "done") == 0) done += fate->done++ == 0;
    }
    return done;
}

static bool all_done(const story_t *s, int wanted) {
    native_lines_t all = native_lines(&s->native);
    fate_t *fates = kept(calloc((size_t)s->count, sizeof(*fates)));
    bool done = count_done(s, fates, &all) == wanted;
    native_free_lines(&all);
    return done;
}

static bool all_logs_hold(const story_t *s, int rows) {
    for (int i = 0; i < SIDECARS; i++)
        if (audit_log_int(daemon_audit_path(s->sidecars[i]), "SELECT count(*) FROM failed_jobs") != rows) return false;
    return true;
}

/* Nothing is left in the keys of the queues but sentinels. */
static bool is_empty(story_t *s) {
    bool empty = true;
    for (int i = 0; i < QUEUES && empty; i++) {
        char queue[16];
        snprintf(queue, sizeof(queue), "{q%d}", i);
        scoped(redis_drop) redis_t *r = nodes_open(&s->nodes, queue);
        empty = redis_int(r, "LLEN %s", queue) == 0 && redis_int(r, "ZCARD %s:delayed", queue) == 0 &&
                redis_int(r, "LLEN %s:backup", queue) <= 1 && redis_int(r, "HLEN %s:errors", queue) == 0;
    }
    return empty;
}

/* The job came in the bytes of its producer, and its kind decides how it ended. */
static void expect_fate(const story_t *s, int number, const fate_t *fate, const native_lines_t *all) {
    const char *kind = kind_of(number);
    bool poison = strcmp(kind, "poison") == 0;
    char key[32], sql[160];
    snprintf(key, sizeof(key), "%s-%d", kind, number);
    cr_assert(fate->hex && fate->taken, "%s is lost", key);
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->lines[i].word, "taken") == 0 && strcmp(all->lines[i].key, key) == 0)
            cr_expect_str_eq(all->lines[i].detail, fate->hex, "%s came in other bytes", key);
    cr_expect_eq(fate->done > 0, !poison, "%s was done %d times", key, fate->done);
    snprintf(sql, sizeof(sql), "SELECT count(*) FROM failed_jobs WHERE job_id = '%s'", key);
    for (int i = 0; i < SIDECARS; i++) cr_expect_eq(audit_log_int(daemon_audit_path(s->sidecars[i]), sql), poison, "%s", sql);
}

static void run_story(const char *client) {
    scoped(end) story_t s;
    begin(&s, client);
    int poisons = 0;
    for (int i = 0; i < s.count; i++) poisons += strcmp(kind_of(i), "poison") == 0;
    for (int i = 0; i < ROUNDS; i++) round_of(&s, i);
    if (!wait_for(all_done(&s, s.count - poisons), ALL_MS)) fail(&s, "not every job is done");
    if (!wait_for(all_logs_hold(&s, poisons), ALL_MS)) fail(&s, "not every failed job is in each audit log, once");
    if (!wait_for(is_empty(&s), ALL_MS)) fail(&s, "something is left in a queue");
    native_lines_t all = native_lines(&s.native);
    fate_t *fates = calloc((size_t)s.count, sizeof(*fates));
    count_done(&s, fates, &all);
    for (int i = 0; i < s.count; i++) expect_fate(&s, i, &fates[i], &all);
    fprintf(stderr, "%s: %d jobs, %d of them ended, %d commands tried again\n", client, s.count, poisons,
            native_count(&s.native, "again", NULL));
    free(fates);
    native_free_lines(&all);
}

Test(daemon_clients_cluster, python) { run_story("cluster_python"); }
Test(daemon_clients_cluster, node) { run_story("cluster_node"); }
