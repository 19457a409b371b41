/* `status --watch` on a terminal that is resized, suspended and interrupted, and on a pipe. */
#include "child.h"
#include "cluster.h"
#include "tempdir.h"
#include "terminal.h"
#include "text.h"

#include <signal.h>
#include <sys/wait.h>

#define ENTER "\x1b[?1049h\x1b[?25l"
#define LEAVE "\x1b[?25h\x1b[?1049l"

static int count(const char *text, const char *part) {
    int found = 0;
    for (; (text = strstr(text, part)); text++) found++;
    return found;
}

typedef struct {
    cluster_t cluster;
    char *config, *out; /* owned */
    terminal_t *terminal;
    child_t *child;
} watch_t;

/* Queues q0 .. q<n-1>; a leader serves them. */
static watch_t prepare(int queues) {
    watch_t w = {.cluster = cluster_begin(NULL)};
    char *list = cluster_queues("", "q", queues);
    w.out = temp_path(temp_root(), "out");
    w.config = cluster_config_file(&w.cluster, (sidecar_t){.queues = list});
    cluster_sidecar_up(&w.cluster, (sidecar_t){.queues = list});
    return w;
}

static void start(watch_t *w, const char *const *more, const char *env) {
    const char *argv[16] = {daemon_program(), "status", "-c", w->config, "--watch", "200ms"};
    for (int i = 0; more && more[i]; i++) argv[6 + i] = more[i];
    const char *out = w->terminal ? terminal_path(w->terminal) : w->out;
    char *none = temp_path(temp_root(), "none.db");
    char *audit = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", none);
    w->child = child_start(&(child_spec_t){
        .argv = argv, .env = (const char *const[]){"TERM=xterm", audit, env ? env : "LC_ALL=C", NULL}, .out = out});
}

static void end(watch_t *w) {
    child_free(w->child);
    if (w->terminal) terminal_free(w->terminal);
    free(w->config);
    free(w->out);
    cluster_end(&w->cluster);
}

static void interrupt(watch_t *w, int number) {
    child_signal(w->child, number);
    cr_assert(child_wait(w->child, 3000), "it does not end at signal %d", number);
    cr_assert_eq(w->child->exit_code, 0, "%d %d", w->child->exit_code, w->child->term_signal);
}

/* Whether the last frame is complete and contains `part`. A frame ends by clearing the rest of the screen. */
static bool shows(watch_t *w, const char *part) {
    const char *raw = terminal_raw(w->terminal);
    size_t len = strlen(raw);
    if (len < 3 || strcmp(raw + len - 3, "\x1b[J") != 0) return false;
    char *screen = terminal_screen(w->terminal);
    return has(screen, part);
}

static int frames(watch_t *w) { return count(terminal_raw(w->terminal), "\x1b[H"); }

static watch_t w;
SUITE(daemon_status_watch, , end(&w));

Test(daemon_status_watch, draws_in_place_and_leaves_the_terminal_clean) {
    w = prepare(2);
    w.terminal = terminal_open(100, 40);
    start(&w, NULL, NULL);
    cr_assert(wait_for(shows(&w, "all is well"), 10000), "%s", terminal_raw(w.terminal));
    redis_ok(w.cluster.r, "LPUSH q1 a b c d e f g");
    cr_assert(wait_for(shows(&w, "q1           0         -      7"), 10000), "%s", terminal_raw(w.terminal));
    daemon_kill(w.cluster.sidecars[0]);
    cr_assert(wait_for(shows(&w, "no instance leads"), 10000));
    cr_assert(has(terminal_raw(w.terminal), "\x1b[1;31mFAULT\x1b[0m"));
    interrupt(&w, SIGINT);
    const char *raw = terminal_raw(w.terminal);
    cr_assert_eq(strncmp(raw, ENTER, strlen(ENTER)), 0);
    cr_assert_str_eq(raw + strlen(raw) - strlen(LEAVE), LEAVE);
    cr_assert_eq(count(raw, ENTER), 1);
}

Test(daemon_status_watch, fits_the_terminal_and_follows_its_size) {
    w = prepare(60);
    w.terminal = terminal_open(80, 24);
    for (int i = 0; i < 60; i++) redis_ok(w.cluster.r, "LPUSH q%d job", i); /* idle queues share a line */
    redis_ok(w.cluster.r, "DEL q57");
    redis_ok(w.cluster.r, "SET q57 text");
    start(&w, NULL, "NO_COLOR=1");
    cr_assert(wait_for(shows(&w, "lines more"), 10000), "%s", terminal_raw(w.terminal));
    char *screen = terminal_screen(w.terminal);
    const char *fault = strstr(screen, "\nFAULT "), *table = strstr(screen, "\nQUEUE");
    cr_assert(fault && has(fault, "\"q57\"") && table > fault && has(table, "\nq0 "), "%s", screen);
    cr_assert_null(strstr(terminal_raw(w.terminal), "\x1b[1;31m"), "NO_COLOR");
    terminal_resize(w.terminal, 60, 12);
    child_signal(w.child, SIGWINCH);
    int before = frames(&w);
    cr_assert(wait_for(frames(&w) > before + 1 && shows(&w, "lines more"), 10000), "%s", terminal_raw(w.terminal));
    terminal_resize(w.terminal, 120, 100);
    child_signal(w.child, SIGWINCH);
    cr_assert(wait_for(shows(&w, "\nq59 "), 10000), "%s", terminal_raw(w.terminal));
    interrupt(&w, SIGTERM);
}

static bool is_stopped(const child_t *child) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child->pid;
}

/* Ctrl-Z restores the screen of the shell; after fg, `status` draws again. */
Test(daemon_status_watch, ctrl_z_restores_the_screen_until_fg) {
    w = prepare(1);
    w.terminal = terminal_open(100, 30);
    start(&w, NULL, NULL);
    cr_assert(wait_for(shows(&w, "all is well"), 10000));
    child_signal(w.child, SIGTSTP);
    cr_assert(wait_for(has(terminal_raw(w.terminal), LEAVE), 10000));
    /* A SIGCONT before the stop would be lost. SIGTSTP does not stop a process of an orphaned group. */
    cr_assert(wait_for(is_stopped(w.child) || count(terminal_raw(w.terminal), ENTER) == 2, 10000));
    child_signal(w.child, SIGCONT);
    cr_assert(wait_for(count(terminal_raw(w.terminal), ENTER) == 2 && shows(&w, "all is well"), 10000), "%s",
              terminal_raw(w.terminal));
    interrupt(&w, SIGINT);
}

Test(daemon_status_watch, prints_block_after_block_without_a_terminal) {
    w = prepare(1);
    start(&w, NULL, NULL);
    char *text = NULL;
    cr_assert(wait_for((free(text), text = temp_read(w.out), count(text, "all is well") >= 3), 10000), "%s", text);
    cr_assert_null(strchr(text, '\x1b'), "%s", text);
    interrupt(&w, SIGINT);
}

Test(daemon_status_watch, json_is_one_line_a_frame_even_on_a_terminal) {
    w = prepare(1);
    w.terminal = terminal_open(100, 30);
    start(&w, (const char *const[]){"-o", "json", NULL}, NULL);
    cr_assert(wait_for(count(terminal_raw(w.terminal), "\n") >= 3, 10000));
    redis_ok(w.cluster.r, "SET sidecar:g:lock %s PX 60000", "x\xc2\x9bhost-5000"); // a control character of 8 bits
    cr_assert(wait_for(count(terminal_raw(w.terminal), "x\\u009bhost") > 0, 10000), "%s", terminal_raw(w.terminal));
    interrupt(&w, SIGINT);
    const char *raw = terminal_raw(w.terminal);
    cr_assert_null(strchr(raw, '\x1b'), "%s", raw);
    cr_assert_null(strstr(raw, "\x9b"), "%s", raw);
    cr_assert_eq(count(raw, "{\"at\":"), count(raw, "}\r\n"), "%s", raw);
}

static bool draws_nothing(void) {
    int seen = frames(&w);
    return cluster_stays(frames(&w) == seen, 600);
}

Test(daemon_status_watch, survives_a_restart_of_redis) {
    w = prepare(1);
    w.terminal = terminal_open(100, 30);
    start(&w, NULL, NULL);
    cr_assert(wait_for(shows(&w, "all is well"), 10000));
    server_kill(w.cluster.server);
    cr_assert(wait_for(shows(&w, "Redis at"), 20000), "%s", terminal_raw(w.terminal));
    server_restart(w.cluster.server, SERVER_LOSE_DATA);
    cluster_reopen(&w.cluster);
    cr_assert(wait_for(shows(&w, "all is well"), 20000), "%s", terminal_raw(w.terminal));
    server_freeze(w.cluster.server);
    cr_assert(wait_for(draws_nothing(), 20000), "it redraws while Redis does not answer");
    interrupt(&w, SIGINT);
    const char *raw = terminal_raw(w.terminal);
    cr_assert_str_eq(raw + strlen(raw) - strlen(LEAVE), LEAVE);
    server_thaw(w.cluster.server);
}
