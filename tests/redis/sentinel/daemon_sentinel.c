/* The program behind sentinels, while the primary changes and jobs flow. QS_LONG=1 runs the long form. */
#include "flow.h"
#include "suite.h"
#include "tempdir.h"
#include "wait.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

enum {
    LONG_KILLS = 8,
    LONG_FREEZES = 6,
    LONG_COMMANDS = 6,
    LONG_ALL = LONG_KILLS + LONG_FREEZES + LONG_COMMANDS,
    P50_MS = 300,
    MOST_MS = 1000,
    SOON_MS = 5000,
    DEAD_MS = 10000,
    FROZEN_MS = 2000,
    FROZEN_LONG_MS = 6000,
    CLOCK_STEP_MS = 30000,
    LOG_WINDOW_MS = 10000, /* in which the log suppresses a line that repeats */
};

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Fails over in turn by each kind, each as often as given. Returns whether the jobs came soon. */
static bool fail_over(flow_t *f, const int *times) {
    double ms[LONG_ALL];
    int done = 0, left[FAILOVER_KINDS] = {times[0], times[1], times[2]};
    while (left[0] + left[1] + left[2]) {
        for (int kind = 0; kind < FAILOVER_KINDS; kind++) {
            if (!left[kind]) continue;
            left[kind]--;
            ms[done++] = flow_failover(f, (failover_t)kind);
            fprintf(stderr, "failover %d, kind %d: first job %.0f ms after the sentinels named the new primary\n", done, kind,
                    ms[done - 1]);
        }
    }
    qsort(ms, (size_t)done, sizeof *ms, by_value);
    fprintf(stderr, "new primary to first job: p50 %.0f ms, max %.0f ms\n", ms[done / 2], ms[done - 1]);
    return ms[done / 2] <= wait_scaled_ms(P50_MS) && ms[done - 1] <= wait_scaled_ms(MOST_MS);
}

/* Each failover is one line in each log. A failover may be followed by another one that nobody asked for: a loaded machine makes
 * the new primary look dead. */
static void expect_one_line_each(flow_t *f, int failovers) {
    long long epoch = 0;
    sentinels_primary(f->s, &epoch);
    for (int i = 0; i < FLOW_SIDECARS; i++) {
        int lines = daemon_log_count(f->sidecars[i], "another server is the primary");
        cr_assert(lines >= failovers && lines <= epoch, "%d lines for %d failovers, epoch %lld", lines, failovers, epoch);
    }
}

/* Returns the number of failovers. Fails unless each replicated job is taken. */
static int survive_failovers(const sentinels_options_t *options) {
    static const int quick[FAILOVER_KINDS] = {1, 1, 1};
    static const int half[FAILOVER_KINDS] = {LONG_KILLS / 2, LONG_FREEZES / 2, LONG_COMMANDS / 2};
    const int *times = getenv("QS_LONG") ? half : quick;
    flow_t *f = flow_begin(options, "");
    int rounds = 1, all = times[0] + times[1] + times[2];
    for (; !fail_over(f, times); rounds++) cr_assert_lt(rounds, 3, "the first job comes late"); /* else the machine was busy */
    all *= rounds;
    expect_one_line_each(f, all);
    flow_end(f);
    return all;
}

Test(daemon_sentinel, every_job_survives_failovers) { cr_assert_geq(survive_failovers(NULL), FAILOVER_KINDS); }

Test(daemon_sentinel, every_job_survives_failovers_over_tls) {
    int all = survive_failovers(&(sentinels_options_t){.tls = true});
    cr_assert_geq(all, FAILOVER_KINDS, "%d failovers", all);
}

static void flow_for(flow_t *f, int ms) {
    int64_t until = wait_now_us() + (int64_t)ms * 1000;
    flow_until(f, wait_now_us() >= until, ms * 10);
}

/* Whether new jobs are taken within SOON_MS. */
static bool still_flows(flow_t *f) {
    f->first_since = f->added;
    f->first_us = 0;
    return flow_until(f, f->first_us != 0, SOON_MS);
}

Test(daemon_sentinel, dead_sentinels_stop_no_job) {
    flow_t *f = flow_begin(NULL, "");
    sentinel_kill(f->s, 0);
    sentinel_kill(f->s, 1);
    redis_ok(f->r, "CLIENT KILL TYPE normal SKIPME yes");
    if (!still_flows(f)) flow_fail(f, "one sentinel is not enough to connect again");

    sentinel_kill(f->s, 2);
    int64_t cpu_us = daemon_cpu_us(f->sidecars[0]) + daemon_cpu_us(f->sidecars[1]);
    int ms = getenv("QS_LONG") ? DEAD_MS : DEAD_MS / 5;
    flow_for(f, ms);
    cpu_us = daemon_cpu_us(f->sidecars[0]) + daemon_cpu_us(f->sidecars[1]) - cpu_us;
    if (!still_flows(f)) flow_fail(f, "no job flows without sentinels, although the primary lives");
    cr_assert_lt(cpu_us, ms * 1000 / 2, "%lld us in %d ms: something spins", (long long)cpu_us, ms);
    cr_assert_eq(daemon_log_count(f->sidecars[0], "cannot learn where the primary is"), 1);

    for (int i = 0; i < SENTINELS; i++) sentinel_restart(f->s, i);
    flow_settle(f);
    flow_failover(f, FAILOVER_KILL);
    flow_end(f);
}

Test(daemon_sentinel, a_lying_sentinel_leads_nobody_astray) {
    flow_t *f = flow_begin(NULL, "");
    server_t *foreign = server_start(&(server_options_t){.tcp = true});
    redis_t *r = redis_open(foreign);
    sentinel_lie(f->s, 0, server_port(foreign), 1000);
    redis_ok(f->r, "CLIENT KILL TYPE normal SKIPME yes");
    if (!still_flows(f)) flow_fail(f, "a lying sentinel stops the jobs");
    server_kill(f->s->servers[0]);
    flow_follow(f, 0);
    cr_assert_eq(redis_int(r, "DBSIZE"), 0, "a sidecar has written to a server that one sentinel named");
    redis_close(r);
    server_free(foreign);
    sentinel_forget(f->s, 0);
    server_restart(f->s->servers[0], SERVER_KEEP_DATA);
    flow_end(f);
}

/* The connections to the old primary are still open, and any thread of the sidecar may be the first to go on. */
Test(daemon_sentinel, a_frozen_sidecar_promotes_nothing_at_the_old_primary) {
    flow_t *f = flow_begin(NULL, "");
    int rounds = getenv("QS_LONG") ? 3 : 1;
    for (int i = 0; i < rounds; i++) {
        cr_assert_eq(flow_failover_unseen(f, FAILOVER_COMMAND, FROZEN_MS), 0);
        cr_assert_eq(flow_failover_unseen(f, FAILOVER_FREEZE, FROZEN_MS), 0);
    }
    if (rounds > 1) cr_assert_eq(flow_failover_unseen(f, FAILOVER_KILL, FROZEN_LONG_MS), 0);
    flow_end(f);
}

/* Whether the auditors have read the clock: they read it before they wait for records. */
static bool auditors_wait(flow_t *f) {
    char *list = redis_str(f->r, "CLIENT LIST");
    int count = 0;
    for (const char *at = list; (at = strstr(at, " cmd=xread ")) != NULL; at++) count++;
    return count == FLOW_SIDECARS;
}

/* A command makes the server read its clock. Otherwise it dates the loss of its primary by the old clock, and no sentinel
 * promotes it: its link seems to be down for too long. */
static void step_clock(server_t *server, int64_t step_ms) {
    server_step_clock(server, step_ms);
    scoped(redis_drop) redis_t *r = redis_open(server);
    redis_ok(r, "PING");
}

/* From the present primary to another one whose clock is ahead by so much, or behind. */
static void fail_over_to_clock(flow_t *f, failover_t kind, int64_t step_ms, int logged) {
    for (int i = 0; i < SENTINEL_SERVERS; i++)
        if (i != f->primary) step_clock(f->s->servers[i], step_ms);
    flow_settle(f); /* a step of a replica's clock looks like a silent primary to it */
    int old = f->primary;
    flow_failover(f, kind);
    server_step_clock(f->s->servers[old], step_ms); /* one that fails over again without a reason finds the same clock */
    for (int i = 0; i < FLOW_SIDECARS; i++)
        if (!flow_until(f, daemon_log_count(f->sidecars[i], "redis's clock has stepped") == logged, SOON_MS))
            flow_fail(f, "the step of the clock is not logged once");
}

/* Each job becomes due by the clock of the primary that promotes it, as docs/promises.md says: sooner after a step forward, later
 * after a step back. */
Test(daemon_sentinel, jobs_follow_the_clock_of_a_new_primary, .timeout = 300) {
    flow_t *f = flow_begin(&(sentinels_options_t){.preload = "shim_clock"}, "");
    cr_assert(flow_until(f, auditors_wait(f), SOON_MS));
    fail_over_to_clock(f, FAILOVER_KILL, CLOCK_STEP_MS, 1);
    flow_for(f, LOG_WINDOW_MS);
    fail_over_to_clock(f, FAILOVER_COMMAND, -CLOCK_STEP_MS, 2);
    flow_for(f, CLOCK_STEP_MS); /* jobs of the clock that was ahead become due */
    for (int i = 0; i < FLOW_SIDECARS; i++) {
        cr_assert_eq(daemon_log_count(f->sidecars[i], "redis's clock has stepped"), 2);
        cr_assert_eq(daemon_log_count(f->sidecars[i], "\"step_ms\":-"), 1, "one step forward and one back");
    }
    flow_end(f);
}

/* Commands find the primary as the program does, after a failover too. */
Test(daemon_sentinel, commands_ask_the_sentinels) {
    flow_t *f = flow_begin(NULL, "");
    flow_failover(f, FAILOVER_COMMAND);
    const char *config = daemon_config_path(f->sidecars[0]), *audit = daemon_audit_path(f->sidecars[0]);
    char *variable = kept_printf("QUEUE_SIDECAR_AUDIT_PATH=%s", audit);
    char *primary = kept_printf("127.0.0.1:%d", sentinels_port(f->s, f->primary));
    const daemon_options_t options = {.env = (const char *const[]){variable, NULL}};
    const daemon_output_t *status = daemon_run_argv(&options, (const char *const[]){"status", "-c", config, NULL});
    cr_assert(strstr(status->out, primary), "%s%s", status->out, status->err);
    const daemon_output_t *check = daemon_run_argv(&options, (const char *const[]){"check", "-c", config, "--redis", NULL});
    cr_assert(strstr(check->err, primary) && strstr(check->err, "entinel"), "%s%s", check->out, check->err);
    const daemon_output_t *requeue =
        daemon_run_argv(&options, (const char *const[]){"audit", "requeue", "-c", config, "--where", "1 = 1", "--yes", NULL});
    cr_assert_not(strstr(requeue->err, "connect"), "%s%s", requeue->out, requeue->err);
    flow_end(f);
}

/* The new set of roles has a watcher of its own. */
Test(daemon_sentinel, failover_after_a_reload_with_host_names) {
    flow_t *f = flow_begin(&(sentinels_options_t){.hostnames = true}, "");
    for (int i = 0; i < FLOW_SIDECARS; i++) {
        if (!flow_until(f, daemon_log_count(f->sidecars[i], "queue-sidecar starts") == 1, SOON_MS))
            flow_fail(f, "has not read its config yet");
        char *text = temp_read(daemon_config_path(f->sidecars[i]));
        daemon_write_config(f->sidecars[i], "%s\nmonitor = { scan_interval = \"2s\"; };\n", text);
        daemon_signal(f->sidecars[i], SIGHUP);
    }
    for (int i = 0; i < FLOW_SIDECARS; i++)
        if (!flow_until(f, daemon_log_count(f->sidecars[i], "new configuration in effect") == 1, SOON_MS))
            flow_fail(f, "no reload");
    cr_assert_leq(flow_failover(f, FAILOVER_KILL), wait_scaled_ms(MOST_MS));
    cr_assert_leq(flow_failover(f, FAILOVER_COMMAND), wait_scaled_ms(MOST_MS));
    flow_end(f);
}

/* A host dies with the primary and a sentinel: a connect to that sentinel gets no answer, not even a refusal. */
Test(daemon_sentinel, silent_sentinel_delays_no_failover) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 100) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    flow_t *f = flow_begin(&(sentinels_options_t){.silent_port = ntohs(address.sin_port)}, "");
    for (int i = 0; i < 2; i++) {
        double ms = flow_failover(f, i ? FAILOVER_FREEZE : FAILOVER_KILL);
        if (ms > wait_scaled_ms(MOST_MS)) ms = flow_failover(f, FAILOVER_KILL); /* the machine was busy */
        fprintf(stderr, "with a silent sentinel: first job after %.0f ms\n", ms);
        cr_assert_leq(ms, wait_scaled_ms(MOST_MS));
    }
    flow_end(f);
    close(fd);
}
