/* The auditor of a leader trims copied records while Redis is nearly full, and removes the entries of pods that have ended. */
#include "auditor_fixture.h"

#define STREAM "sidecar:email:failures"
#define META   "sidecar:email:meta"

static long long records(setup_t *d) { return redis_int(d->f.r, "XLEN " STREAM); }

enum { PODS = 2000, MOST = 256 };

/* No record can be trimmed, so only an hourly trim removes what pods have left. It is due when the auditor goes on. */
static void open_with_pods(setup_t *d) {
    open_auditor(d, (fixture_options_t){0}, "", "", NULL);
    instance_lead(&d->instance, d->f.r);
    audit_log_feed(d->f.r, "email", 0, 3, "5");
    expect_rows(d, 3);
    settle(d);
    redis_ok(
        d->f.r, "EVAL %s 1 sidecar:email:auditors %d",
        "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], 'pod' .. i, '5-0 ' .. redis.call('TIME')[1] .. '000') end",
        PODS);
    fixture_step_boottime(3601000);
    instance_lead(&d->instance, d->f.r);
}

static void expect_pods_go(setup_t *d) {
    end_wait(d);
    cr_assert(driver_until(&d->instance.driver, redis_int(d->f.r, "HLEN sidecar:email:auditors") <= MOST, 10000), "%lld are left",
              redis_int(d->f.r, "HLEN sidecar:email:auditors"));
    cr_assert_eq(records(d), 3);
    close_auditor(d);
}

Test(redis_auditor_full, a_leader_removes_what_pods_have_left) {
    setup_t d = {0};
    open_with_pods(&d);
    expect_pods_go(&d);
}

/* The next trim of this stream is the one of the next hour, unless the failed one is made up for. */
Test(redis_auditor_full, a_failed_trim_is_made_up_for) {
    setup_t d = {0};
    open_with_pods(&d);
    redis_ok(d.f.r, "SET sidecar:app:lock other");
    end_wait(&d);
    settle(&d);
    cr_assert_eq(redis_int(d.f.r, "HLEN sidecar:email:auditors"), PODS + 1, "the trim was not fenced");
    fixture_step_boottime(61000);
    instance_lead(&d.instance, d.f.r);
    expect_pods_go(&d);
}

/* Adds records of 500 KB each to a queue. */
static void add_large(setup_t *d, const char *queue, int from, int count) {
    redis_ok(d->f.r, "EVAL %s 2 sidecar:%s:failures sidecar:%s:meta %d %d",
             "for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do local id = redis.call('XADD', KEYS[1], '*', 'event', "
             "string.format('%064d', i), 'kind', 'failed', 'dialect', 'list', 'job', i, 'reason', 'reported', 'at', "
             "'1700000002000', 'payload', string.rep('x', 500000)) redis.call('HSET', KEYS[2], 'last', id) "
             "redis.call('HINCRBY', KEYS[2], 'bytes', 500000) end",
             queue, queue, from, count);
}

/* Lets the leader look at Redis's memory. The lock is set before, because a full Redis refuses it. */
static void look_at_memory(setup_t *d, long long most) {
    redis_ok(d->f.r, "CONFIG SET maxmemory 0");
    fixture_step_boottime(11000);
    instance_lead(&d->instance, d->f.r);
    redis_ok(d->f.r, "CONFIG SET maxmemory %lld", most);
    end_wait(d);
    settle(d);
}

static bool takes_jobs(setup_t *d) {
    redisReply *reply = redis_do(d->f.r, "LPUSH email job");
    return reply->type == REDIS_REPLY_INTEGER;
}

static long long records_of(setup_t *d, const char *queue) { return redis_int(d->f.r, "XLEN sidecar:%s:failures", queue); }

/* Every stream is far below half of stream.max_bytes, so that limit would keep the records, and Redis would refuse every job. */
Test(redis_auditor_full, copied_records_make_room_while_redis_is_nearly_full) {
    enum { EACH = 10, MB = 1000000 };
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "", "{ name = \"email\"; }, { name = \"sms\"; }");
    instance_lead(&d.instance, d.f.r);
    add_large(&d, "email", 0, EACH);
    add_large(&d, "sms", EACH, EACH);
    expect_rows(&d, 2 * EACH);
    look_at_memory(&d, 0);
    cr_assert(records_of(&d, "email") == EACH && records_of(&d, "sms") == EACH, "there is no limit");
    long long used = server_info_int(d.f.server, "memory", "used_memory");
    look_at_memory(&d, used / 87 * 100);
    cr_assert(records_of(&d, "email") == EACH && records_of(&d, "sms") == EACH, "87 %%");
    redis_ok(d.f.r, "CONFIG SET maxmemory %lld", used - 3 * MB);
    cr_assert(!takes_jobs(&d));
    look_at_memory(&d, used - 3 * MB);
    cr_assert(driver_until(&d.instance.driver, takes_jobs(&d), 10000));
    settle(&d);
    cr_assert(records_of(&d, "email") < EACH && records_of(&d, "sms") == EACH, "no more than needed: %lld, %lld",
              records_of(&d, "email"), records_of(&d, "sms"));
    cr_assert_eq(redis_int(d.f.r, "HEXISTS " META " trimmed_early"), 1);
    cr_assert_eq(fixture_log_count("trimming copied records before stream.retain; redis is nearly full"), 1);
    look_at_memory(&d, 1);
    cr_assert(driver_until(&d.instance.driver, records_of(&d, "email") + records_of(&d, "sms") == 0, 10000), "of all queues");
    cr_assert_eq(gaps(&d), 0);
    close_auditor(&d);
}

Test(redis_auditor_full, a_full_redis_keeps_records_without_enough_copies) {
    enum { EACH = 10 };
    setup_t d = {0};
    open_auditor(&d, (fixture_options_t){0}, "", "stream = { min_copies = 2; };", NULL);
    instance_lead(&d.instance, d.f.r);
    add_large(&d, "email", 0, EACH);
    expect_rows(&d, EACH);
    look_at_memory(&d, 1);
    cr_assert_eq(records(&d), EACH);
    redis_ok(d.f.r, "CONFIG SET maxmemory 0");
    other_copies(&d);
    look_at_memory(&d, 1);
    cr_assert(driver_until(&d.instance.driver, records(&d) == 0, 10000));
    close_auditor(&d);
}
