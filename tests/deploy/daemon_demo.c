/* `make demo` runs to its end, and leaves no process or file behind, even if it is interrupted. */
#include "child.h"
#include "daemon.h"
#include "suite.h"
#include "tempdir.h"
#include "wait.h"

#include <dirent.h>
#include <signal.h>

enum { DEMO_MS = 120000, GONE_MS = 10000, TRIES = 3 };

typedef struct {
    child_t *child;
    char *place, *out, *err; /* `place` is the TMPDIR of the demo; owned */
} demo_t;

static demo_t begin(void) {
    demo_t demo = {.place = temp_dir("demo")};
    char *files = temp_dir("said");
    char *variable = kept_printf("TMPDIR=%s", demo.place);
    demo.out = temp_path(files, "out");
    demo.err = temp_path(files, "err");
    demo.child = child_start(&(child_spec_t){.argv = (const char *const[]){"sh", "deploy/demo.sh", daemon_program(), NULL},
                                             .env = (const char *const[]){variable, NULL},
                                             .out = demo.out,
                                             .err = demo.err});
    return demo;
}

static bool says(const demo_t *demo, const char *text) {
    char *out = temp_read(demo->out);
    return strstr(out, text) != NULL;
}

static bool has_place(const demo_t *demo, const char *pid, const char *name) {
    char path[64], text[32768];
    snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, name);
    FILE *file = fopen(path, "r"); /* the file of an ended process is empty or cannot be read */
    size_t size = file ? fread(text, 1, sizeof(text), file) : 0;
    if (file) fclose(file);
    return size && memmem(text, size, demo->place, strlen(demo->place));
}

/* Whether the demo has started that process. All its processes have TMPDIR in environ, except redis-server: its title overwrites
 * environ, but its command line has the directory. */
static bool is_of(const demo_t *demo, const char *pid) {
    return has_place(demo, pid, "environ") || has_place(demo, pid, "cmdline");
}

static int count_processes(const demo_t *demo, bool kills) {
    int count = 0;
    DIR *all = opendir("/proc");
    cr_assert_not_null(all);
    for (struct dirent *entry; (entry = readdir(all));) {
        if (*entry->d_name < '1' || *entry->d_name > '9' || !is_of(demo, entry->d_name)) continue;
        count++;
        if (kills) kill(atoi(entry->d_name), SIGKILL);
    }
    closedir(all);
    return count;
}

/* Frees the demo. Returns how many of its processes and files are left after its end. */
static int left_behind(demo_t *demo) {
    wait_for(count_processes(demo, false) == 0, GONE_MS); /* a redis-cli ends a moment after its server */
    int left = count_processes(demo, true);
    DIR *place = opendir(demo->place);
    cr_assert_not_null(place);
    for (struct dirent *entry; (entry = readdir(place));) left += *entry->d_name != '.';
    closedir(place);
    child_free(demo->child);
    free(demo->place), free(demo->out), free(demo->err);
    return left;
}

/* Up to three tries, because the demo fails if the machine pauses for a second. */
Test(daemon_demo, demo_succeeds_and_leaves_nothing_behind, .timeout = 400) {
    int code = -1;
    for (int i = 0; code != 0 && i < TRIES; i++) {
        demo_t demo = begin();
        cr_assert(child_wait(demo.child, DEMO_MS));
        code = demo.child->exit_code;
        char *err = temp_read(demo.err);
        if (code != 0) fprintf(stderr, "demo: %d: %s\n", code, err);
        cr_expect(code != 0 || says(&demo, "none lost, none twice, none early"));
        cr_assert_eq(left_behind(&demo), 0);
    }
    cr_assert_eq(code, 0);
}

Test(daemon_demo, interrupted_demo_leaves_nothing_behind, .timeout = 300) {
    static const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        demo_t demo = begin();
        cr_assert(wait_for(says(&demo, "works on it, which takes long") || !child_running(demo.child), DEMO_MS));
        bool all = wait_for(count_processes(&demo, false) >= 5, DEMO_MS); /* two sidecars, redis-server, worker, demo.sh */
        child_signal(demo.child, signals[i]);
        cr_assert(child_wait(demo.child, DEMO_MS));
        int code = demo.child->exit_code;
        cr_assert_eq(left_behind(&demo), 0);
        cr_assert(all, "the demo had not started all processes");
        cr_assert_eq(code, 130);
    }
}
