#include "sanitizer.h"

#include "tempdir.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 6000 };

static char dir[600]; /* where report files go; empty: not installed */
static pid_t owner;

static void fail_on_reports(void) {
    if (owner != getpid()) return;
    char *reports = sanitizer_take_reports();
    if (reports) temp_fail_run(reports);
    free(reports);
}

void sanitizer_install(void) {
    if (owner == getpid()) return;
    owner = getpid();
    snprintf(dir, sizeof(dir), "%s/san", temp_root());
    mkdir(dir, 0700);
    atexit(fail_on_reports);
}

static void option(char **out, const char *name, const char *ours) {
    const char *given = getenv(name);
    free(*out);
    if (asprintf(out, "%s=%s%slog_path=%s/report:%s", name, given ? given : "", given && given[0] ? ":" : "", dir, ours) < 0)
        abort();
}

const char *const *sanitizer_env(void) {
    static char *options[4];
    static const char *env[5];
    static pid_t made; /* a daemon borrows these until the test ends, to start again */
    sanitizer_install();
    if (made == getpid()) return env;
    made = getpid();
    option(&options[0], "ASAN_OPTIONS",
           "exitcode=99:detect_leaks=1:halt_on_error=1:detect_stack_use_after_return=1:verify_asan_link_order=0");
    option(&options[1], "LSAN_OPTIONS", "exitcode=99:report_objects=0");
    option(&options[2], "UBSAN_OPTIONS", "exitcode=99:halt_on_error=1:print_stacktrace=1");
    option(&options[3], "TSAN_OPTIONS", "exitcode=99:halt_on_error=0:second_deadlock_stack=1");
    for (size_t i = 0; i < 4; i++) env[i] = options[i];
    return env;
}

char *sanitizer_take_reports(void) {
    char pattern[640];
    snprintf(pattern, sizeof(pattern), "%s/report*", dir);
    glob_t found = {0};
    char *all = NULL;
    if (dir[0] && glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            char *text = temp_read(found.gl_pathv[i]);
            char *longer = NULL;
            if (asprintf(&longer, "%ssanitizer report %s:\n%.*s\n", all ? all : "", strrchr(found.gl_pathv[i], '/') + 1,
                         HEAD_BYTES, text) < 0)
                abort();
            free(all);
            free(text);
            all = longer;
            unlink(found.gl_pathv[i]);
        }
    }
    globfree(&found);
    return all;
}

void sanitizer_check(void) {
    char *reports = sanitizer_take_reports();
    if (reports) fprintf(stderr, "%s", reports);
    bool clean = reports == NULL;
    free(reports);
    cr_assert(clean, "a sanitizer wrote a report (above)");
}
