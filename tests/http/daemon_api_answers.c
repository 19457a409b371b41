/* Requeues and discards by the API: once each, by whom and why, only what a dry run has seen. */
#include "api_fixture.h"

static cluster_t cluster;
static int port;
SUITE(daemon_api_answers, , cluster_end(&cluster));

#define FILTER "\"action\":\"requeue\",\"filter\":{\"queue\":\"q\"}"

static char *dry_run(void) {
    char *answer = order(port, "{" FILTER ",\"dry_run\":true}");
    expect_code(200, answer);
    return body_of(answer);
}

static char *with_plan(const char *plan, const char *more) {
    return order(port, kept_printf("{" FILTER ",\"plan\":\"%s\"%s}", plan, more));
}

/* Waits until the answer has the state, and returns it. */
static char *await_state(const char *id, const char *state) {
    char *path = kept_printf("/answers/%s", id), *wanted = kept_printf("\"state\":\"%s\"", state);
    cr_assert(wait_for(strstr(look(port, path), wanted) != NULL, 20000), "%s", look(port, path));
    return look(port, path);
}

/* Another instance of the group, whose log has `failures`. */
static daemon_t *begin_other(int *other, int failures) {
    const char *http = kept_printf("token_file = \"%s\";", temp_path(temp_root(), "tokens"));
    daemon_t *d = serving(&cluster, (sidecar_t){.http = http}, other);
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(d)) == failures, 20000), "%s", daemon_log(d));
    return d;
}

static char *ref_of(const daemon_t *d, int job) {
    return audit_log_word(daemon_audit_path(d), kept_printf("SELECT ref FROM events WHERE kind = 'failed' AND job = '%d'", job));
}

Test(daemon_api_answers, one_failure_is_put_back_once_and_the_log_says_who_and_why) {
    daemon_t *d = api_begin(&cluster, 3, &port, (sidecar_t){0});
    char *ref = ref_of(d, 1),
         *body = kept_printf("{\"action\":\"requeue\",\"refs\":[\"%s\"],\"because\":\"address corrected\"}", ref);
    char *begun = order(port, body);
    expect_code(202, begun);
    char *id = member(begun, "id");
    expect_says(begun, kept_printf("Location: /api/v1/answers/%s\r\n", id));
    char *done = await_state(id, "done");
    expect_says(done, "\"jobs\":1,\"done\":1,\"results\":{\"done\":1,");
    expect_says(done, kept_printf("\"items\":[{\"ref\":\"%s\"", ref));
    expect_says(done, "\"by\":\"alice\",\"because\":\"address corrected\",\"error\":null}");
    cr_expect_eq(redis_int(cluster.r, "LLEN q"), 1);
    cr_assert(wait_for(strstr(look(port, kept_printf("/failures/%s", ref)), "\"kind\":\"requeued\"") != NULL, 10000));
    char *shown = look(port, kept_printf("/failures/%s", ref));
    expect_says(shown, "\"answered_by\":\"alice\",\"answer_reason\":\"address corrected\"");
    char *again = order(port, body);
    expect_code(409, again);
    expect_says(again, kept_printf("%s was requeued by alice at 20", ref));
    cr_expect_eq(redis_int(cluster.r, "LLEN q"), 1);
    expect_says(look(port, "/failures?state=requeued"), ref);
}

Test(daemon_api_answers, filter_needs_a_plan_and_later_failures_stay) {
    daemon_t *d = api_begin(&cluster, 5, &port, (sidecar_t){0});
    expect_code(400, order(port, "{" FILTER "}"));
    char *planned = dry_run(), *plan = member(planned, "plan");
    expect_says(planned, "\"jobs\":5,\"queues\":[{\"queue\":\"q\",\"jobs\":5}],\"answered\":0,\"earlier\":0}");
    cr_expect_eq(redis_int(cluster.r, "LLEN q"), 0, "a dry run puts nothing back");
    audit_log_feed(cluster.r, "q", 5, 5, NULL);
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(d)) == 10, 10000));
    char *begun = with_plan(plan, "");
    expect_code(202, begun);
    expect_says(await_state(member(begun, "id"), "done"), "\"jobs\":5,\"done\":5,");
    cr_expect_eq(redis_int(cluster.r, "LLEN q"), 5);
    expect_code(409, order(port, kept_printf("{\"action\":\"discard\",\"filter\":{\"queue\":\"q\"},\"plan\":\"%s\"}", plan)));
    expect_code(400, with_plan("nonsense", ""));
    char *outdated = kept_printf("1%s", strchr(plan, '.'));
    char *late = with_plan(outdated, "");
    expect_code(409, late);
    expect_says(late, "the plan is outdated since 1970-01-01T00:00:00.001Z");
    char *changed = with_plan(kept_printf("9%s", plan), "");
    expect_code(409, changed);
    expect_says(changed, "was changed");
}

Test(daemon_api_answers, failures_of_an_earlier_time_that_arrive_later_outdate_the_plan) {
    daemon_t *d = api_begin(&cluster, 0, &port, (sidecar_t){0});
    audit_log_feed(cluster.r, "q", 10, 3, NULL);
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(d)) == 3, 10000));
    char *plan = member(dry_run(), "plan");
    audit_log_feed(cluster.r, "q", 0, 3, NULL); /* by their time before the others */
    cr_assert(wait_for(audit_log_rows(daemon_audit_path(d)) == 6, 10000));
    char *refused = with_plan(plan, "");
    expect_code(409, refused);
    expect_says(refused, "have arrived in the log");
    cr_expect_eq(redis_int(cluster.r, "LLEN q"), 0);
}

static void await_rows(const daemon_t *d, int failures, int answers) {
    const char *log = daemon_audit_path(d), *sql = "SELECT count(*) FROM events WHERE kind IN ('requeued', 'discarded')";
    cr_assert(wait_for(audit_log_rows(log) == failures && audit_log_int(log, sql) == answers, 10000));
}

static char *answer_one(const daemon_t *d, const char *action, int job) {
    return order(port, kept_printf("{\"action\":\"%s\",\"refs\":[\"%s\"]}", action, ref_of(d, job)));
}

/* Plans an order of that filter, and returns the plan. */
static char *plan_of(const char *of, int jobs) {
    char *planned = order(port, kept_printf("{%s,\"dry_run\":true}", of));
    expect_says(planned, kept_printf("\"jobs\":%d,", jobs));
    return member(planned, "plan");
}

static char *carry_out(const char *of, const char *plan) { return order(port, kept_printf("{%s,\"plan\":\"%s\"}", of, plan)); }

Test(daemon_api_answers, failure_that_comes_late_takes_no_place_of_an_answered_one) {
    daemon_t *d = api_begin(&cluster, 0, &port, (sidecar_t){0});
    static const char *const filters[] = {FILTER, "\"action\":\"discard\",\"filter\":{\"queue\":\"q\",\"state\":\"open\"}"};
    audit_log_feed(cluster.r, "q", 10, 4, NULL);
    await_rows(d, 4, 0);
    for (int i = 0; i < 2; i++) {
        char *plan = plan_of(filters[i], 4);
        expect_code(202, answer_one(d, "discard", 10 + i));
        audit_log_feed(cluster.r, "q", i, 1, NULL); /* by its time before the others */
        await_rows(d, 5 + i, 1 + i);
        char *refused = carry_out(filters[i], plan);
        expect_code(409, refused);
        expect_says(refused, "have arrived in the log");
    }
    await_rows(d, 6, 2);
}

Test(daemon_api_answers, plan_holds_when_somebody_else_answers_some) {
    daemon_t *d = api_begin(&cluster, 4, &port, (sidecar_t){0});
    static const char of[] = "\"action\":\"requeue\",\"filter\":{\"queue\":\"q\",\"state\":\"open\"}";
    char *plan = plan_of(of, 4);
    expect_code(202, answer_one(d, "discard", 1));
    await_rows(d, 4, 1);
    char *begun = carry_out(of, plan);
    expect_code(202, begun);
    expect_says(await_state(member(begun, "id"), "done"), "\"jobs\":3,\"done\":3,");
}

Test(daemon_api_answers, plan_repeats_only_the_answers_that_its_dry_run_has_seen) {
    daemon_t *d = api_begin(&cluster, 4, &port, (sidecar_t){0});
    static const char of[] = "\"action\":\"requeue\",\"again\":true,\"filter\":{\"queue\":\"q\",\"state\":\"requeued\"}";
    expect_code(202, answer_one(d, "requeue", 1));
    await_rows(d, 4, 1);
    char *plan = plan_of(of, 1);
    expect_code(202, answer_one(d, "requeue", 0));
    await_rows(d, 4, 2);
    expect_code(409, carry_out(of, plan));
    cr_expect_eq(redis_int(cluster.r, "LLEN q"), 2);
}

/* An age in a filter begins with the dry run: who reads its result for a minute loses no failure. */
Test(daemon_api_answers, age_of_a_filter_begins_with_the_dry_run) {
    api_begin(&cluster, 4, &port, (sidecar_t){0});
    long long now_s = time(NULL);
    char *of = kept_printf("\"action\":\"requeue\",\"filter\":{\"since\":\"%llds\"}", now_s - 1700000002 + 4);
    char *plan = plan_of(of, 4);
    cr_assert(wait_for(time(NULL) >= now_s + 6, 20000));
    char *begun = carry_out(of, plan);
    expect_code(202, begun);
    expect_says(await_state(member(begun, "id"), "done"), "\"jobs\":4,\"done\":4,");
}

Test(daemon_api_answers, stopped_half_way_and_run_again_each_job_once) {
    enum { JOBS = 300 };
    api_begin(&cluster, JOBS, &port, (sidecar_t){0});
    char *plan = member(dry_run(), "plan"), *begun = with_plan(plan, ",\"rate\":\"100/s\"");
    expect_code(202, begun);
    char *path = kept_printf("/answers/%s", member(begun, "id"));
    cr_assert(wait_for(redis_int(cluster.r, "LLEN q") >= 20, 10000));
    expect_code(200, call(port, path, (call_t){.method = "DELETE", .token = ALL}));
    await_state(member(begun, "id"), "stopped");
    long long first = redis_int(cluster.r, "LLEN q");
    cr_assert_lt(first, JOBS);
    char *rest = with_plan(plan, "");
    expect_code(202, rest);
    await_state(member(rest, "id"), "done");
    cr_expect_eq(redis_int(cluster.r, "LLEN q"), JOBS);
    redis_ok(cluster.r, "EVAL %s 1 q",
             "for _, job in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do redis.call('SADD', 'jobs', job) end");
    cr_expect_eq(redis_int(cluster.r, "SCARD jobs"), JOBS, "a job came twice");
}

Test(daemon_api_answers, plan_of_one_instance_holds_at_another) {
    daemon_t *d = api_begin(&cluster, 4, &port, (sidecar_t){0});
    int other;
    begin_other(&other, 4);
    char *body = kept_printf("{" FILTER ",\"plan\":\"%s\"}", member(dry_run(), "plan"));
    char *begun = call(other, "/answers", (call_t){.method = "POST", .token = ALL, .body = body});
    expect_code(202, begun);
    cr_assert(wait_for(redis_int(cluster.r, "LLEN q") == 4, 10000));
    char *ref = ref_of(d, 1);
    cr_assert(wait_for(strstr(look(port, kept_printf("/failures/%s", ref)), "\"answered_by\":\"alice\"") != NULL, 10000));
    expect_says(await_state(member(begun, "id"), "done"), "\"by\":\"alice\"");
}

Test(daemon_api_answers, other_instance_tells_how_far_an_answer_is_and_stops_it) {
    enum { JOBS = 300 };
    int other;
    api_begin(&cluster, JOBS, &port, (sidecar_t){0});
    begin_other(&other, JOBS);
    char *begun = with_plan(member(dry_run(), "plan"), ",\"rate\":\"20/s\",\"because\":\"the \\\"relay\\\" works\"");
    char *path = kept_printf("/answers/%s", member(begun, "id"));
    char *told = look(other, path); /* at once, as a page behind a load balancer does */
    expect_code(200, told);
    expect_says(told, "\"state\":\"running\",\"jobs\":300,");
    expect_says(told, "\"by\":\"alice\",\"because\":\"the \\\"relay\\\" works\",\"error\":null}");
    cr_assert(wait_for(strstr(look(other, path), "\"result\":\"done\"") != NULL, 10000), "%s", look(other, path));
    expect_code(403, call(other, path, (call_t){.method = "DELETE", .token = LOOK}));
    char *stopped = call(other, path, (call_t){.method = "DELETE", .token = ALL});
    expect_code(202, stopped);
    expect_says(stopped, "\"state\":\"running\"");
    await_state(member(begun, "id"), "stopped");
    cr_assert(wait_for(strstr(look(other, path), "\"state\":\"stopped\"") != NULL, 5000));
    cr_expect_lt(redis_int(cluster.r, "LLEN q"), JOBS);
    cr_expect_str_eq(body_of(look(other, path)), body_of(look(port, path)), "both tell the same of its end");
    expect_code(200, call(other, path, (call_t){.method = "DELETE", .token = ALL}));
    char *key = kept_printf("sidecar:{g}:answer:%s", member(begun, "id"));
    cr_expect_leq(redis_int(cluster.r, "PTTL %s", key), 3600000);
    cr_expect_gt(redis_int(cluster.r, "PTTL %s:stop", key), 0);
}

Test(daemon_api_answers, answer_of_an_instance_that_was_killed_is_lost) {
    int other;
    daemon_t *d = api_begin(&cluster, 5, &port, (sidecar_t){0});
    begin_other(&other, 5);
    char *begun = with_plan(member(dry_run(), "plan"), ",\"rate\":\"1/m\"");
    char *path = kept_printf("/answers/%s", member(begun, "id"));
    daemon_kill(d);
    expect_says(look(other, path), "\"state\":\"running\"");
    redis_ok(cluster.r, "PEXPIRE sidecar:{g}:answer:%s 3580000", member(begun, "id")); /* as if 20 s had passed */
    char *lost = look(other, path);
    expect_code(200, lost);
    expect_says(lost, "\"state\":\"lost\",\"jobs\":5,");
    expect_says(lost, "\"error\":\"the instance that carries it out has not reported for 20 s: ");
    expect_code(200, call(other, path, (call_t){.method = "DELETE", .token = ALL}));
    cr_expect_eq(redis_int(cluster.r, "EXISTS sidecar:{g}:answer:%s:stop", member(begun, "id")), 0);
}

Test(daemon_api_answers, order_goes_on_where_redis_refuses_its_state) {
    daemon_t *d = api_begin(&cluster, 3, &port, (sidecar_t){0});
    redis_ok(cluster.r, "ACL SETUSER default resetkeys ~q ~q:* ~*_alive ~sidecar:q:* ~sidecar:g:*");
    char *begun = with_plan(member(dry_run(), "plan"), "");
    await_state(member(begun, "id"), "done");
    redis_ok(cluster.r, "ACL SETUSER default allkeys");
    cr_expect_eq(redis_int(cluster.r, "LLEN q"), 3);
    cr_expect_eq(redis_int(cluster.r, "EXISTS sidecar:{g}:answer:%s", member(begun, "id")), 0);
    cr_expect_eq(daemon_log_count(d, "other instances do not know this answer"), 1, "%s", daemon_log(d));
}

Test(daemon_api_answers, only_answers_of_the_group_are_read_from_redis) {
    static const char *const paths[] = {"/answers/0123456789abcdef",
                                        "/answers/0123456789abcde",
                                        "/answers/0123456789ABCDEF",
                                        "/answers/0123456789abcdef:stop",
                                        "/answers/*",
                                        "/answers/0123456789abcdef%0d%0a"};
    api_begin(&cluster, 0, &port, (sidecar_t){0});
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *id = paths[i] + strlen("/answers/");
        if (i) redis_ok(cluster.r, "SET sidecar:{g}:answer:%s {\"state\":\"done\",\"error\":null}", id);
        expect_code(404, look(port, paths[i]));
        expect_code(404, call(port, paths[i], (call_t){.method = "DELETE", .token = ALL}));
    }
    redis_ok(cluster.r, "SET sidecar:{g}:answer:0123456789abcdef text");
    char *none = look(port, paths[0]);
    expect_code(503, none);
    expect_says(none, "sidecar:{g}:answer:0123456789abcdef holds no answer");
    redis_ok(cluster.r, "FLUSHALL");
    redis_ok(cluster.r, "LPUSH sidecar:{g}:answer:0123456789abcdef text");
    expect_code(503, look(port, paths[0]));
    expect_code(503, call(port, paths[0], (call_t){.method = "DELETE", .token = ALL}));
    cr_expect_eq(redis_int(cluster.r, "EXISTS sidecar:{g}:answer:0123456789abcdef:stop"), 0);
}

/* Counts of a filter tell what is in errors and job ids. */
Test(daemon_api_answers, filter_needs_the_right_to_look) {
    daemon_t *d = api_begin(&cluster, 3, &port, (sidecar_t){0});
    call_t of = {.method = "POST", .token = "dora-token-0123456789"};
    temp_write(temp_path(temp_root(), "tokens"), LINES "dora act dora-token-0123456789\nerin act,look erin-token-0123456789\n");
    of.body = "{\"action\":\"requeue\",\"filter\":{\"text\":\"route\"},\"dry_run\":true}";
    char *refused = call(port, "/answers", of);
    expect_code(403, refused);
    expect_says(refused, "a `filter` needs the right look, which the token of dora lacks");
    of.token = "erin-token-0123456789";
    expect_says(call(port, "/answers", of), "\"jobs\":3,");
    of.token = "dora-token-0123456789";
    of.body = kept_printf("{\"action\":\"requeue\",\"refs\":[\"%s\"]}", ref_of(d, 1));
    expect_code(202, call(port, "/answers", of));
    cr_assert(wait_for(redis_int(cluster.r, "LLEN q") == 1, 10000));
}

Test(daemon_api_answers, wrong_orders_are_refused) {
    daemon_t *d = api_begin(&cluster, 2, &port, (sidecar_t){0});
    char *ref = ref_of(d, 1);
    expect_code(404, order(port, "{\"action\":\"requeue\",\"refs\":[\"zzzz\"]}"));
    char *to = order(port, kept_printf("{\"action\":\"requeue\",\"refs\":[\"%s\"],\"to\":\"qq\"}", ref));
    expect_code(400, to);
    expect_says(to, "bad `to`: no queue has this name\",\"nearest\":\"q\"");
    expect_says(order(port, kept_printf("{\"action\":\"discard\",\"refs\":[\"%s\",\"%s\"],\"dry_run\":true}", ref, ref)),
                "\"jobs\":1,");
    expect_code(404, look(port, "/answers/0123456789abcdef"));
    server_kill(cluster.server);
    char *away = order(port, kept_printf("{\"action\":\"requeue\",\"refs\":[\"%s\"]}", ref));
    expect_code(503, away);
    expect_says(away, "Retry-After: 5\r\n");
    server_restart(cluster.server, SERVER_LOSE_DATA);
    cluster_reopen(&cluster);
}

Test(daemon_api_answers, few_run_at_once_and_a_stop_of_the_sidecar_ends_them) {
    daemon_t *d = api_begin(&cluster, 100, &port, (sidecar_t){0});
    char *plan = member(dry_run(), "plan");
    for (int i = 0; i < 4; i++) expect_code(202, with_plan(plan, ",\"rate\":\"1/m\""));
    char *fifth = with_plan(plan, "");
    expect_code(429, fifth);
    expect_says(fifth, "Retry-After: 1\r\n");
    expect_code(200, look(port, "/failures"));
    cr_expect_eq(daemon_terminate(d, 5000).code, 0, "%s", daemon_log(d));
}
