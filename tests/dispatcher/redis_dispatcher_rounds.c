/* Several queues are due at once: their promotes go out together, and each reply concerns its own queue alone. */
#include "dispatcher_fixture.h"

#include <criterion/parameterized.h>

enum { QUEUES = 6, MIDDLE = 3, PLACES = 3 };

static const int PLACE[PLACES] = {0, MIDDLE, QUEUES - 1};

#define QUEUE(n) "{ name = \"q" #n "\"; }"
#define SIX      "queues = ( " QUEUE(0) ", " QUEUE(1) ", " QUEUE(2) ", " QUEUE(3) ", " QUEUE(4) ", " QUEUE(5) " );"
#define GROUP    "group = \"app\"; dispatcher = { safety_poll = \"24h\"; }; "
#define PER_TAG  "group = \"app\"; lock = { scope = \"queue\"; }; dispatcher = { safety_poll = \"24h\"; }; "
#define PROMOTES " sidecar:" /* a promote, whose keys are the lock and those of its queues */

static void begin(setup_t *d, fixture_options_t options) {
    if (!options.config) options.config = GROUP SIX;
    options.redis = options.redis ? options.redis : "slice = \"100ms\";";
    options.proxy = true;
    setup_begin(d, options);
}

/* Queue i gets i + 1 due jobs, and all queues at once. */
static void add_to_all(setup_t *d) {
    redis_ok(
        d->f.r, "EVAL %s 0 %d",
        "for q = 0, ARGV[1] - 1 do for i = 0, q do redis.call('ZADD', 'q' .. q .. ':delayed', i, 'job' .. i) end end return 1",
        QUEUES);
}

static long long length(setup_t *d, int queue) { return redis_int(d->f.r, "LLEN q%d", queue); }

static bool all_ready(setup_t *d, int but) {
    for (int i = 0; i < QUEUES; i++)
        if (i != but && length(d, i) != i + 1) return false;
    return true;
}

/* The jobs of every queue but `but` get into ready, each once. */
static void expect_all_but(setup_t *d, int but) {
    bool done = driver_until(&d->instance.driver, all_ready(d, but), 15000);
    for (int i = 0; i < QUEUES; i++) {
        if (i == but) continue;
        cr_assert(done, "q%d has %lld jobs\n%s", i, length(d, i), fixture_log());
        cr_assert_eq(redis_int(d->f.r, "EXISTS q%d:delayed", i), 0);
        cr_assert_eq(metric_get(&of(d, (size_t)i)->faults), 0, "q%d", i);
    }
}

/* Each queue counts its own jobs. */
static void expect_counted(setup_t *d, int but) {
    for (int i = 0; i < QUEUES; i++)
        if (i != but) cr_assert_eq(metric_get(&of(d, (size_t)i)->promoted), i + 1, "q%d", i);
}

enum { HOUR_MS = 3600000 };

/* Queue i gets i + 1 jobs that are due in half an hour, and as many that are due in an hour and a half. */
static void add_for_later(setup_t *d) {
    redis_ok(d->f.r, "EVAL %s 0 %d %lld %d",
             "for q = 0, ARGV[1] - 1 do for i = 0, q do for hour = 0, 1 do redis.call('ZADD', 'q' .. q .. ':delayed', "
             "string.format('%.0f', ARGV[2] + (0.5 + hour) * ARGV[3]), hour .. 'job' .. i) end end end return 1",
             QUEUES, redis_ms(d->f.r), HOUR_MS);
    settle(d);
}

/* All queues become due in the same moment. */
static void step_hour(setup_t *d) {
    server_step_clock(d->f.server, HOUR_MS);
    fixture_step_boottime(HOUR_MS);
}

/* The reply to the first promote waits, and yet all promotes and the reads of all heads have reached Redis. */
static void expect_one_round_trip(const char *config, int scripts, const char *last_head) {
    scoped(setup_end) setup_t d;
    begin(&d, (fixture_options_t){.config = config, .preload = "shim_clock"});
    add_for_later(&d);
    long promotes = proxy_requests(d.f.proxy, PROMOTES), heads = proxy_requests(d.f.proxy, last_head);
    proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_HOLD, .match = PROMOTES});
    proxy_refuse_new(d.f.proxy, true);
    step_hour(&d);
    cr_assert(driver_until(&d.instance.driver, metric_get(&d.instance.metrics->reconnects) > 0, 15000)); /* no reply in time */
    cr_assert_eq(proxy_requests(d.f.proxy, PROMOTES) - promotes, scripts);
    cr_assert_eq(proxy_requests(d.f.proxy, last_head) - heads, 1, "the heads are read behind the promotes");
    proxy_pass(d.f.proxy);
    cr_assert(driver_until(&d.instance.driver, all_ready(&d, -1), 15000));
}

Test(redis_dispatcher_rounds, due_queues_share_a_round_trip) { expect_one_round_trip(GROUP SIX, 1, " 6 q0:delayed q1:delayed"); }

/* With a lock for each queue each queue has scripts of its own, because keys may be in different slots. */
Test(redis_dispatcher_rounds, queues_of_several_locks_share_a_round_trip) {
    expect_one_round_trip(PER_TAG SIX, QUEUES, " 1 q5:delayed");
}

/* Nothing but the heads that are read behind the promotes tells when the next jobs are due. */
Test(redis_dispatcher_rounds, each_head_behind_the_promotes_is_of_its_own_queue) {
    static const char *const configs[] = {GROUP SIX, PER_TAG SIX};
    for (size_t i = 0; i < 2; i++) {
        scoped(setup_end) setup_t d;
        begin(&d, (fixture_options_t){.config = configs[i], .preload = "shim_clock"});
        add_for_later(&d);
        for (int hour = 0; hour < 2; hour++) {
            step_hour(&d);
            cr_assert(driver_until(&d.instance.driver, all_ready(&d, -1), 15000), "hour %d: %s", hour, fixture_log());
            settle(&d);
            redis_ok(d.f.r, "DEL q0 q1 q2 q3 q4 q5");
        }
    }
}

/* Redis refuses one queue, which has this place among the promotes of one write. */
static void expect_one_refused(int place, const char *refuse, const char *repair) {
    scoped(setup_end) setup_t d;
    begin(&d, (fixture_options_t){.redis = "slice = \"100ms\"; username = \"part\"; password = \"secret\";",
                                  .args = (const char *const[]){"--user", "part", "on", ">secret", "~*", "&*", "+@all", NULL}});
    settle(&d);
    redis_ok(d.f.r, refuse, place);
    add_to_all(&d);
    expect_all_but(&d, place);
    settle(&d);
    expect_counted(&d, place);
    cr_assert_gt(metric_get(&of(&d, (size_t)place)->faults), 0);
    cr_assert_eq(metric_get(&of(&d, (size_t)place)->promoted), 0);
    cr_assert_eq(redis_int(d.f.r, "ZCARD q%d:delayed", place), place + 1);
    redis_ok(d.f.r, repair, place);
    fixture_step_boottime(5001);
    cr_assert(driver_until(&d.instance.driver, all_ready(&d, -1), 15000), "q%d stays refused", place);
    settle(&d);
    expect_counted(&d, -1);
}

static void expect_any_refused(const char *refuse, const char *repair) {
    for (int i = 0; i < PLACES; i++) expect_one_refused(PLACE[i], refuse, repair);
}

Test(redis_dispatcher_rounds, a_wrong_type_at_any_place_concerns_one_queue, .timeout = 120) {
    expect_any_refused("SET q%d x", "DEL q%d");
}

Test(redis_dispatcher_rounds, another_owner_at_any_place_concerns_one_queue, .timeout = 120) {
    expect_any_refused("HSET sidecar:q%d:meta group others", "DEL sidecar:q%d:meta");
}

static void expect_missing_rights(const char *rights) {
    static const char *const others[PLACES] = {"~q1* ~q2* ~q3* ~q4* ~q5*", "~q0* ~q1* ~q2* ~q4* ~q5*",
                                               "~q0* ~q1* ~q2* ~q3* ~q4*"};
    for (int i = 0; i < PLACES; i++) {
        char *rule = kept_printf("ACL SETUSER part resetkeys ~sidecar:* %s %s", rights, others[i]);
        expect_one_refused(PLACE[i], rule, "ACL SETUSER part ~*");
    }
}

/* A script that may not read one of its keys does not run at all: that of the promote, and that of all heads. */
Test(redis_dispatcher_rounds, missing_rights_at_any_place_concern_one_queue, .timeout = 120) { expect_missing_rights(""); }

/* The heads of all queues can be read, and yet the queues cannot be promoted together. */
Test(redis_dispatcher_rounds, missing_rights_to_ready_at_any_place_concern_one_queue, .timeout = 120) {
    expect_missing_rights("~*:delayed");
}

/* Redis is at maxmemory in the middle of the write, say. The others have run, and the jobs of this queue come after a pause. */
Test(redis_dispatcher_rounds, a_retryable_error_at_any_place_delays_jobs_and_loses_none, .timeout = 120) {
    static const char *const errors[] = {"-OOM x", "-LOADING x", "-READONLY x"};
    for (int i = 0; i < PLACES; i++) {
        scoped(setup_end) setup_t d;
        begin(&d, (fixture_options_t){0});
        settle(&d);
        char *match = kept_printf("q%d:delayed q%d ", PLACE[i], PLACE[i]);
        proxy_rule(d.f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = match, .error = errors[i]});
        add_to_all(&d);
        expect_all_but(&d, -1);
        settle(&d);
        expect_counted(&d, -1);
        cr_assert_eq(proxy_fired(d.f.proxy), 1);
    }
}

/* The connection is lost at the reply to each of the scripts that promote all queues. */
static void expect_each_once_after_losses(const char *config, int scripts) {
    scoped(setup_end) setup_t d;
    begin(&d, (fixture_options_t){.config = config});
    settle(&d);
    for (int nth = 1; nth <= scripts; nth++) {
        for (int i = 0; i < 2; i++) {
            redis_ok(d.f.r, "DEL q0 q1 q2 q3 q4 q5");
            proxy_rule(d.f.proxy, (proxy_rule_t){.action = i ? PROXY_LOSE : PROXY_DROP, .match = PROMOTES, .nth = nth});
            long fired = proxy_fired(d.f.proxy);
            add_to_all(&d);
            cr_assert(driver_until(&d.instance.driver, all_ready(&d, -1) && proxy_fired(d.f.proxy) > fired, 15000), "script %d",
                      nth);
            for (int q = 0; q < QUEUES; q++) cr_assert_eq(redis_int(d.f.r, "EXISTS q%d:delayed", q), 0);
            proxy_pass(d.f.proxy);
            settle(&d);
        }
    }
}

Test(redis_dispatcher_rounds, a_connection_lost_at_any_reply_moves_each_job_once, .timeout = 120) {
    expect_each_once_after_losses(GROUP SIX, 1);
    expect_each_once_after_losses(PER_TAG SIX, QUEUES);
}

Test(redis_dispatcher_rounds, a_cut_anywhere_moves_each_job_once, .timeout = 120) {
    scoped(setup_end) setup_t d;
    begin(&d, (fixture_options_t){0});
    settle(&d);
    for (long bytes = 0; bytes < 3000; bytes += 143) {
        redis_ok(d.f.r, "DEL q0 q1 q2 q3 q4 q5");
        proxy_cut_after(d.f.proxy, bytes % 2 ? PROXY_UP : PROXY_DOWN, bytes);
        add_to_all(&d);
        expect_all_but(&d, -1);
        proxy_pass(d.f.proxy);
        settle(&d);
    }
}

/* All promotes of the write are fenced: the dispatcher tells it once, and nothing moves. */
Test(redis_dispatcher_rounds, a_lock_lost_before_a_write_is_told_once) {
    scoped(setup_end) setup_t d;
    begin(&d, (fixture_options_t){0});
    settle(&d);
    redis_ok(d.f.r, "SET sidecar:app:lock another");
    add_to_all(&d);
    cr_assert(driver_until(&d.instance.driver, lease_take_suspicion(d.instance.leases, 0), 3000));
    cr_assert_leq(driver_run(&d.instance.driver, 200), 3);
    cr_assert_eq(fixture_log_count("fenced"), 1);
    for (int i = 0; i < QUEUES; i++) cr_assert_eq(redis_int(d.f.r, "ZCARD q%d:delayed", i), i + 1);
    instance_lead(&d.instance, d.f.r);
    expect_all_but(&d, -1);
    settle(&d);
    expect_counted(&d, -1);
}

/* Another instance has the lock of one queue, whose term here was the second. The promotes before and behind are not fenced. */
Test(redis_dispatcher_rounds, a_fenced_promote_at_any_place_concerns_one_queue, .timeout = 120) {
    for (int i = 0; i < PLACES; i++) {
        scoped(setup_end) setup_t d;
        begin(&d, (fixture_options_t){.config = PER_TAG SIX, .preload = "shim_clock"});
        size_t lost = d.f.keys->queues[PLACE[i]].lock;
        lease_t lease;
        cr_assert(lease_get(d.instance.leases, lost, &lease));
        lease_begin(d.instance.leases, lost, lease.token, lease.deadline);
        add_for_later(&d);
        redis_ok(d.f.r, "SET sidecar:q%d:lock another", PLACE[i]);
        step_hour(&d);
        cr_assert(driver_until(&d.instance.driver, all_ready(&d, PLACE[i]), 15000), "%s", fixture_log());
        settle(&d);
        expect_counted(&d, PLACE[i]);
        cr_assert_eq(redis_int(d.f.r, "LLEN q%d", PLACE[i]), 0);
        char *promotes = kept_printf("4 sidecar:q%d:lock", PLACE[i]);
        cr_assert_eq(proxy_requests(d.f.proxy, promotes), 1, "the fenced reply ends another term than that of its promote");
        for (size_t lock = 0; lock < QUEUES; lock++) cr_assert_eq(lease_take_suspicion(d.instance.leases, lock), lock == lost);
    }
}

/* The lease of one queue has ended; the others go on. */
Test(redis_dispatcher_rounds, a_queue_without_a_lease_is_in_no_write) {
    scoped(setup_end) setup_t d;
    begin(&d, (fixture_options_t){.config = PER_TAG SIX});
    settle(&d);
    long before = proxy_requests(d.f.proxy, "q3:delayed");
    lease_end(d.instance.leases, d.f.keys->queues[MIDDLE].lock);
    add_to_all(&d);
    expect_all_but(&d, MIDDLE);
    settle(&d);
    cr_assert_eq(proxy_requests(d.f.proxy, "q3:delayed"), before);
    instance_lead(&d.instance, d.f.r);
    expect_all_but(&d, -1);
}

#define MAIL "example.Mail"

/* Each dialect has a script of its own, and the replies keep their order. */
Test(redis_dispatcher_rounds, dialects_share_a_round_trip) {
    scoped(setup_end) setup_t d;
    begin(&d, (fixture_options_t){.config = GROUP "queues = ( " QUEUE(0) ", { name = \"video\"; dialect = \"bull\"; }, { name = "
                                                                         "\"mail\"; dialect = \"delayed_queue\"; types = [\"" MAIL
                                                                         "\"]; }, " QUEUE(1) " );"});
    settle(&d);
    for (int broken = 0; broken < 2; broken++) {
        if (broken) redis_ok(d.f.r, "SET bull:video:wait x");
        redis_ok(d.f.r, "MULTI");
        redis_ok(d.f.r, "ZADD q0:delayed 1 a 2 b 3 c");
        redis_ok(d.f.r, "ZADD q1:delayed 1 a");
        redis_ok(d.f.r, "HSET bull:video:1 name n priority 0");
        redis_ok(d.f.r, "ZADD bull:video:delayed 4096 1");
        redis_ok(d.f.r, "ZADD de_delayed_events 1700000000000 " MAIL "###1");
        redis_ok(d.f.r, "HSET de_events " MAIL "###1 %s",
                 "{\"payload\":{\"id\":\"1\"},\"type\":\"" MAIL "\",\"attempt\":1,\"logContext\":{}}");
        redis_ok(d.f.r, "EXEC");
        bool done =
            driver_until(&d.instance.driver,
                         redis_int(d.f.r, "LLEN q0") == 3 && redis_int(d.f.r, "LLEN q1") == 1 &&
                             redis_int(d.f.r, "LLEN de_mail") == 1 && (broken || redis_int(d.f.r, "LLEN bull:video:wait") == 1),
                         15000);
        cr_assert(done, "%s", fixture_log());
        settle(&d);
        const int64_t moved[] = {3, 1, 1, 1};
        for (size_t i = 0; i < 4; i++) {
            cr_assert_eq(metric_get(&of(&d, i)->promoted), moved[i] * (i == 1 ? 1 : broken + 1), "queue %zu", i);
            cr_assert_eq(metric_get(&of(&d, i)->faults) > 0, i == 1 && broken, "queue %zu", i);
        }
        redis_ok(d.f.r, "DEL q0 q1 de_mail de_events de_delayed_events%s", broken ? "" : " bull:video:wait");
    }
}

/* How often the text is in the requests. */
static int count_in_log(setup_t *d, const char *text) {
    char *log = proxy_log(d->f.proxy);
    int found = 0;
    for (char *at = log; (at = strstr(at, text)); at += strlen(text)) found++;
    free(log);
    return found;
}

/* Redis runs all scripts of one write before it serves others, so they divide redis.slice. */
Test(redis_dispatcher_rounds, promotes_of_one_write_divide_the_slice) {
    static const char *const configs[] = {GROUP SIX, PER_TAG SIX}, *const slices[] = {" 99996 ", " 16666 "};
    static const int scripts[] = {1, QUEUES};
    for (int i = 0; i < 2; i++) {
        scoped(setup_end) setup_t d;
        begin(&d, (fixture_options_t){.config = configs[i], .preload = "shim_clock"});
        add_for_later(&d);
        step_hour(&d);
        cr_assert(driver_until(&d.instance.driver, all_ready(&d, -1), 15000));
        cr_assert_geq(count_in_log(&d, slices[i]), scripts[i], "config %d", i);
    }
}

/* The first queue's backlog takes the time of a whole script. The next script begins with the queue behind it. */
Test(redis_dispatcher_rounds, a_backlog_lets_the_next_queue_be_the_first) {
    enum { JOBS = 20000 };
    scoped(setup_end) setup_t d;
    begin(&d, (fixture_options_t){.redis = "slice = \"50us\";"});
    settle(&d);
    redis_ok(
        d.f.r, "EVAL %s 0 %d %d",
        "for q = 0, ARGV[2] - 1 do for i = 1, q == 0 and ARGV[1] or 1 do redis.call('ZADD', 'q' .. q .. ':delayed', i, i) end "
        "end return 1",
        JOBS, QUEUES);
    cr_assert(driver_until(&d.instance.driver, length(&d, 0) == JOBS && length(&d, QUEUES - 1) == 1, 60000));
    char *log = proxy_log(d.f.proxy), *second = strstr(log, " sidecar:app:lock q1:delayed ");
    cr_assert(second && strstr(second, " sidecar:app:lock q0:delayed "), "the other queues had to wait for the backlog");
    free(log);
}
