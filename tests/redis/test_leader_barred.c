/* Queues that the preflight bars: those of a dialect whose commands are refused. The others are served, it is said, and who mends
 * the right need not restart anything. */
#include "fixture.h"
#include "health.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG                                                                                                                   \
    "group = \"app\"; lock = { ttl = \"5s\"; }; queues = ( { name = \"email\"; }, { name = \"video\"; dialect = \"bull\"; }, "   \
    "{ name = \"audio\"; dialect = \"bull\"; }, { name = \"mail\"; dialect = \"kmqueue\"; queues = [\"one:safe\"]; } );"
#define NOT_SERVED "preflight: this queue is not served"

static fixture_t setup(void) { return fixture_start(&(fixture_options_t){.config = CONFIG, .proxy = true, .closed = true}); }

/* A job of each queue that has delayed ones is due. */
static void delay_jobs(fixture_t *f) {
    redis_ok(f->r, "ZADD email:delayed 1 job");
    redis_ok(f->r, "HSET bull:video:1 name n data {} opts {}");
    redis_ok(f->r, "ZADD bull:video:delayed 1 1");
}

static bool leads(crew_t *crew) {
    lease_t lease;
    return lease_get(crew->leases, 0, &lease);
}

/* What /readyz says. */
static bool told_by_health(crew_t *crew, const char *text) {
    health_t *health = health_new(crew->metrics);
    buffer_t json = {0};
    cr_assert(health_ready(health, &json), "the other queues are served: %s", buffer_text(&json));
    bool told = strstr(buffer_text(&json), text) != NULL;
    buffer_free(&json);
    health_free(health);
    return told;
}

Test(redis_leader_barred, what_one_dialect_lacks_keeps_no_other_queue_from_being_served) {
    fixture_t f = setup();
    crew_t crew;
    redis_ok(f.r, "ACL SETUSER default -zcount"); /* bull alone needs it */
    delay_jobs(&f);
    crew_start(&crew, f.keys, CREW_LEADER | CREW_DISPATCHER | CREW_MONITOR);
    cr_assert(stage_until(&crew.stage, redis_int(f.r, "LLEN email") == 1, 10000), "%s", fixture_log());
    cr_assert(leads(&crew));
    cr_assert_eq(redis_int(f.r, "LLEN bull:video:wait"), 0);
    cr_assert_eq(metric_get(&crew.metrics->preflight_faults), 2, "a fault for each of the two queues");
    cr_assert_eq(metric_get(&crew.metrics->unserved), 2);
    cr_assert(told_by_health(&crew, "nobody serves some queues for us"));
    cr_assert_eq(fixture_log_count(NOT_SERVED), 2);
    cr_assert_eq(fixture_log_count("script bull_promote: "), 2);
    cr_assert_eq(fixture_log_count("cannot lead"), 0);
    crew_stop(&crew);
    fixture_stop(&f);
}

Test(redis_leader_barred, a_right_that_is_mended_takes_effect_without_a_restart) {
    fixture_t f = setup();
    crew_t crew;
    redis_ok(f.r, "ACL SETUSER default -zcount -scard");
    delay_jobs(&f);
    crew_start(&crew, f.keys, CREW_LEADER | CREW_DISPATCHER | CREW_MONITOR);
    cr_assert(stage_until(&crew.stage, redis_int(f.r, "LLEN email") == 1, 10000), "%s", fixture_log());
    cr_assert_eq(metric_get(&crew.metrics->unserved), 3);
    for (int i = 0; i < 3; i++) { /* looked at again and again, said once */
        long before = proxy_requests(f.proxy, "sidecar:preflight");
        fixture_step_boottime(3000); /* in two steps: one of 5 s would end the term */
        stage_run(&crew.stage, 50);
        fixture_step_boottime(2000);
        cr_assert(stage_until(&crew.stage, proxy_requests(f.proxy, "sidecar:preflight") > before, 3000), "look %d", i);
    }
    cr_assert_eq(fixture_log_count(NOT_SERVED), 3);
    redis_ok(f.r, "ACL SETUSER default +zcount");
    fixture_step_boottime(3000);
    stage_run(&crew.stage, 50);
    fixture_step_boottime(2000);
    cr_assert(stage_until(&crew.stage, redis_int(f.r, "LLEN bull:video:wait") == 1, 10000), "%s", fixture_log());
    cr_assert_eq(metric_get(&crew.metrics->unserved), 1, "kmqueue still lacks its own");
    cr_assert_eq(metric_get(&crew.metrics->preflight_faults), 1);
    cr_assert_eq(fixture_log_count("nothing bars this queue any more"), 2);
    cr_assert_eq(metric_get(&crew.metrics->terms), 1, "no term ended for it");
    redis_ok(f.r, "ACL SETUSER default +scard");
    fixture_step_boottime(3000);
    stage_run(&crew.stage, 50);
    fixture_step_boottime(2000);
    cr_assert(stage_until(&crew.stage, metric_get(&crew.metrics->preflight_faults) == 0, 10000));
    cr_assert(!told_by_health(&crew, "nobody serves some queues for us"));
    long looks = proxy_requests(f.proxy, "sidecar:preflight");
    fixture_step_boottime(3000);
    stage_run(&crew.stage, 50);
    fixture_step_boottime(3000);
    stage_run(&crew.stage, 100);
    cr_assert_eq(proxy_requests(f.proxy, "sidecar:preflight"), looks, "where nothing is barred nobody looks");
    crew_stop(&crew);
    fixture_stop(&f);
}

/* What every queue needs is another matter. */
Test(redis_leader_barred, a_core_command_that_is_refused_still_means_that_nobody_leads) {
    fixture_t f = setup();
    crew_t crew;
    redis_ok(f.r, "ACL SETUSER default -xtrim");
    delay_jobs(&f);
    crew_start(&crew, f.keys, CREW_LEADER | CREW_DISPATCHER | CREW_MONITOR);
    cr_assert(stage_until(&crew.stage, fixture_log_count("cannot lead") > 0, 10000));
    stage_run(&crew.stage, 200);
    cr_assert_not(leads(&crew));
    cr_assert_eq(redis_int(f.r, "LLEN email"), 0);
    redis_ok(f.r, "ACL SETUSER default +xtrim");
    fixture_step_boottime(5000);
    cr_assert(stage_until(&crew.stage, redis_int(f.r, "LLEN email") == 1, 10000));
    crew_stop(&crew);
    fixture_stop(&f);
}

/* A look that fails half-way tells nothing: the queue stays barred, the term goes on, and nobody spins. */
Test(redis_leader_barred, a_look_that_is_lost_changes_nothing) {
    fixture_t f = setup();
    crew_t crew;
    redis_ok(f.r, "ACL SETUSER default -zcount");
    delay_jobs(&f);
    crew_start(&crew, f.keys, CREW_LEADER | CREW_DISPATCHER);
    cr_assert(stage_until(&crew.stage, redis_int(f.r, "LLEN email") == 1, 10000), "%s", fixture_log());
    for (int nth = 1; nth <= 40; nth += 13) {
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_LOSE, .match = "sidecar:preflight", .nth = nth});
        fixture_step_boottime(3000);
        stage_run(&crew.stage, 50);
        fixture_step_boottime(2000);
        cr_assert(stage_until(&crew.stage, proxy_fired(f.proxy) > 0, 5000), "request %d", nth);
        proxy_pass(f.proxy);
        long steps = stage_run(&crew.stage, 200);
        cr_assert_leq(steps, 20, "it spins");
        cr_assert_eq(redis_int(f.r, "LLEN bull:video:wait"), 0);
        cr_assert(stage_until(&crew.stage, leads(&crew), 10000));
    }
    cr_assert_eq(fixture_log_count(NOT_SERVED), 2);
    redis_ok(f.r, "ACL SETUSER default +zcount");
    fixture_step_boottime(3000);
    stage_run(&crew.stage, 50);
    fixture_step_boottime(2000);
    cr_assert(stage_until(&crew.stage, redis_int(f.r, "LLEN bull:video:wait") == 1, 10000), "%s", fixture_log());
    crew_stop(&crew);
    fixture_stop(&f);
}

/* The instance that takes over has looked long ago, when it came to stand by. */
Test(redis_leader_barred, an_heir_looks_before_it_believes_what_it_once_saw) {
    fixture_t f = setup();
    crew_t one, two;
    crew_start(&one, f.keys, CREW_LEADER);
    cr_assert(stage_until(&one.stage, leads(&one), 10000));
    redis_ok(f.r, "ACL SETUSER default -zcount");
    crew_start(&two, f.keys, CREW_LEADER | CREW_DISPATCHER | CREW_MONITOR);
    cr_assert(stage_until(&two.stage, fixture_log_count("standing by") > 0, 5000));
    redis_ok(f.r, "ACL SETUSER default +zcount");
    delay_jobs(&f);
    fixture_step_boottime(6000);
    leader_finish(one.leader);
    cr_assert(stage_until(&two.stage, redis_int(f.r, "LLEN bull:video:wait") == 1, 10000), "%s", fixture_log());
    crew_stop(&one);
    crew_stop(&two);
    fixture_stop(&f);
}
