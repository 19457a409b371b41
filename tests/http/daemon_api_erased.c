/* The API with failures whose texts were erased. */
#include "api_fixture.h"

static cluster_t cluster;
static int port;
SUITE(daemon_api_erased, , cluster_end(&cluster));

/* Begins with three failures, of which that of job 1 is erased. Returns its ref. */
static char *begin_erased(void) {
    daemon_t *d = api_begin(&cluster, 3, &port, (sidecar_t){0});
    char *ref = audit_log_word(daemon_audit_path(d), "SELECT ref FROM events WHERE job = '1'");
    const char *const argv[] = {"audit", "erase", ref,   "-c", daemon_config_path(d), "--db", daemon_audit_path(d), "--because",
                                "asked", "--by",  "bob", NULL};
    const daemon_output_t *erase = daemon_run_argv(NULL, argv);
    cr_assert_eq(erase->code, 0, "%s", erase->err);
    cr_assert(wait_for(strstr(look(port, kept_printf("/failures/%s", ref)), "\"erased_by\":\"bob\"") != NULL, 20000));
    return ref;
}

Test(daemon_api_erased, row_stays_and_says_who_erased_it) {
    char *ref = begin_erased(), *shown = look(port, kept_printf("/failures/%s", ref));
    expect_code(200, shown);
    expect_says(shown, "\"state\":\"failed\"");
    expect_says(shown, "\"error\":\"\"");
    expect_says(shown, "\"payload\":\"\"");
    expect_says(shown, "\"size\":100,");
    expect_says(shown, "\"erased_at\":\"20");
    expect_says(shown, "\"erase_reason\":\"asked\"");
    expect_says(shown, "\"kind\":\"erased\"");
    char *theirs = call(port, kept_printf("/failures/%s", ref), (call_t){.token = LOOK});
    cr_expect(strstr(theirs, "\"erased_by\":\"bob\"") && !strstr(theirs, "payload"), "%s", theirs);
}

Test(daemon_api_erased, payload_is_gone_and_the_problem_says_who_erased_it) {
    char *ref = begin_erased(), *gone = look(port, kept_printf("/failures/%s/payload", ref));
    expect_code(410, gone);
    expect_says(gone, "\"title\":\"Gone\"");
    expect_says(gone, "the payload was erased by bob at 20");
    expect_code(403, call(port, kept_printf("/failures/%s/payload", ref), (call_t){.token = LOOK}));
}

Test(daemon_api_erased, lists_and_groups_count_the_row_and_no_text_finds_it) {
    char *ref = begin_erased();
    expect_says(look(port, "/failures?state=failed"), ref);
    cr_expect_eq(count_of(look(port, "/failures?text=ppp00000001"), "\"ref\""), 0);
    cr_expect_eq(count_of(look(port, "/failures?text=route"), "\"ref\""), 2);
    expect_says(look(port, "/failures/groups?by=reason"), "\"failures\":3,\"open\":3,");
    char *errors = look(port, "/failures/groups?by=error");
    expect_says(errors, "{\"error\":\"no route to host\",\"failures\":2,");
    expect_says(errors, "{\"error\":\"\",\"failures\":1,");
}

Test(daemon_api_erased, is_never_put_back_and_the_problem_says_who_erased_it) {
    char *ref = begin_erased();
    static const char *const again[] = {"", ",\"again\":true"};
    for (int i = 0; i < 2; i++) {
        char *refused = order(port, kept_printf("{\"action\":\"requeue\",\"refs\":[\"%s\"]%s}", ref, again[i]));
        expect_code(409, refused);
        expect_says(refused, kept_printf("\"detail\":\"erased: %s was erased by bob at 20", ref));
    }
    expect_says(order(port, kept_printf("{\"action\":\"requeue\",\"refs\":[\"%s\"],\"dry_run\":true}", ref)),
                "\"jobs\":0,\"queues\":[],\"answered\":1,");
    char *planned = order(port, "{\"action\":\"requeue\",\"filter\":{\"queue\":\"q\"},\"dry_run\":true}");
    char *begun = order(
        port, kept_printf("{\"action\":\"requeue\",\"filter\":{\"queue\":\"q\"},\"plan\":\"%s\"}", member(planned, "plan")));
    expect_code(202, begun);
    char *path = kept_printf("/answers/%s", member(begun, "id"));
    cr_assert(wait_for(strstr(look(port, path), "\"state\":\"done\"") != NULL, 20000));
    char *done = look(port, path);
    expect_says(done, "\"erased\":1");
    expect_says(done, "\"result\":\"erased\",\"detail\":\"erased 20");
    cr_expect_eq(redis_int(cluster.r, "LLEN q"), 2);
}

Test(daemon_api_erased, may_still_be_discarded) {
    char *ref = begin_erased();
    expect_code(202, order(port, kept_printf("{\"action\":\"discard\",\"refs\":[\"%s\"]}", ref)));
    cr_assert(wait_for(strstr(look(port, "/failures?state=discarded"), ref) != NULL, 20000));
    char *refused = order(port, kept_printf("{\"action\":\"requeue\",\"refs\":[\"%s\"]}", ref));
    expect_code(409, refused);
    expect_says(refused, "was discarded by alice at 20");
}
