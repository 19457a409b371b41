#include "child.h"

#include "sanitizer.h"
#include "suite.h"
#include "tempdir.h"
#include "wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

extern char **environ;

static child_t *children;
static pid_t children_owner;

static void kill_children(void) {
    if (children_owner != getpid()) return;
    for (child_t *child = children; child; child = child->next) {
        if (child->running) kill(child->pid, SIGKILL);
    }
    for (child_t *child = children; child; child = child->next) {
        if (child->running) waitpid(child->pid, NULL, 0);
    }
}

/* Exit hooks run in reverse order: kill the children, then look for sanitizer reports, then remove the directories. */
static void install_hooks(void) {
    if (children_owner == getpid()) return;
    temp_root();
    sanitizer_install();
    children = NULL;
    children_owner = getpid();
    atexit(kill_children);
}

/* Returns the environment of the test, changed by `extra`; the array is owned by the caller, the strings are borrowed. */
static char **merged_env(const char *const *extra) {
    size_t own = 0, more = 0, used = 0;
    while (environ[own]) own++;
    while (extra && extra[more]) more++;
    char **env = calloc(own + more + 1, sizeof(*env));
    if (!env) abort();
    for (size_t i = 0; i < own; i++) {
        size_t name = strcspn(environ[i], "=") + 1;
        bool replaced = false;
        for (size_t j = 0; j < more && !replaced; j++) replaced = strncmp(environ[i], extra[j], name) == 0;
        if (!replaced) env[used++] = environ[i];
    }
    for (size_t j = 0; j < more; j++) memcpy(&env[used++], &extra[j], sizeof(*env));
    return env;
}

static void redirect(int fd, const char *path) {
    int file = open(path ? path : "/dev/null", O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || dup2(file, fd) < 0) _exit(126);
}

/* Runs between fork and exec, where only async-signal-safe calls are allowed. */
static _Noreturn void become(const child_spec_t *spec, char *const *env, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126); /* the parent died before prctl */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    redirect(0, NULL);
    redirect(1, spec->out);
    redirect(2, spec->err);
    close_range(3, ~0U, 0);
    if (spec->dir && chdir(spec->dir) != 0) _exit(126);
    char *const *argv;
    memcpy(&argv, &spec->argv, sizeof(argv)); /* exec takes no const pointers, but changes nothing */
    execvpe(argv[0], argv, env);
    dprintf(2, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

child_t *child_start(const child_spec_t *spec) {
    install_hooks();
    child_t *child = calloc(1, sizeof(*child));
    if (!child) abort();
    char **env = merged_env(spec->env);
    pid_t parent = getpid();
    child->started_us = wait_now_us();
    child->pid = fork();
    if (child->pid == 0) become(spec, env, parent);
    free(env);
    if (child->pid < 0) cr_assert_fail("fork: %s", strerror(errno));
    child->pidfd = pidfd_open(child->pid, 0);
    child->running = true;
    child->exit_code = -1;
    child->next = children;
    children = child;
    return child;
}

static void ended(child_t *child, int status) {
    child->ended_us = wait_now_us();
    child->running = false;
    if (child->pidfd >= 0) close(child->pidfd);
    child->pidfd = -1;
    child->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    child->term_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

bool child_running(child_t *child) {
    int status = 0;
    if (child->running && waitpid(child->pid, &status, WNOHANG) == child->pid) ended(child, status);
    return child->running;
}

bool child_wait(child_t *child, int timeout_ms) {
    int64_t deadline = wait_now_us() + (int64_t)wait_scaled_ms(timeout_ms) * 1000;
    while (child_running(child)) {
        int64_t left = deadline - wait_now_us();
        if (left <= 0) return false;
        struct pollfd end = {.fd = child->pidfd, .events = POLLIN};
        poll(&end, 1, (int)((left + 999) / 1000));
    }
    return true;
}

void child_signal(child_t *child, int signal_number) {
    if (child->running) kill(child->pid, signal_number);
}

void child_freeze(child_t *child) {
    if (!child_running(child)) return;
    kill(child->pid, SIGSTOP);
    siginfo_t info;
    waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WEXITED | WNOWAIT); /* returns when all threads have stopped */
}

void child_thaw(child_t *child) {
    if (!child->running) return;
    siginfo_t info;
    waitid(P_PID, (id_t)child->pid, &info,
           WSTOPPED | WNOHANG); /* consumes the stop status, so that the next child_freeze waits */
    kill(child->pid, SIGCONT);
}

void child_kill(child_t *child) {
    if (!child->running) return;
    kill(child->pid, SIGKILL);
    int status = 0;
    if (waitpid(child->pid, &status, 0) == child->pid) ended(child, status);
}

void child_free(child_t *child) {
    if (!child) return;
    child_kill(child);
    for (child_t **link = &children; *link; link = &(*link)->next) {
        if (*link == child) {
            *link = child->next;
            break;
        }
    }
    free(child);
}
