/* Child processes of a test. They never outlive it: the kernel kills them when the thread that started them ends (so start them
 * from the thread that runs the test), and an exit hook kills and reaps those that are left. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct child {
    pid_t pid;
    int pidfd;          /* readable once the process has ended; -1 when reaped */
    bool running;       /* not yet reaped */
    int exit_code;      /* when it ended by exit, else -1 */
    int term_signal;    /* when a signal ended it, else 0 */
    int64_t started_us; /* wait_now_us() of the fork */
    int64_t ended_us;   /* wait_now_us() when the end was seen */
    struct child *next;
} child_t;

typedef struct {
    const char *const *argv; /* NULL-terminated; argv[0] is the program, looked up in PATH if it has no slash */
    const char *const *env;  /* "NAME=value" over the environment of the test, NULL-terminated; NULL: none */
    const char *dir;         /* working directory; NULL: that of the test */
    const char *out;         /* file that stdout is appended to; NULL: /dev/null */
    const char *err;         /* the same for stderr */
} child_spec_t;

/* Starts a process with an empty stdin. Owned by the caller: child_free. A program that cannot be run ends with 127. */
child_t *child_start(const child_spec_t *spec);
/* False once it has ended; its exit code or signal is then known. */
bool child_running(child_t *child);
/* Waits for its end without a poll interval; false after timeout_ms (scaled). */
bool child_wait(child_t *child, int timeout_ms);
void child_signal(child_t *child, int signal);
/* Stops it and waits until every thread of it stands still. */
void child_freeze(child_t *child);
void child_thaw(child_t *child);
/* Kills it, frozen or not, and reaps it. */
void child_kill(child_t *child);
/* Kills it if it still runs, and frees it; NULL is allowed. */
void child_free(child_t *child);
