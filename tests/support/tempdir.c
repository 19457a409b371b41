#include "tempdir.h"
#include "kept.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUN_DIR "QS_TEST_RUN_DIR"

static char root[512];      /* directory of this process; empty: none yet */
static pid_t root_owner;    /* a fork of the test must not remove it */
static char test_name[256]; /* copied, since Criterion's own is gone when the exit hooks run */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

void temp_remove(const char *path) {
    /* A server that is being killed may still write into the directory, so try again. */
    for (int look = 0; look < 50; look++) {
        if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0 || errno == ENOENT) return;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

/* Body of the reaper: waits for `watched` to end, removes `dir`. It has its own session, so that Ctrl-C does not kill it. */
static _Noreturn void reaper(pid_t watched, int fd, const char *dir) {
    setsid();
    prctl(PR_SET_NAME, "qs-test-reaper");
    if (fd > 0) {
        dup2(fd, 0);
        close_range(1, ~0U, 0);
        struct pollfd ended = {.fd = 0, .events = POLLIN};
        while (poll(&ended, 1, -1) != 1) {
        }
    } else {
        close_range(0, ~0U, 0);
        while (kill(watched, 0) == 0) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    temp_remove(dir);
    _exit(0);
}

/* Leaves a grandchild behind that removes `dir` when this process has ended. */
static void spawn_reaper(const char *dir) {
    pid_t self = getpid();
    int fd = pidfd_open(self, 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (fork() == 0) reaper(self, fd, dir);
        _exit(0);
    }
    if (pid > 0) waitpid(pid, NULL, 0);
    if (fd >= 0) close(fd);
}

static void remove_root(void) {
    if (root_owner == getpid()) temp_remove(root);
}

static void make_dir(char *out, size_t size, const char *parent, const char *kind) {
    snprintf(out, size, "%s/%s-%d-XXXXXX", parent, kind, (int)getpid());
    if (!mkdtemp(out)) {
        fprintf(stderr, "cannot make a directory in %s: %s\n", parent, strerror(errno));
        abort();
    }
}

const char *temp_root(void) {
    if (root[0] && root_owner == getpid()) return root;
    const char *run = getenv(RUN_DIR);
    const char *tmp = getenv("TMPDIR");
    if (run) {
        make_dir(root, sizeof(root), run, "t");
    } else {
        make_dir(root, sizeof(root), tmp && tmp[0] ? tmp : "/tmp", "qs-test");
        spawn_reaper(root);
    }
    root_owner = getpid();
    snprintf(test_name, sizeof(test_name), "%s::%s", criterion_current_suite ? criterion_current_suite->name : "?",
             criterion_current_test ? criterion_current_test->name : "?");
    atexit(remove_root);
    return root;
}

char *temp_path(const char *dir, const char *name) { return kept_printf("%s/%s", dir, name); }

char *temp_dir(const char *name) {
    static int number;
    char *path = NULL;
    if (asprintf(&path, "%s/%s-%d", temp_root(), name, ++number) < 0 || mkdir(path, 0700) != 0) abort();
    return kept(path);
}

char *temp_read(const char *path) {
    char *text = calloc(1, 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return kept(text);
    size_t length = 0;
    for (;;) {
        text = realloc(text, length + 65537);
        if (!text) abort();
        ssize_t got = read(fd, text + length, 65536);
        if (got <= 0) break;
        length += (size_t)got;
    }
    text[length] = '\0';
    close(fd);
    return kept(text);
}

void temp_write(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (file && fputs(text, file) >= 0 && fclose(file) == 0) return;
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    abort();
}

char *temp_file(const char *name, const char *text) {
    char *path = temp_path(temp_root(), name);
    temp_write(path, text);
    return path;
}

void temp_fail_run(const char *text) {
    const char *run = getenv(RUN_DIR);
    if (!run) {
        fprintf(stderr, "%s: %s\n", test_name, text);
        _exit(99);
    }
    char *path = temp_path(run, "failures");
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dprintf(fd, "\1%s: %s\n", test_name, text) < 0) _exit(99);
    close(fd);
    free(path);
}

ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
    (void)tests;
    static char run[256];
    const char *tmp = getenv("TMPDIR");
    make_dir(run, sizeof(run), tmp && tmp[0] ? tmp : "/tmp", "qs-test");
    setenv(RUN_DIR, run, 1);
    spawn_reaper(run);
}

static void fail_after_end(struct criterion_global_stats *stats, const char *fault) {
    fprintf(stderr, "FAILED after its end: %s", fault);
    stats->tests_failed++;
    if (stats->tests_passed > 0) stats->tests_passed--;
}

/* Criterion counts a test before its fini and its exit hooks have run; so count here the faults that these found. */
ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
    const char *run = getenv(RUN_DIR);
    if (!run) return;
    for (struct criterion_suite_stats *suite = stats->suites; suite; suite = suite->next)
        for (struct criterion_test_stats *test = suite->tests; test; test = test->next)
            if (test->test_status == CR_STATUS_PASSED && test->failed_asserts > 0)
                fail_after_end(stats, kept_printf("%s/%s: an assertion of its fini\n", test->test->category, test->test->name));
    char *path = temp_path(run, "failures");
    char *text = temp_read(path);
    for (char *fault = strtok(text, "\1"); fault; fault = strtok(NULL, "\1")) fail_after_end(stats, fault);
    free(text);
    free(path);
    temp_remove(run);
}
