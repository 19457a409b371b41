/* Child processes of a test. A child never outlives the test: the kernel kills it when the thread that started it ends (so start
 * it from the thread that runs the test), and an exit hook kills and reaps the remaining children. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct child {
    pid_t pid;
    int pidfd;          /* readable once the process has ended; -1 when reaped */
    bool running;       /* not yet reaped */
    int exit_code;      /* if the process ended by exit, else -1 */
    int term_signal;    /* if a signal ended the process, else 0 */
    int64_t started_us; /* wait_now_us() of the fork */
    int64_t ended_us;   /* wait_now_us() when the end was seen */
    struct child *next;
} child_t;

typedef struct {
    const char *const *argv; /* NULL-terminated; argv[0] is the program, looked up in PATH if it has no slash */
    const char *const *env;  /* "NAME=value": change the environment of the test; NULL-terminated; NULL: none */
    const char *dir;         /* working directory; NULL: the test's */
    const char *out;         /* file that stdout is appended to; NULL: /dev/null */
    const char *err;         /* the same for stderr */
} child_spec_t;

/* Starts a process with an empty stdin. Owned by the caller: child_free. If the program cannot be run, the exit code is 127. */
child_t *child_start(const child_spec_t *spec);
/* False once the process has ended; then exit_code and term_signal are set. */
bool child_running(child_t *child);
/* Waits for the end of the process; false after timeout_ms (scaled). */
bool child_wait(child_t *child, int timeout_ms);
void child_signal(child_t *child, int signal);
/* Stops the process and waits until all its threads have stopped. */
void child_freeze(child_t *child);
void child_thaw(child_t *child);
/* Kills the process, also a frozen one, and reaps it. */
void child_kill(child_t *child);
/* Kills the process if it runs, and frees the child; NULL is allowed. */
void child_free(child_t *child);
