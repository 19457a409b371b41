/* `status` and `check --redis` with real sentinels. */
#include "base/buffer.h"
#include "daemon.h"
#include "sentinels.h"
#include "suite.h"
#include "tempdir.h"
#include "text.h"
#include "wait.h"

static sentinels_t *s;

static char *config_of(void) {
    char *settings = sentinels_settings(s), *log = temp_path(temp_root(), "audit.db");
    char *text = kept_printf("group = \"g\"; redis = { %s }; http = { port = 0; }; audit = { path = \"%s\"; };\n"
                             "queues = ( { name = \"q\"; } );\n",
                             settings, log);
    char *path = temp_file("sentinel.cfg", text);
    return kept(path);
}

SUITE(daemon_status_sentinel, s = sentinels_begin(NULL), sentinels_end(s));

Test(daemon_status_sentinel, says_what_the_sentinels_say_before_and_after_a_failover, .timeout = 90) {
    char *config = config_of();
    for (int round = 0; round < 2; round++) {
        int primary = sentinels_primary(s, NULL);
        char *named =
            kept_printf("ok       3 of 3 sentinels answer: \"" SENTINEL_MASTER "\" is 127.0.0.1:%d; quorum 2, epoch %d\n"
                        "ok       primary 127.0.0.1:%d: ",
                        server_port(s->servers[primary]), round, server_port(s->servers[primary]));
        char *shown = kept_printf("\nredis    %.*s\n         127.0.0.1:%d: ", (int)(strchr(named, '\n') - named) - 9, named + 9,
                                  server_port(s->servers[primary]));
        const daemon_output_t *check = daemon_run("check", "-c", config, "--redis");
        cr_assert_eq(check->code, 0, "%s%s", check->out, check->err);
        cr_assert(has(check->err, named), "no %s in %s", named, check->err);
        const daemon_output_t *status = daemon_run("status", "-c", config);
        cr_assert(has(status->out, shown), "no %s in %s", shown, status->out);
        if (round) break;
        sentinels_failover(s);
        sentinels_await_switch(s, primary);
        sentinels_await_settled(s);
    }
}

Test(daemon_status_sentinel, without_sentinels_check_and_status_say_so, .timeout = 90) {
    char *config = config_of();
    for (int i = 0; i < SENTINELS; i++) sentinel_kill(s, i);
    const daemon_output_t *check = daemon_run("check", "-c", config, "--redis");
    cr_assert_eq(check->code, 69, "%s%s", check->out, check->err);
    cr_assert(has(check->err, "\nFAULT    0 of 3 sentinels name a primary for \"" SENTINEL_MASTER "\"\n"), "%s", check->err);
    const daemon_output_t *status = daemon_run("status", "-c", config);
    cr_assert_eq(status->code, 69);
    cr_assert(has(status->out, "\nredis    0 of 3 sentinels name a primary"), "%s", status->out);
    cr_assert(has(status->out, "\nwarning  3 of 3 sentinels name no primary: "), "%s", status->out);
}
