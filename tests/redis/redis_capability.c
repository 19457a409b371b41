/* Features that a managed service refuses: those that the program can go without, and those that it needs. */
#include "fixture.h"
#include "inspect/preflight.h"
#include "queue/lock.h"
#include "redis/service/capability.h"
#include "wait.h"

#define GOING_ON "redis refuses a command; going on without it"
#define COMPILE  "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'"

static fixture_t f;

static void refuse(const char *match, const char *error) {
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = match, .begins = true, .error = error, .times = -1});
}

static fixture_t begin(void) { return fixture_start(&(fixture_options_t){.proxy = true, .closed = true}); }

static void reopen(void) {
    conn_close(f.conn);
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_OK, "%s", f.error.text);
}

static void expect_a_script_runs(void) {
    scoped(lock_state_clear) lock_state_t state = {0};
    lock_call_t call = fixture_lock_call(&f, 0, "T", 60000);
    cr_assert_eq(lock_acquire(&call, &state), OUTCOME_OK, "%s", f.error.text);
    redis_expect(f.r, "T", "GET sidecar:app:lock");
}

SUITE(redis_capability, , fixture_stop(&f));

Test(redis_capability, a_refused_name_and_version_are_logged_once_in_a_process) {
    f = begin();
    refuse("CLIENT SETNAME", "-ERR unknown subcommand 'SETNAME'");
    refuse("INFO", "-NOPERM this user has no permissions to run the 'info' command");
    int flags = server_major(f.server) < 7; /* without a version, flags are tried, too */
    for (int i = 0; i < 3; i++) {
        reopen();
        capability_log_refusals("leader");
        fixture_step_boottime(11000); /* the log leaves out lines that repeat within 10 s */
    }
    cr_assert_eq(conn_version(f.conn), 0);
    cr_assert_str_eq(conn_server(f.conn), "redis of an unknown version");
    cr_assert_eq(fixture_log_count(GOING_ON), 2 + flags, "%s", fixture_log());
    cr_assert_eq(fixture_log_count("\"command\":\"CLIENT SETNAME\""), 1);
    cr_assert_eq(fixture_log_count("\"command\":\"INFO server\""), 1);
    expect_a_script_runs();
    proxy_pass(f.proxy); /* the rights come and go again */
    reopen();
    cr_assert_geq(conn_version(f.conn), 60200);
    refuse("INFO", "-NOPERM x");
    reopen();
    capability_log_refusals("leader");
    cr_assert_eq(fixture_log_count(GOING_ON), 3 + flags);
}

Test(redis_capability, a_missing_login_stays_an_error) {
    f = begin();
    redis_ok(f.r, "CONFIG SET requirepass secret");
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED);
    cr_assert(strncmp(f.error.text, "NOAUTH", 6) == 0, "%s", f.error.text);
    cr_assert_not(conn_is_open(f.conn));
}

Test(redis_capability, scripts_are_loaded_without_flags_where_flags_are_refused) {
    f = begin();
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "#!lua", .error = COMPILE, .times = -1});
    for (int i = 0; i < 3; i++) reopen();
    expect_a_script_runs();
    long tried = server_major(f.server) >= 7 ? (long)all_script_count : 0;
    cr_assert_eq(proxy_requests(f.proxy, "#!lua"), tried, "a later connect tries again");
    cr_assert_eq(proxy_requests(f.proxy, "SCRIPT LOAD"), tried + (long)all_script_count);
    capability_log_refusals("leader");
    cr_assert_eq(fixture_log_count("SCRIPT LOAD with #!lua"), tried ? 1 : 0);
}

/* The version that the server tells may be wrong: it is the server that decides. */
Test(redis_capability, a_wrong_version_does_not_matter) {
    static const char *const versions[] = {"6.2.0", "7.4.0"};
    f = begin();
    for (size_t i = 0; i < 2; i++) {
        char *bulk = kept_printf("$19\r\nredis_version:%s", versions[i]);
        proxy_pass(f.proxy);
        proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REPLACE, .match = "INFO server", .error = bulk});
        redis_ok(f.r, "SCRIPT FLUSH");
        redis_ok(f.r, "DEL sidecar:app:lock");
        reopen();
        expect_a_script_runs();
    }
}

Test(redis_capability, one_refused_script_is_no_reason_to_drop_flags) {
    f = begin();
    proxy_rule(f.proxy, (proxy_rule_t){.action = PROXY_REFUSE, .match = "SCRIPT LOAD", .error = "-ERR x", .nth = 2});
    cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED);
    cr_assert_not(capability_is_refused(CAPABILITY_SCRIPT_FLAGS));
    reopen();
    expect_a_script_runs();
}

Test(redis_capability, a_server_without_scripts_is_refused_by_name) {
    static const struct {
        const char *reply, *shown; /* without the arguments, which may be a secret */
    } errors[] = {{"-ERR unknown command 'SCRIPT', with args beginning with: 'LOAD'", "ERR unknown command 'SCRIPT' (script"},
                  {"-ERR Command is not available: 'SCRIPT'. See https://example.com",
                   "ERR Command is not available: 'SCRIPT'. See https://example.com"}};
    for (size_t i = 0; i < 2; i++) {
        f = begin();
        refuse("SCRIPT", errors[i].reply);
        cr_assert_eq(conn_open(f.conn, &f.error), OUTCOME_REFUSED);
        char *expected = kept_printf("the server has no Lua scripts, which the sidecar needs: SCRIPT LOAD: %s", errors[i].shown);
        cr_assert(strncmp(f.error.text, expected, strlen(expected)) == 0, "%s", f.error.text);
        fixture_stop(&f);
    }
}

typedef struct {
    char *refusal; /* the last one */
    int refusals, notes;
} findings_t;

static void note(void *self, preflight_level_t level, const char *queue, const char *text) {
    findings_t *findings = self;
    (void)queue;
    findings->notes += level == PREFLIGHT_NOTE;
    if (level != PREFLIGHT_REFUSED) return;
    free(findings->refusal);
    findings->refusal = mem_str(text);
    findings->refusals++;
}

static findings_t run_preflight(void) {
    findings_t findings = {0};
    cr_assert_eq(preflight(&(preflight_call_t){f.conn, f.keys, note, &findings, &f.error}), OUTCOME_OK, "%s", f.error.text);
    return findings;
}

Test(redis_capability, preflight_names_what_the_server_lacks_once) {
    static const struct {
        const char *refused, *error, *said;
    } rows[] = {
        {"XRANGE", "-ERR unknown command 'XRANGE'",
         "the server has no streams, in which the sidecar records final failures: XRANGE: ERR unknown command 'XRANGE'"},
        {"EVALSHA", "-ERR unknown command 'EVALSHA'",
         "the server cannot run a loaded script, as the sidecar needs: EVALSHA: ERR unknown command 'EVALSHA'"},
    };
    f = begin();
    reopen();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        proxy_pass(f.proxy);
        refuse(rows[i].refused, rows[i].error);
        findings_t findings = run_preflight();
        cr_assert_eq(findings.refusals, 1, "%d refusals, the last is %s", findings.refusals, findings.refusal);
        cr_assert_str_eq(findings.refusal, rows[i].said);
        free(findings.refusal);
    }
}

Test(redis_capability, preflight_allows_to_lead_without_role_and_info) {
    f = begin();
    refuse("ROLE", "-ERR unknown command 'ROLE'");
    refuse("INFO", "-ERR unknown command 'INFO'");
    refuse("CLIENT SETNAME", "-ERR unknown command 'CLIENT'");
    reopen();
    findings_t findings = run_preflight();
    cr_assert_eq(findings.refusals, 0, "%s", findings.refusal);
    cr_assert_eq(findings.notes, server_major(f.server) < 7 ? 6 : 5); /* and the three parts of INFO; the flags of scripts */
}

/* Redis 6.2 reports READONLY of a script behind the script's name. */
Test(redis_capability, a_replica_that_refuses_a_script_is_left) {
    f = fixture_start(NULL);
    redis_ok(f.r, "REPLICAOF 127.0.0.1 1");
    scoped(lock_state_clear) lock_state_t state = {0};
    lock_call_t call = fixture_lock_call(&f, 0, "T", 1000);
    cr_assert_eq(lock_acquire(&call, &state), OUTCOME_RETRY, "%s", f.error.text);
    cr_assert_eq(strncmp(f.error.text, "READONLY ", 9), 0, "%s", f.error.text);
    cr_assert_not(conn_is_open(f.conn));
}
