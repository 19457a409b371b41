/* Dialect stream with 200,000 pending entries: each step is short, also when no entry is idle, and when all are. */
#include "stream_fixture.h"

enum { ENTRIES = 200000, DEAD = 2000 };

static setup_t d;
SUITE_WITHIN(300, redis_groups_large, , close_setup(&d));

static void fill(void) {
    redis_ok(d.f.r, "EVAL %s 1 mail %d", "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'data', 'job' .. i) end",
             ENTRIES);
    long long read = 0;
    for (int i = 0; read < ENTRIES; i++) read += take(&d, i % 2 ? "w1" : "w2");
}

static int compare(const void *a, const void *b) {
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}

/* Returns the time in us that a share of the sidecar's scripts has not exceeded. *scripts: how many there were. */
static long long slowest(double share, size_t *scripts) {
    redisReply *log = redis_do(d.f.r, "SLOWLOG GET 100000");
    long long *times = calloc(log->elements + 1, sizeof *times);
    *scripts = 0;
    for (size_t i = 0; times && i < log->elements; i++) {
        const redisReply *entry = log->element[i];
        if (strcasecmp(entry->element[3]->element[0]->str, "evalsha") == 0) times[(*scripts)++] = entry->element[2]->integer;
    }
    cr_assert(times);
    qsort(times, *scripts, sizeof *times, compare);
    long long time = *scripts ? times[(size_t)((double)(*scripts - 1) * share)] : 0;
    free(times);
    freeReplyObject(log);
    return time;
}

static void watch(void) {
    redis_ok(d.f.r, "CONFIG SET slowlog-log-slower-than 0");
    redis_ok(d.f.r, "CONFIG SET slowlog-max-len 100000");
    redis_ok(d.f.r, "SLOWLOG RESET");
}

/* The time in us of the step that the sidecar must not make: Redis reads all entries to find none idle. */
static long long one_step_of_all(void) {
    size_t scripts;
    char *sha = kept(
        redis_str(d.f.r, "SCRIPT LOAD %s", "return #redis.call('XPENDING', 'mail', 'workers', 'IDLE', 999999999, '-', '+', 1)"));
    watch();
    for (int i = 0; i < 5; i++) redis_int(d.f.r, "EVALSHA %s 0", sha);
    return slowest(0.5, &scripts);
}

/* A busy machine may be slow, and may stop Redis in a script. So the times are shares of a step on this machine, and most scripts
 * tell, not the slowest one. */
static void expect_short(const char *what, long long step) {
    size_t scripts;
    long long half = slowest(0.5, &scripts), most = slowest(0.8, &scripts);
    cr_expect_leq(half, step / 15, "%s: of %zu scripts p50 %lld us, p80 %lld us; %lld us", what, scripts, half, most, step);
    cr_expect_leq(most, step / 2, "%s: of %zu scripts p50 %lld us, p80 %lld us; %lld us", what, scripts, half, most, step);
}

Test(redis_groups_large, no_step_takes_longer_than_the_slice) {
    open_mail(&d, MAIL_IN("1h", "retry_times = 1;"));
    fill();
    long long step = one_step_of_all();
    watch();
    passes(&d, 2); /* all entries are young: the walk ends before them */
    expect_short("young entries", step);
    redis_ok(d.f.r, "HSET mail:errors 1-1 orphan"); /* a report may be of any entry: the walk goes through all */
    watch();
    passes(&d, 1);
    expect_short("all entries", step);
    redis_ok(d.f.r, "DEL mail:errors");
    redis_ok(d.f.r, "EVAL %s 1 mail %d",
             "local ids = {} for i, e in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[1])) do ids[i] = e[1] end "
             "for _, id in ipairs(ids) do redis.call('XCLAIM', KEYS[1], 'workers', 'w1', 0, id, 'IDLE', 86400000) end",
             DEAD);
    /* Their ids are young, so only a walk through all meets them. */
    redis_ok(d.f.r, "HSET mail:errors 1-1 orphan");
    watch();
    until(&d, records(&d) >= DEAD);
    expect_short("entries that come back", step);
}
