/* Operators: they requeue, discard and erase failures, run and cancel delayed jobs and import logs, on any instance, and some of
 * their commands are killed. */
#include "chaos.h"

#include "tempdir.h"

enum { PAUSE_MS = 900, COMMAND_MS = 60000, MAX_ARGS = 24, LATE = 120 };

static uint64_t pick(chaos_t *c, uint64_t below) { return cluster_random(&c->operator_random, below); }

static child_t *run(chaos_t *c, int instance, const char *const *args) {
    const daemon_t *d = c->cluster.sidecars[instance];
    char *log = temp_path(daemon_dir(d), "operators"), *audit = NULL;
    const char *argv[MAX_ARGS] = {daemon_program(), args[0], args[1], "-c", daemon_config_path(d)};
    for (size_t i = 2, at = 5; args[i]; i++) argv[at++] = args[i];
    if (asprintf(&audit, "QUEUE_SIDECAR_AUDIT_PATH=%s", daemon_audit_path(d)) < 0) abort();
    child_t *child =
        child_start(&(child_spec_t){.argv = argv, .env = (const char *const[]){audit, NULL}, .out = log, .err = log});
    free(audit);
    free(log);
    c->operations++;
    return child;
}

#define RUN(c, instance, ...) run(c, instance, (const char *const[]){__VA_ARGS__, NULL})

/* A late job, which may be delayed, waiting, in progress or gone. A job that an operator runs is due at once, and so is
 * one that is cancelled: another operator may requeue it before its time. */
static child_t *begin_jobs(chaos_t *c, int instance) {
    int late = c->added < LATE ? c->added : LATE, number = late ? c->added - 1 - (int)pick(c, (uint64_t)late) : -1;
    while (number >= 0 && c->jobs[number].queue > 1) number--;
    char text[24];
    snprintf(text, sizeof text, "\"j%d\"", number);
    bool cancels = pick(c, 2);
    if (number >= 0) c->jobs[number].due_ms = 0;
    const char *queue = chaos_queues[number < 0 ? 0 : c->jobs[number].queue].name;
    return RUN(c, instance, "jobs", cancels ? "cancel" : "run", queue, "--where", "--grep", text, "-y");
}

static child_t *begin(chaos_t *c) {
    int instance = (int)pick(c, CHAOS_SIDECARS), kind = (int)pick(c, 14);
    const char *queue = chaos_queues[pick(c, CHAOS_QUEUES)].name;
    const daemon_t *other = c->cluster.sidecars[pick(c, CHAOS_SIDECARS)];
    bool list = strcmp(queue, "beat") == 0 || strcmp(queue, "plain") == 0;
    if (kind < 6 && list && pick(c, 3) == 0)
        return RUN(c, instance, "audit", "requeue", "--where", "--queue", queue, "-y", "-n", "5", "--to",
                   pick(c, 2) ? "beat" : "plain");
    if (kind < 6) return RUN(c, instance, "audit", "requeue", "--where", "--queue", queue, "-y", "-n", "5");
    if (kind < 8) return RUN(c, instance, "audit", "discard", "--where", "--queue", queue, "-y", "-n", "3");
    if (kind < 9) return RUN(c, instance, "audit", "erase", "--where", "--queue", queue, "-y", "-n", "2");
    if (kind < 12) return begin_jobs(c, instance);
    return RUN(c, instance, "audit", "import", daemon_audit_path(other));
}

/* 2 = the config lacks the queue at the moment; 69 = Redis is unreachable. */
static void check_end(chaos_t *c, const chaos_operator_t *operator) {
    int code = operator->child->exit_code;
    bool fine = code == 0 || code == 1 || code == 2 || code == 69 || (code < 0 && operator->killed_us);
    if (!fine) chaos_fail(c, "a command of an operator ended with code %d, signal %d", code, operator->child->term_signal);
}

static void reap(chaos_t *c, chaos_operator_t *operator) {
    check_end(c, operator);
    child_free(operator->child);
    *operator=(chaos_operator_t){0};
}

void chaos_operate(chaos_t *c) {
    static int64_t next_us;
    int64_t now = wait_now_us();
    for (int i = 0; i < CHAOS_OPERATORS; i++) {
        chaos_operator_t *operator= & c->operators[i];
        if (operator->child && !child_running(operator->child)) {
            reap(c, operator);
        } else if (operator->child && operator->killed_us && now >= operator->killed_us) {
            child_kill(operator->child);
        } else if (!operator->child && now >= next_us) {
            bool dies = pick(c, 8) == 0;
            int64_t after_us = (int64_t)pick(c, 60000);
            *operator=(chaos_operator_t){.child = begin(c), .killed_us = dies ? now + after_us : 0};
            next_us = now + PAUSE_MS * 1000;
        }
    }
}

void chaos_operators_end(chaos_t *c) {
    for (int i = 0; i < CHAOS_OPERATORS; i++) {
        if (!c->operators[i].child) continue;
        if (!child_wait(c->operators[i].child, COMMAND_MS)) chaos_fail(c, "a command of an operator does not end");
        reap(c, &c->operators[i]);
    }
}
