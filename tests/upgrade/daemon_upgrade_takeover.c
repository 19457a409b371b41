/* The previous release and this one take over from each other in turn. No job is lost or done twice. Each program continues the
 * retries, stamps and markers of the other. */
#include "audit_log.h"
#include "upgrade.h"

#include <criterion/parameterized.h>
#include <signal.h>

enum { JOBS = 400, TURNS = 4, SPREAD_MS = 3000 };

/* One step of a worker; atomic, so that a pause of the machine cannot make a job stall. Of ten jobs, the worker dies in the first
 * run of one, reports the first run of another, and reports a third with a text that forbids retries. */
static const char work[] = "local job = redis.call('LMOVE', 'q', 'q:backup', 'RIGHT', 'LEFT') if not job then return 0 end "
                           "local kind, run = tonumber(job) % 10, redis.call('HINCRBY', 'runs', job, 1) "
                           "if kind == 0 and run == 1 then return 1 end "
                           "if kind == 1 and run == 1 then redis.call('HSET', 'q:errors', job, 'boom') return 1 end "
                           "if kind == 2 then redis.call('HSET', 'q:errors', job, '!no') return 1 end "
                           "if redis.call('LREM', 'q:backup', 1, job) == 1 then redis.call('HINCRBY', 'done', job, 1) end "
                           "return 1";

static bool all_work_is_done(redis_t *r) {
    while (redis_int(r, "EVAL %s 0", work)) {
    }
    return redis_int(r, "HLEN done") == JOBS * 9 / 10 && upgrade_lua(r, "records('sidecar:q:failures', 'failed')") == JOBS / 10;
}

ParameterizedTestParameters(daemon_upgrade, each_takes_over_and_no_job_is_lost_or_done_twice) {
    static const int signals[] = {SIGKILL, SIGTERM};
    return cr_make_param_array(const int, signals, sizeof signals / sizeof *signals);
}

/* With SIGTERM the TTL is two minutes, so the standby leads in time only if it understands the other program's vacant message. */
ParameterizedTest(int *signal, daemon_upgrade, each_takes_over_and_no_job_is_lost_or_done_twice) {
    pair_t p =
        pair_begin(PREVIOUS, (sidecar_t){.ttl = *signal == SIGKILL ? "600ms" : "2m",
                                         .scan = "50ms",
                                         .queues = "{ name = \"q\"; roles = [\"dispatcher\", \"monitor\"]; "
                                                   "heartbeat = \"off\"; protected_timeout = \"300ms\"; retry_times = 1; }"});
    redis_t *r = p.cluster.r;
    int64_t now = redis_ms(r);
    for (int i = 0; i < JOBS; i++) redis_ok(r, "ZADD q:delayed %lld %d", (long long)now + i * SPREAD_MS / JOBS, i);
    for (int turn = 0; turn < TURNS; turn++) {
        await(&p.cluster, redis_int(r, "EVAL %s 0", work) == 0 && redis_int(r, "HLEN runs") >= turn * JOBS / (TURNS + 1));
        pair_take_over(&p, *signal);
    }
    await(&p.cluster, all_work_is_done(r));
    cr_expect_eq(redis_int(r, "HLEN runs"), JOBS);
    cr_expect_eq(redis_int(r, "ZCARD q:delayed"), 0);
    cr_expect_eq(upgrade_lua(r, "above('done', 1)"), 0, "a job was done twice");
    cr_expect_eq(upgrade_lua(r, "above('runs', 2)"), 0, "a job was run three times");
    cr_expect_eq(upgrade_lua(r, "above('runs', 1)"), JOBS / 5, "a job was run twice without a retry");
    cr_expect_eq(upgrade_lua(r, "records('sidecar:q:failures', 'retried')"), JOBS / 5);
    for (int i = 0; i < PROGRAMS; i++) {
        await(&p.cluster, audit_log_rows(p.logs[i]) == JOBS / 10);
        cr_expect_eq(audit_log_int(p.logs[i], "SELECT count(DISTINCT job) FROM events WHERE kind = 'failed'"), JOBS / 10);
    }
    cluster_end(&p.cluster);
}

#define KMQUEUE_BACKUP "back_up_queue_ZkGUZkDe6zIgjH0nGthHgQ=="

/* A job in some dialect that every worker fails to do. The texts from `take` to `markers` are Lua expressions. */
typedef struct {
    const char *queue, *stream;
    const char *put;     /* Lua that adds the job to ready */
    const char *take;    /* a worker takes the job and dies; true: it had the job */
    const char *noted;   /* the leader has stored that it has seen the job, if the dialect stores that */
    const char *ended;   /* the job has ended and left no entry */
    const char *markers; /* number of sentinels; must become 1 */
    const char *attempts;
} poison_t;

static const poison_t POISON[] = {
    {.queue = "{ name = \"q\"; roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"500ms\"; retry_times = 2; }",
     .stream = "sidecar:q:failures",
     .put = "redis.call('LPUSH', 'q', 'job')",
     .take = "redis.call('LMOVE', 'q', 'q:backup', 'RIGHT', 'LEFT') == 'job'",
     .noted = "redis.call('HLEN', 'sidecar:q:stamps') == 1",
     .ended = "redis.call('LLEN', 'q') + found('q:backup', '^job$') == 0",
     .markers = "found('q:backup', '^sidecar%-sentinel:')",
     .attempts = "1 2 3 of one life"},
    {.queue = "{ name = \"q\"; dialect = \"kmqueue\"; queues = [\"worker1_queue\", \"worker2_queue:safe\"]; "
              "roles = [\"monitor\"]; heartbeat = \"off\"; protected_timeout = \"200ms\"; retry_times = 2; }",
     .stream = "sidecar:q:failures",
     .put = "redis.call('SADD', 'worker2_queue_unique', 'a') redis.call('LPUSH', 'worker2_queue', "
            "'{\"data\":\"x\",\"id\":\"a\",\"queue\":\"worker2_queue\",\"taskStatus\":{\"excTimestamp\":1700000000000,"
            "\"genTimestamp\":1700000000000,\"retry\":0,\"state\":\"normal\"},\"type\":\"t\",\"unique\":true}')",
     .take = "redis.call('RPOPLPUSH', 'worker2_queue', '" KMQUEUE_BACKUP "') ~= false",
     .noted = "1",
     .ended = "redis.call('LLEN', 'worker2_queue') + redis.call('SCARD', 'worker2_queue_unique') == 0",
     .markers = "found('" KMQUEUE_BACKUP "', '\"type\":\"marker\"')",
     .attempts = "1 2 3 of one life"},
    {.queue = "{ name = \"video\"; dialect = \"bull\"; roles = [\"monitor\"]; stalled_interval = \"1s\"; }",
     .stream = "sidecar:video:failures",
     .put = "redis.call('HSET', 'bull:video:1', 'name', 'n', 'data', '{}', 'opts', '{}', 'timestamp', 1700000000000, "
            "'delay', 0, 'priority', 0) redis.call('LPUSH', 'bull:video:wait', 1)",
     .take = "redis.call('RPOPLPUSH', 'bull:video:wait', 'bull:video:active') == '1'",
     .noted = "redis.call('SISMEMBER', 'bull:video:stalled', 1)",
     .ended = "redis.call('LLEN', 'bull:video:wait') + redis.call('LLEN', 'bull:video:active') == 0 "
              "and redis.call('ZSCORE', 'bull:video:failed', 1) and redis.call('HGET', 'bull:video:1', 'stalledCounter') == '2'",
     .markers = "1",
     .attempts = "1 2 of one life"},
};
enum { POISONS = sizeof POISON / sizeof *POISON };

/* The attempts of all records, oldest first, and whether all records have one creation time. Owned by the caller. */
static char *attempts(redis_t *r, const char *stream) {
    return redis_str(r, "EVAL %s 1 %s",
                     "local all, births, born = {}, {}, 0 for _, record in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do "
                     "for i = 1, #record[2], 2 do local name, value = record[2][i], record[2][i + 1] "
                     "if name == 'attempts' then all[#all + 1] = value end "
                     "if name == 'created' and not births[value] then births[value] = true born = born + 1 end end end "
                     "return table.concat(all, ' ') .. (born == 1 and ' of one life' or ' of more lives')",
                     stream);
}

ParameterizedTestParameters(daemon_upgrade, each_counts_the_retries_of_the_other) {
    static int rows[POISONS * PROGRAMS];
    for (int i = 0; i < POISONS * PROGRAMS; i++) rows[i] = i;
    return cr_make_param_array(int, rows, POISONS *PROGRAMS);
}

/* One leader stores that it has seen the job and is killed; the leader of the other program then counts the run. */
ParameterizedTest(int *row, daemon_upgrade, each_counts_the_retries_of_the_other) {
    const poison_t *of = &POISON[*row / PROGRAMS];
    pair_t p = pair_begin((program_t)(*row % PROGRAMS), (sidecar_t){.queues = of->queue, .scan = "50ms"});
    redis_ok(p.cluster.r, "EVAL %s 0", of->put);
    for (const char *run = of->attempts; *run != 'o'; run += 2) {
        await(&p.cluster, upgrade_lua(p.cluster.r, of->take));
        await(&p.cluster, upgrade_lua(p.cluster.r, of->noted));
        pair_take_over(&p, SIGKILL);
    }
    await(&p.cluster, upgrade_lua(p.cluster.r, of->ended));
    await(&p.cluster, upgrade_lua(p.cluster.r, of->markers) == 1);
    char *found = attempts(p.cluster.r, of->stream);
    cr_expect_str_eq(found, of->attempts, "%s", found);
    cluster_end(&p.cluster);
}
