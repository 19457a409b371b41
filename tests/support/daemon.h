/* Runs the real binary: QS_DAEMON, by default build/queue-sidecar, and with QS_CRASH_AT in the environment of the options the one
 * of the same build that has failpoints, tests/queue-sidecar beside it. A sanitized binary writes its reports to files:
 * daemon_stop, daemon_run and the exit of the test process fail the test if there is one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct daemon daemon_t;

typedef struct {
    const char *binary;      /* NULL: environment QS_DAEMON, else build/queue-sidecar */
    const char *const *args; /* more arguments after "run -c FILE", NULL-terminated; NULL: none */
    const char *const *env;  /* more "NAME=value", NULL-terminated; NULL: none */
} daemon_options_t;

typedef struct {
    int code;   /* exit code; -1 = a signal ended the process */
    int signal; /* the signal that ended the process; 0 = it exited */
    int64_t ms; /* from the signal (daemon_terminate) or the call (daemon_wait_exit) to the end */
} daemon_exit_t;

/* Returns the absolute path of the tested binary; fails the test if it is missing. Borrowed until the process ends. */
const char *daemon_program(void);

/* Writes the config into a directory of its own and starts `run -c FILE` there. Does not wait for anything: wait for a log line,
 * a metric or an effect in Redis. Owned by the caller: daemon_free. */
daemon_t *daemon_start(const char *config, ...) __attribute__((format(printf, 1, 2)));
/* options may be NULL. */
daemon_t *daemon_start_with(const daemon_options_t *options, const char *config, ...) __attribute__((format(printf, 2, 3)));
/* Starts an ended daemon again with its current config file; appends to the same log. */
void daemon_restart(daemon_t *d);
/* Replaces the config file; the daemon reads it after a SIGHUP. */
void daemon_write_config(daemon_t *d, const char *config, ...) __attribute__((format(printf, 2, 3)));

void daemon_signal(daemon_t *d, int signal);
void daemon_kill(daemon_t *d); /* kill -9, and reaps */
void daemon_pause(daemon_t *d);
void daemon_continue(daemon_t *d);
bool daemon_running(daemon_t *d);
/* Waits for the end of the process; fails the test after timeout_ms (scaled). */
daemon_exit_t daemon_wait_exit(daemon_t *d, int timeout_ms);
/* SIGTERM, then daemon_wait_exit. */
daemon_exit_t daemon_terminate(daemon_t *d, int timeout_ms);
/* daemon_terminate, expects exit code 0 and no sanitizer report, then daemon_free: the usual last line of a test. */
void daemon_stop(daemon_t *d);
/* Kills the process if it runs and removes its directory; NULL is allowed. */
void daemon_free(daemon_t *d);

pid_t daemon_pid(const daemon_t *d);
const char *daemon_dir(const daemon_t *d);
const char *daemon_audit_path(const daemon_t *d); /* its audit log, unless the options' env gives another */
const char *daemon_config_path(const daemon_t *d);
const char *daemon_log_path(const daemon_t *d);
/* Returns the stderr so far: whole lines, because the kernel shows the first part of a line while the daemon writes it. */
char *daemon_log(const daemon_t *d);
/* Counts the lines of the stderr that contain the text. */
int daemon_log_count(const daemon_t *d, const char *text);
/* Waits for such a line; false after timeout_ms (scaled), or at once if the daemon has ended without it. */
bool daemon_wait_log(daemon_t *d, const char *text, int timeout_ms);

long daemon_rss_kib(const daemon_t *d);
long daemon_peak_kib(const daemon_t *d);     /* peak of the resident memory */
bool daemon_is_sanitized(const daemon_t *d); /* its memory use is then not the product's */
/* User and system time of all threads of the daemon so far. */
int64_t daemon_cpu_us(const daemon_t *d);

/* The result of one run of the CLI. Lives until the test process ends. */
typedef struct {
    int code;   /* exit code; -1 = a signal ended the process */
    int signal; /* that signal, else 0 */
    int64_t ms; /* how long the process ran */
    char *out;  /* its stdout, NUL-terminated */
    char *err;
} daemon_output_t;
/* Runs the binary with these arguments in the working directory of the test, for at most 30 s (scaled):
 * daemon_run("check", "-c", path)->code. */
#define daemon_run(...) daemon_run_argv(NULL, (const char *const[]){__VA_ARGS__, NULL})
const daemon_output_t *daemon_run_argv(const daemon_options_t *options, const char *const *args);
