/* The fate of each job on a real Redis Cluster: under load, and in the audit log. QS_LONG=1 runs the long form: 10 failovers
 * by command and 10 by kill, 20 moves of a slot, 5 of them held half-way, and a node that comes and goes. */
#include "daemon.h"
#include "redis_cluster.h"
#include "suite.h"
#include "wait.h"

enum { QUEUES = 6, MOST_JOBS = 100000, END_MS = 20000, ROUNDS = 3, LONG_ROUNDS = 10, HOLD_MS = 3000 };

typedef struct {
    nodes_t nodes;
    daemon_t *d;
    int added;           /* jobs that a replica has, too */
    int seen[MOST_JOBS]; /* how often a worker got each job */
} load_t;

static void begin(load_t *load) {
    load->nodes = nodes_start(3, 1);
    char *seeds = nodes_seeds(&load->nodes), *queues = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&queues, &size);
    for (int i = 0; i < QUEUES; i++) fprintf(out, "%s{ name = \"{q%d}\"; }", i ? ", " : "", i);
    fclose(out);
    load->d = daemon_start("group = \"g\";\nredis = { nodes = [%s]; };\nlock = { ttl = \"1s\"; };\nhttp = { port = 0; };\n"
                           "log = { format = \"json\"; };\nmonitor = { scan_interval = \"100ms\"; };\n"
                           "defaults = { heartbeat = \"off\"; };\nqueues = ( %s );\n",
                           seeds, queues);
    free(seeds);
    free(queues);
}

static void end(load_t *load) {
    daemon_stop(load->d);
    nodes_free(&load->nodes);
    free(load);
}

/* The primary of a queue, as the first living node believes now; NULL = it does not answer. */
static redis_t *open_now(load_t *load, const char *queue) {
    unsigned slot = nodes_slot(&load->nodes, queue);
    return redis_open(load->nodes.servers[nodes_owner(&load->nodes, slot)]);
}

/* Adds a few due jobs to each queue, and takes what is ready. */
static void work(load_t *load) {
    for (int q = 0; q < QUEUES; q++) {
        char queue[16];
        snprintf(queue, sizeof(queue), "{q%d}", q);
        scoped(redis_drop) redis_t *r = open_now(load, queue);
        int first = load->added;
        bool added = true;
        for (int i = 0; i < 5 && load->added < MOST_JOBS; i++) {
            redisReply *reply = redis_do(r, "ZADD %s:delayed %d job-%d", queue, load->added + 1, load->added);
            added = added && reply->type == REDIS_REPLY_INTEGER;
            load->added++;
        }
        redisReply *copies = redis_do(r, "WAIT 1 1000");
        if (!added || copies->integer < 1)
            for (int i = first; i < load->added; i++) load->seen[i]++; /* nobody promised to keep these */
        for (;;) {
            redisReply *reply = redis_do(r, "RPOP %s", queue);
            bool got = reply->type == REDIS_REPLY_STRING;
            if (got) load->seen[strtol(reply->str + 4, NULL, 10)]++;
            if (!got) break;
        }
    }
}

static int missing(load_t *load) {
    int count = 0;
    for (int i = 0; i < load->added; i++) count += load->seen[i] == 0;
    return count;
}

static void work_for(load_t *load, int ms) {
    int64_t until = wait_now_us() + (int64_t)ms * 1000;
    while (wait_now_us() < until) work(load);
}

static bool all_seen(load_t *load) {
    work(load);
    return missing(load) <= QUEUES * 5; /* of this round */
}

/* Moves the slot to another primary while jobs flow. */
static void move_under_load(load_t *load, unsigned slot, size_t to, int hold_ms) {
    nodes_move_begin(&load->nodes, slot, to);
    if (hold_ms) nodes_move_keys(&load->nodes, slot, to, 2); /* half of them */
    work_for(load, hold_ms);
    nodes_move_finish(&load->nodes, slot, to);
    work_for(load, 300);
}

static void one_round(load_t *load, int round, bool is_long) {
    char queue[16];
    snprintf(queue, sizeof(queue), "{q%d}", round % QUEUES);
    unsigned slot = nodes_slot(&load->nodes, queue);
    nodes_fail_over(&load->nodes, slot);
    work_for(load, 300);
    size_t killed = nodes_kill_primary(&load->nodes, slot);
    work_for(load, 300);
    nodes_revive(&load->nodes, killed);
    size_t from = nodes_owner(&load->nodes, slot), to = from;
    for (unsigned other = 0; to == from; other += 100) to = nodes_owner(&load->nodes, other);
    move_under_load(load, slot, to, is_long && round % 2 ? HOLD_MS : 0);
    if (is_long) move_under_load(load, slot, from, 0);
}

static void node_comes_and_goes(load_t *load) {
    unsigned slot = nodes_slot(&load->nodes, "{q0}");
    size_t from = nodes_owner(&load->nodes, slot), added = nodes_add(&load->nodes);
    move_under_load(load, slot, added, 0);
    move_under_load(load, slot, from, 0);
    nodes_remove(&load->nodes, added);
    work_for(load, 300);
}

Test(daemon_cluster_jobs, no_job_is_lost_by_failovers_and_moves, .timeout = 600) {
    load_t *load = calloc(1, sizeof(*load));
    bool is_long = getenv("QS_LONG");
    begin(load);
    work_for(load, 1000);
    for (int round = 0; round < (is_long ? LONG_ROUNDS : ROUNDS); round++) one_round(load, round, is_long);
    if (is_long) node_comes_and_goes(load);
    cr_assert(wait_for(all_seen(load), END_MS), "%d of %d jobs are missing", missing(load), load->added);
    fprintf(stderr, "%d jobs\n", load->added);
    end(load);
}

static int rows_with(load_t *load, const char *text) {
    const daemon_output_t *output = daemon_run("audit", "list", "--db", daemon_audit_path(load->d), "-o", "json");
    int count = 0;
    for (const char *at = output->out; (at = strstr(at, text)); at++) count++;
    return count;
}

static int rows(load_t *load) { return rows_with(load, "\"reported\""); }

/* Each failure, its marker and its record are on the node of the queue. */
static void expect_erased(load_t *load) {
    const daemon_output_t *all =
        daemon_run("audit", "erase", "-c", daemon_config_path(load->d), "--db", daemon_audit_path(load->d), "--where",
                   "--failed-by", "reported", "--yes", "--by", "bob");
    cr_assert_eq(all->code, 0, "%s%s", all->out, all->err);
    cr_expect(
        wait_for(rows_with(load, "\"payload\":\"\"") == QUEUES && rows_with(load, "\"erased_by\":\"bob\"") == QUEUES, END_MS));
}

Test(daemon_cluster_jobs, each_shard_records_its_failures_in_one_log_and_takes_jobs_back) {
    load_t *load = calloc(1, sizeof(*load));
    char queue[16];
    begin(load);
    for (int q = 0; q < QUEUES; q++) {
        snprintf(queue, sizeof(queue), "{q%d}", q);
        scoped(redis_drop) redis_t *r = open_now(load, queue);
        redis_ok(r, "LPUSH %s:backup failed-%d", queue, q);
        redis_ok(r, "HSET %s:errors failed-%d !no", queue, q);
    }
    cr_assert(wait_for(rows(load) == QUEUES, END_MS), "the log has %d rows", rows(load));
    const daemon_output_t *other = daemon_run("audit", "requeue", "-c", daemon_config_path(load->d), "--db",
                                              daemon_audit_path(load->d), "--where", "--queue", "{q0}", "--to", "{q1}", "--yes");
    cr_assert_neq(other->code, 0);
    cr_assert_not_null(strstr(other->err, "one step cannot reach both"), "%s%s", other->out, other->err);
    const daemon_output_t *all = daemon_run("audit", "requeue", "-c", daemon_config_path(load->d), "--db",
                                            daemon_audit_path(load->d), "--where", "--failed-by", "reported", "--yes");
    cr_assert_eq(all->code, 0, "%s%s", all->out, all->err);
    for (int q = 0; q < QUEUES; q++) {
        char job[32];
        snprintf(queue, sizeof(queue), "{q%d}", q);
        snprintf(job, sizeof(job), "failed-%d", q);
        scoped(redis_drop) redis_t *r = open_now(load, queue);
        redis_expect(r, job, "RPOP %s", queue);
    }
    expect_erased(load);
    end(load);
}

/* Jobs of a dead worker come back; bull's delayed job moves to its wait list. */
Test(daemon_cluster_jobs, other_dialects_are_served_on_the_nodes_of_their_slots) {
    scoped(nodes_free) nodes_t nodes = nodes_start(3, 0);
    char *seeds = nodes_seeds(&nodes);
    daemon_t *d = daemon_start("group = \"g\";\nredis = { nodes = [%s]; };\nlock = { ttl = \"1s\"; };\nhttp = { port = 0; };\n"
                               "log = { format = \"json\"; };\nmonitor = { scan_interval = \"100ms\"; };\n"
                               "defaults = { heartbeat = \"off\"; };\n"
                               "queues = ( { name = \"{video}\"; dialect = \"bull\"; prefix = \"bull\"; },\n"
                               " { name = \"{photos}\"; dialect = \"bullmq\"; prefix = \"bull\"; stalled_interval = \"1s\"; "
                               "roles = [ \"dispatcher\", \"monitor\" ]; },\n"
                               " { name = \"{fights}\"; dialect = \"private_queues\"; main = \"{fights}\"; private = "
                               "\"{fights}:of-*\"; protected_timeout = \"300ms\"; },\n"
                               " { name = \"{mail}\"; dialect = \"stream\"; group = \"workers\"; dlq = \"{mail}:dead\"; "
                               "protected_timeout = \"300ms\"; retry_times = 1; } );\n",
                               seeds);
    redis_t *r = nodes_open(&nodes, "{mail}");
    redis_ok(r, "XGROUP CREATE {mail} workers 0 MKSTREAM");
    redis_ok(r, "ZADD {mail}:delayed 1 mail-1");
    static const char read[] = "local got = redis.call('XREADGROUP', 'GROUP', 'workers', 'w1', 'STREAMS', KEYS[1], '>') "
                               "return got and #got[1][2] or 0";
    for (int i = 0; i < 2; i++) /* as an entry, and as its copy */
        cr_assert(wait_for(redis_int(r, "EVAL %s 1 {mail}", read) == 1, END_MS), "the job does not come");
    cr_assert(wait_for(redis_int(r, "XLEN {mail}:dead") == 1, END_MS), "the job does not end");
    redis_close(r);
    r = nodes_open(&nodes, "{fights}");
    redis_ok(r, "LPUSH {fights}:of-ann fight-1");
    cr_assert(wait_for(redis_int(r, "LLEN {fights}") == 1, END_MS), "the job of the dead worker does not come back");
    redis_close(r);
    r = nodes_open(&nodes, "{video}");
    redis_ok(r, "HSET bull:{video}:7 name n data {} opts {} delay 1 timestamp 1 attemptsMade 0");
    redis_ok(r, "ZADD bull:{video}:delayed 4096 7");
    cr_assert(wait_for(redis_int(r, "LLEN bull:{video}:wait") == 1, END_MS), "the delayed job does not move");
    redis_close(r);
    r = nodes_open(&nodes, "{photos}");
    redis_ok(r, "HSET bull:{photos}:meta version bullmq:6.7.0");
    redis_ok(r, "HSET bull:{photos}:7 name n data {} opts {} delay 1 timestamp 1 priority 0");
    redis_ok(r, "LPUSH bull:{photos}:active 7");
    cr_assert(wait_for(redis_int(r, "LLEN bull:{photos}:wait") == 1, END_MS), "the job of the dead worker does not come back");
    redis_ok(r, "EVAL %s 1 {photos}",
             "for i = 100, 139 do redis.call('HSET', 'bull:{photos}:' .. i, 'name', 'n', 'priority', i % 2) "
             "redis.call('ZADD', 'bull:{photos}:delayed', 4096, i) end");
    cr_assert(wait_for(redis_int(r, "ZCARD bull:{photos}:prioritized") == 20, END_MS), "the delayed jobs do not move");
    cr_assert_eq(redis_int(r, "LLEN bull:{photos}:wait"), 21);
    redis_close(r);
    cr_assert_eq(daemon_log_count(d, "\"level\":\"error\"") - daemon_log_count(d, "has no group"), 0);
    daemon_stop(d);
    free(seeds);
}
