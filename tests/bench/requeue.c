// Requeue: how many failures a second the real program requeues by `audit requeue` without --rate, from its start to its end, and
// how much memory the requeue markers and stamps take in Redis.
#include "bench.h"

enum { RECORDS = 200000, STEP = 10000, POLL_US = 20000 };

// Adds failures with payloads of 100 bytes.
static void load(redisContext *redis, int round) {
    static const char script[] =
        "local payload = string.rep('p', 92) for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do "
        "local id = redis.sha1hex(ARGV[3] .. i) .. string.format('%024x', i) "
        "redis.call('XADD', KEYS[1], '*', 'event', id, 'kind', 'failed', 'dialect', 'list', "
        "'queue', 'q0', 'job', i, 'reason', 'reported', 'error', 'no route to host', 'attempts', 4, 'created', '1700000000000', "
        "'started', '1700000001000', 'at', string.format('%.0f', 1700000002000 + i), "
        "'term', '00112233445566778899aabbccddeeff-5000', 'size', 100, 'payload', payload .. string.format('%08d', i)) end "
        "return 1";
    for (int i = 1; i <= RECORDS; i += STEP)
        redis_do(redis, "EVAL %s 1 sidecar:q0:failures %d %d %d", script, i, i + STEP - 1, round);
}

static bool copied(redisContext *redis) {
    scoped_reply *last = redis_ask(redis, "XREVRANGE sidecar:q0:failures + - COUNT 1"),
                 *at = redis_ask(redis, "HVALS sidecar:q0:auditors");
    const char *id = last->elements == 1 ? last->element[0]->element[0]->str : "none";
    bool yes = at->elements == 1 && strncmp(at->element[0]->str, id, strlen(id)) == 0;
    freeReplyObject(at);
    return yes;
}

static double requeue(const bench_t *bench, const char *name) {
    char config[256], db[256];
    snprintf(config, sizeof config, "%s/%s.cfg", bench->dir, name);
    snprintf(db, sizeof db, "%s/%s.db", bench->dir, name);
    int64_t began = mono_us();
    pid_t pid = fork();
    int status = 0;
    if (pid < 0) die("cannot fork");
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout)) _exit(126);
        execl(bench->sidecar, bench->sidecar, "audit", "requeue", "-c", config, "--db", db, "--where", "--queue", "q0", "--yes",
              "--because", "bench", (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    if (status != 0) die("audit requeue failed");
    return RECORDS * 1e6 / (double)(mono_us() - began);
}

int main(int argc, char **argv) {
    bench_t bench = bench_begin(argc, argv);
    redisContext *redis = redis_open(&bench);
    series_t rate = {0};
    series_t mark = {0};
    series_t share = {0};
    table_head("Requeue: 200k failures of 100 bytes put back, from the start of the program to its end");
    for (int i = 0; i < bench.rounds; i++) {
        char name[32];
        snprintf(name, sizeof name, "requeue-%d", i);
        load(redis, i);
        pid_t pid = sidecar_start(&bench, (sidecar_options_t){.name = name, .monitor = "off"});
        for (int64_t began = mono_us(); !copied(redis); sleep_us(POLL_US))
            if (mono_us() - began > 120 * INT64_C(1000000)) die("the stream is not copied");
        sidecar_stop(pid, SIGTERM);
        double before = redis_cpu_us(redis);
        series_add(&rate, requeue(&bench, name));
        series_add(&share, (redis_cpu_us(redis) - before) / RECORDS);
        if (redis_do(redis, "LLEN q0") != RECORDS) die("not every job is back, or one is there twice");
        series_add(&mark, (double)redis_do(redis, "MEMORY USAGE sidecar:q0:requeued SAMPLES 0") / RECORDS);
        fprintf(stderr, "requeue: round %d: %.0f jobs/s, %.0f bytes a mark\n", i + 1, rate.values[i], mark.values[i]);
        redis_do(redis, "FLUSHALL");
    }
    table_row(&bench, "jobs/s put back", &rate, 0, '>', 20000);
    table_row(&bench, "processor time of Redis for each, us", &share, 1, 0, 0);
    table_row(&bench, "bytes of Redis's memory for each mark", &mark, 0, 0, 0);
    redisFree(redis);
    return bench_end(&bench);
}
