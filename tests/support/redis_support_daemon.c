/* Tests of the test support: daemons, with a shell script in place of the sidecar. */
#include "daemon.h"
#include "sanitizer.h"
#include "suite.h"
#include "tempdir.h"
#include "wait.h"

#include <signal.h>
#include <sys/stat.h>

/* Writes a script that daemon_start then runs in place of the sidecar. */
static void stand_in(const char *script) {
    char *text = kept_printf("#!/bin/sh\n%s\n", script);
    char *path = temp_file("stand-in", text);
    chmod(path, 0700);
    setenv("QS_DAEMON", path, 1);
}

/* Logs its arguments, its config and signals; runs until SIGTERM. */
#define LOGS                                                                                                                     \
    "trap 'echo bye >&2; exit 0' TERM\n trap 'echo reload $(cat \"$3\") >&2' HUP\n"                                              \
    "echo \"start $1 $2 $(cat \"$3\") ${EXTRA-} $4\" >&2\n while :; do sleep 0.01; done"

Test(redis_support_daemon, runs_with_config_arguments_and_environment) {
    stand_in(LOGS);
    daemon_options_t options = {.args = (const char *const[]){"--flag", NULL}, .env = (const char *const[]){"EXTRA=more", NULL}};
    scoped(daemon_end) daemon_t *d = daemon_start_with(&options, "group = \"%s\";", "g1");
    cr_assert(daemon_wait_log(d, "start run -c group = \"g1\"; more --flag", 5000));
    daemon_write_config(d, "group = \"%s\";", "g2");
    daemon_signal(d, SIGHUP);
    cr_assert(daemon_wait_log(d, "reload group = \"g2\";", 5000));
    cr_assert_eq(daemon_log_count(d, "group"), 2);
    cr_assert_gt(daemon_rss_kib(d), 100);
    cr_assert_gt(daemon_cpu_us(d), 0);
    daemon_exit_t end = daemon_terminate(d, 5000);
    cr_assert_eq(end.code, 0);
    cr_assert_eq(end.signal, 0);
    cr_assert_lt(end.ms, wait_scaled_ms(5000));
    cr_assert_eq(daemon_log_count(d, "bye"), 1);
    daemon_restart(d);
    cr_assert(wait_for(daemon_log_count(d, "start run") == 2, 5000));
}

/* The kernel may account earlier CPU time some ticks late. */
static bool is_still(daemon_t *d) {
    int64_t used = daemon_cpu_us(d);
    int ticks = daemon_log_count(d, "tick");
    return !wait_for(daemon_log_count(d, "tick") != ticks || daemon_cpu_us(d) != used, 30);
}

Test(redis_support_daemon, is_paused_continued_and_killed) {
    stand_in("while :; do echo tick >&2; done");
    scoped(daemon_drop) daemon_t *d = daemon_start("x");
    cr_assert(wait_for(daemon_log_count(d, "tick") > 5, 5000));
    for (int round = 0; round < 3; round++) {
        daemon_pause(d);
        cr_assert(wait_for(is_still(d), 5000));
        int ticks = daemon_log_count(d, "tick");
        daemon_continue(d);
        cr_assert(wait_for(daemon_log_count(d, "tick") > ticks, 5000));
    }
    daemon_kill(d);
    daemon_exit_t end = daemon_wait_exit(d, 1000);
    cr_assert_eq(end.code, -1);
    cr_assert_eq(end.signal, SIGKILL);
}

Test(redis_support_daemon, log_wait_ends_with_the_daemon) {
    stand_in("echo last words >&2; exit 3");
    scoped(daemon_drop) daemon_t *d = daemon_start("x");
    cr_assert_not(daemon_wait_log(d, "never said", 60000));
    cr_assert_eq(daemon_wait_exit(d, 1000).code, 3);
    cr_assert_eq(daemon_log_count(d, "last words"), 1);
}

Test(redis_support_daemon, cli_run_captures_both_streams) {
    stand_in("echo \"out $1 $2\"; echo err >&2; exit 2");
    const daemon_output_t *output = daemon_run("check", "-c");
    cr_assert_eq(output->code, 2);
    cr_assert_str_eq(output->out, "out check -c\n");
    cr_assert_str_eq(output->err, "err\n");
}

/* Writes a report to the file that a sanitizer would use. */
#define REPORTS "f=${ASAN_OPTIONS##*log_path=}; echo 'ERROR: heap-use-after-free' >${f%%:*}.$$\n"

Test(redis_support_daemon, sanitizer_report_is_found) {
    stand_in(REPORTS);
    scoped(daemon_drop) daemon_t *d = daemon_start("x");
    cr_assert_eq(daemon_wait_exit(d, 5000).code, 0);
    char *report = kept(sanitizer_take_reports());
    cr_assert_not_null(report);
    cr_assert_not_null(strstr(report, "heap-use-after-free"));
    cr_assert_null(sanitizer_take_reports());
}
