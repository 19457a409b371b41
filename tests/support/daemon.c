#include "daemon.h"

#include "child.h"
#include "kept.h"
#include "sanitizer.h"
#include "tempdir.h"
#include "tls_harness.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ARGS = 64, RUN_MS = 30000, STOP_MS = 15000 };

struct daemon {
    char *dir, *config, *log;
    char *audit;                /* QUEUE_SIDECAR_AUDIT_PATH=<dir>/audit.db, owned */
    const char *argv[MAX_ARGS]; /* program, run, -c, file, and the options' arguments, all owned */
    const char **env;           /* owned array; strings borrowed */
    child_t *child;
};

static bool wants_failpoint(const daemon_options_t *options) {
    if (!options || !options->env) return false;
    for (const char *const *env = options->env; *env; env++)
        if (strncmp(*env, "QS_CRASH_AT=", strlen("QS_CRASH_AT=")) == 0) return true;
    return false;
}

static char *find_binary(const daemon_options_t *options) {
    const char *given = options && options->binary ? options->binary : getenv("QS_DAEMON");
    if (!given || !given[0]) given = "build/queue-sidecar";
    if (!(options && options->binary) && wants_failpoint(options))
        given = kept_printf("%.*s/tests/queue-sidecar", (int)(strrchr(given, '/') - given), given);
    char *path = realpath(given, NULL);
    cr_assert_not_null(path, "no program %s (build it, or set QS_DAEMON)", given);
    return path;
}

const char *daemon_program(void) {
    static char *path; /* reachable until the exit, so that the leak checker does not report it */
    if (!path) path = find_binary(NULL);
    return path;
}

/* Returns variables for sanitizers, of the options, and `audit` (may be NULL). The array is owned by the caller. */
static const char **child_env(const daemon_options_t *options, const char *audit) {
    const char *const *sanitizer = sanitizer_env();
    const char *const *extra = options ? options->env : NULL;
    size_t used = 0, more = 0;
    while (extra && extra[more]) more++;
    const char **env = calloc(more + 9, sizeof(*env));
    if (!env) abort();
    for (size_t i = 0; sanitizer[i]; i++) env[used++] = sanitizer[i];
    for (size_t i = 0; i < more; i++) env[used++] = extra[i];
    env[used++] = "QUEUE_SIDECAR_AUDIT_RETAIN=3650d"; /* keep records of tests, which are old */
    env[used++] = audit;                              /* of two equal names the first counts: the options win */
    return env;
}

static void write_config(const daemon_t *d, const char *format, va_list arguments) {
    /* Write a new file and rename it, so that a daemon that reads now sees the whole old or new config. */
    char *fresh = temp_path(d->dir, "config.new");
    FILE *file = fopen(fresh, "w");
    cr_assert_not_null(file);
    char *plain;
    cr_assert_geq(vasprintf(&plain, format, arguments), 0);
    char *text = tls_harness_config(plain);
    fputs(text, file);
    free(text);
    free(plain);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(rename(fresh, d->config), 0);
    free(fresh);
}

void daemon_write_config(daemon_t *d, const char *config, ...) {
    va_list arguments;
    va_start(arguments, config);
    write_config(d, config, arguments);
    va_end(arguments);
}

void daemon_restart(daemon_t *d) {
    cr_assert(!d->child || !child_running(d->child), "the daemon still runs");
    child_free(d->child);
    d->child = child_start(&(child_spec_t){.argv = d->argv, .env = d->env, .dir = d->dir, .out = d->log, .err = d->log});
}

static daemon_t *start(const daemon_options_t *options, const char *config, va_list arguments) {
    daemon_t *d = calloc(1, sizeof(*d));
    if (!d) abort();
    d->dir = temp_dir("daemon");
    d->config = temp_path(d->dir, "queue-sidecar.cfg");
    d->log = temp_path(d->dir, "stderr");
    d->argv[0] = find_binary(options);
    d->argv[1] = strdup("run");
    d->argv[2] = strdup("-c");
    d->argv[3] = strdup(d->config);
    for (size_t i = 0; options && options->args && options->args[i]; i++) {
        cr_assert_lt(i + 5, MAX_ARGS);
        d->argv[i + 4] = strdup(options->args[i]);
    }
    if (asprintf(&d->audit, "QUEUE_SIDECAR_AUDIT_PATH=%s/audit.db", d->dir) < 0) abort();
    d->env = child_env(options, d->audit);
    write_config(d, config, arguments);
    daemon_restart(d);
    return d;
}

daemon_t *daemon_start(const char *config, ...) {
    va_list arguments;
    va_start(arguments, config);
    daemon_t *d = start(NULL, config, arguments);
    va_end(arguments);
    return d;
}

daemon_t *daemon_start_with(const daemon_options_t *options, const char *config, ...) {
    va_list arguments;
    va_start(arguments, config);
    daemon_t *d = start(options, config, arguments);
    va_end(arguments);
    return d;
}

void daemon_signal(daemon_t *d, int number) { child_signal(d->child, number); }
void daemon_kill(daemon_t *d) { child_kill(d->child); }
void daemon_pause(daemon_t *d) { child_freeze(d->child); }
void daemon_continue(daemon_t *d) { child_thaw(d->child); }
bool daemon_running(daemon_t *d) { return child_running(d->child); }

static daemon_exit_t wait_exit(daemon_t *d, int timeout_ms, int64_t since_us) {
    if (!child_wait(d->child, timeout_ms)) {
        char *log = daemon_log(d);
        fprintf(stderr, "%s", log);
        free(log);
        cr_assert_fail("the daemon has not ended within %d ms", wait_scaled_ms(timeout_ms));
    }
    int64_t ms = (d->child->ended_us - since_us) / 1000;
    return (daemon_exit_t){.code = d->child->exit_code, .signal = d->child->term_signal, .ms = ms > 0 ? ms : 0};
}

daemon_exit_t daemon_wait_exit(daemon_t *d, int timeout_ms) { return wait_exit(d, timeout_ms, wait_now_us()); }

daemon_exit_t daemon_terminate(daemon_t *d, int timeout_ms) {
    int64_t since_us = wait_now_us();
    child_signal(d->child, SIGTERM);
    return wait_exit(d, timeout_ms, since_us);
}

void daemon_stop(daemon_t *d) {
    daemon_exit_t end = daemon_terminate(d, STOP_MS);
    sanitizer_check();
    if (end.code != 0) {
        char *log = daemon_log(d);
        fprintf(stderr, "%s", log);
        free(log);
    }
    cr_assert_eq(end.code, 0, "the daemon ended with code %d, signal %d", end.code, end.signal);
    daemon_free(d);
}

void daemon_free(daemon_t *d) {
    if (!d) return;
    child_free(d->child);
    temp_remove(d->dir);
    for (size_t i = 0; d->argv[i]; i++) {
        void *owned;
        memcpy(&owned, &d->argv[i], sizeof(owned));
        free(owned);
    }
    free(d->env);
    free(d->config);
    free(d->audit);
    free(d->log);
    free(d->dir);
    free(d);
}

pid_t daemon_pid(const daemon_t *d) { return d->child->pid; }
const char *daemon_audit_path(const daemon_t *d) { return strchr(d->audit, '=') + 1; }
const char *daemon_dir(const daemon_t *d) { return d->dir; }
const char *daemon_config_path(const daemon_t *d) { return d->config; }
const char *daemon_log_path(const daemon_t *d) { return d->log; }

char *daemon_log(const daemon_t *d) {
    bool ended = !child_running(d->child); /* look before reading: then no line is incomplete */
    char *log = temp_read(d->log), *end = strrchr(log, '\n');
    if (!ended) log[end ? end + 1 - log : 0] = '\0';
    return log;
}

int daemon_log_count(const daemon_t *d, const char *text) {
    char *log = daemon_log(d);
    int count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(log, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) count += strstr(line, text) != NULL;
    free(log);
    return count;
}

bool daemon_wait_log(daemon_t *d, const char *text, int timeout_ms) {
    bool alive = true;
    /* Look whether the daemon runs before reading the log, or its last lines could be missed. */
    wait_for(((void)(alive = child_running(d->child)), daemon_log_count(d, text) > 0) || !alive, timeout_ms);
    return daemon_log_count(d, text) > 0;
}

static char *proc_text(const daemon_t *d, const char *file) {
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)d->child->pid, file);
    return temp_read(path);
}

static long status_kib(const daemon_t *d, const char *name) {
    char *text = proc_text(d, "status");
    const char *line = strstr(text, name);
    long kib = line ? strtol(line + strlen(name), NULL, 10) : -1;
    free(text);
    return kib;
}

long daemon_rss_kib(const daemon_t *d) { return status_kib(d, "VmRSS:"); }
long daemon_peak_kib(const daemon_t *d) { return status_kib(d, "VmHWM:"); }

bool daemon_is_sanitized(const daemon_t *d) {
    char *maps = proc_text(d, "maps");
    bool found = strstr(maps, "libasan") || strstr(maps, "libtsan") || strstr(maps, "libubsan") || getenv("QS_TEST_SLOW");
    free(maps);
    return found;
}

int64_t daemon_cpu_us(const daemon_t *d) {
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(d->child->pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return -1;
    return (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

const daemon_output_t *daemon_run_argv(const daemon_options_t *options, const char *const *args) {
    static daemon_output_t *kept[1024]; /* reachable until the exit, so that the leak checker does not report them */
    static size_t runs;
    const char *argv[MAX_ARGS] = {find_binary(options)};
    for (size_t i = 0; args[i]; i++) {
        cr_assert_lt(i + 2, MAX_ARGS);
        argv[i + 1] = args[i];
    }
    char *dir = temp_dir("run"), *out = temp_path(dir, "out"), *err = temp_path(dir, "err");
    const char **env = child_env(options, NULL);
    child_t *child = child_start(&(child_spec_t){.argv = argv, .env = env, .out = out, .err = err});
    bool ended = child_wait(child, RUN_MS);
    cr_assert(ended, "%s %s does not end", argv[0], argv[1] ? argv[1] : "");
    daemon_output_t *output = calloc(1, sizeof(*output));
    if (!output || runs >= sizeof(kept) / sizeof(*kept)) abort();
    *output =
        (daemon_output_t){.code = child->exit_code, .signal = child->term_signal, .out = temp_read(out), .err = temp_read(err)};
    output->ms = (child->ended_us - child->started_us) / 1000;
    kept[runs++] = output;
    child_free(child);
    temp_remove(dir);
    void *owned;
    memcpy(&owned, &argv[0], sizeof(owned));
    free(owned);
    free(env);
    free(dir);
    free(out);
    free(err);
    sanitizer_check();
    return output;
}
