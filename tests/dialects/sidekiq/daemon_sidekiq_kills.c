/* Real processes of Sidekiq are killed when their jobs have run for 1 to 30 s. It takes more than a minute, so it runs with
 * QS_LONG=1 only. */
#include "sidekiq_story.h"

TestSuite(daemon_sidekiq_kills, .timeout = 300);

static const int ages[] = {1, 2, 5, 10, 20, 30};
enum { AGES = sizeof ages / sizeof *ages, BEFORE_MS = 800 };

#define QUEUES                                                                                                                   \
    "queues = [\"default\", \"age0\", \"age1\", \"age2\", \"age3\", \"age4\", \"age5\"]; dead_after = \"20s\"; min_run = "       \
    "\"0s\";"

/* A process, and where it is: it waits until its next beat comes soon, gets a job, notes it at that beat, and is killed when the
 * job has run for its age. */
typedef struct {
    child_t *child;
    char queue[8];
    bool given;
    long long age_ms; /* at the kill: at least so long */
} victim_t;

/* Of the process of a queue: ms until its keys expire, and for how long its job has run at least, ms; -1 = no beat has noted it.
 * run_at is in whole seconds. */
static void look_at(const setup_t *setup, const char *queue, long long *left_ms, long long *age_ms) {
    redisReply *reply =
        redis_do(setup->cluster.r, "EVAL %s 0 %s",
                 "for _, p in ipairs(redis.call('SMEMBERS', 'processes')) do local info = redis.call('HGET', p, 'info') "
                 "if info and string.find(info, '\"' .. ARGV[1] .. '\"', 1, true) then local age, t = -1, redis.call('TIME') "
                 "for _, key in ipairs({p .. ':work', p .. ':workers'}) do for _, v in ipairs(redis.call('HVALS', key)) do "
                 "age = (t[1] - cjson.decode(v).run_at - 1) * 1000 + math.floor(t[2] / 1000) end end "
                 "return {redis.call('PTTL', p), age} end end return {0, -1}",
                 queue);
    *left_ms = reply->element[0]->integer;
    *age_ms = reply->element[1]->integer;
    freeReplyObject(reply);
}

/* Starts a process with room for jobs that come back twice. It serves the queues of all victims. */
static child_t *begin_next(setup_t *setup) {
    static const char *const args[] = {"work", "-q", "age0", "-q", "age1", "-q", "age2", "-q",
                                       "age3", "-q", "age4", "-q", "age5", "-c", "18",   NULL};
    return native_start(&setup->native, args, setup->env, NULL);
}

/* Starts the next process as soon as each victim has noted its job, before the first one comes back. True: all have been killed.
 */
static bool kill_in_time(setup_t *setup, victim_t *victims, int beat_ms, child_t **next) {
    int noted = 0, killed = 0;
    for (int i = 0; i < AGES; i++) {
        victim_t *victim = &victims[i];
        long long left_ms = 0, age_ms = -1;
        if (victim->child) look_at(setup, victim->queue, &left_ms, &age_ms);
        bool soon = left_ms > 60000 - beat_ms && left_ms <= 60000 - beat_ms + BEFORE_MS;
        if (!victim->given && soon) {
            redis_ok(setup->cluster.r, "RPOPLPUSH queue:default queue:%s", victim->queue);
            victim->given = true;
        } else if (victim->given && victim->child && age_ms >= 1000LL * ages[i]) {
            kill_process(victim->child);
            victim->child = NULL;
            victim->age_ms = age_ms;
        }
        noted += !victim->child || age_ms >= 0;
        killed += !victim->child;
    }
    if (noted == AGES && !*next) *next = begin_next(setup);
    return killed == AGES;
}

/* Returns the number of jobs that came back once and ran once in the next process. */
static int back_at_all_ages(const char *version, int beat_ms) {
    if (!getenv("QS_LONG")) cr_skip_test("QS_LONG=1 runs it");
    scoped(setup_end) setup_t setup;
    victim_t victims[AGES] = {{0}};
    setup_begin_with(&setup, version, QUEUES);
    produce(&setup, "wait", AGES, 0);
    for (int i = 0; i < AGES; i++) {
        victim_t *victim = &victims[i];
        snprintf(victim->queue, sizeof victim->queue, "age%d", i);
        victim->child =
            native_start(&setup.native, (const char *const[]){"work", "-q", victim->queue, "-c", "1", NULL}, setup.env, NULL);
    }
    child_t *next = NULL;
    await_gone(&setup, kill_in_time(&setup, victims, beat_ms, &next));
    for (int i = 0; i < AGES; i++)
        cr_expect_lt(victims[i].age_ms, 1000LL * ages[i] + wait_scaled_ms(2000), "a job was %lld ms old", victims[i].age_ms);
    await_gone(&setup, native_count(&setup.native, "taken", NULL) >= 2 * AGES);
    redis_ok(setup.cluster.r, "SET go 1");
    await_gone(&setup, native_count(&setup.native, "finished", NULL) >= AGES && noted(&setup) == 0);
    await_gone(&setup, rows(&setup, "kind = 'retried' AND reason = 'stalled'") >= AGES);
    int once = 0;
    for (int i = 0; i < AGES; i++) {
        const char *key = kept_printf("wait-%d", i);
        int taken = native_count(&setup.native, "taken", key), finished = native_count(&setup.native, "finished", key);
        cr_expect(taken == 2 && finished == 1, "%s was taken %d times and finished %d times", key, taken, finished);
        once += taken == 2 && finished == 1;
    }
    stop(&setup, next);
    cr_expect_eq(rows(&setup, "kind = 'retried'"), AGES);
    cr_expect_eq(redis_int(setup.cluster.r, "EXISTS retry dead queue:default"), 0);
    return once;
}

Test(daemon_sidekiq_kills, of_each_age_come_back_once_6) { cr_assert_eq(back_at_all_ages("QS_SIDEKIQ=6", 5000), AGES); }
Test(daemon_sidekiq_kills, of_each_age_come_back_once_7) { cr_assert_eq(back_at_all_ages("QS_SIDEKIQ=7", 10000), AGES); }
