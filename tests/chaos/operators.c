/* Operators: they requeue and discard failures and import logs, on any instance, and some of their commands are killed. */
#include "chaos.h"

#include "tempdir.h"

enum { PAUSE_MS = 900, COMMAND_MS = 60000, MAX_ARGS = 24 };

static uint64_t pick(chaos_t *c, uint64_t below) { return cluster_random(&c->operator_random, below); }

static child_t *run(chaos_t *c, int instance, const char *const *args) {
    const daemon_t *d = c->cluster.sidecars[instance];
    char *log = temp_path(daemon_dir(d), "operators"), *audit = NULL;
    const char *argv[MAX_ARGS] = {daemon_program(), "audit", args[0], "-c", daemon_config_path(d)};
    for (size_t i = 1, at = 5; args[i]; i++) argv[at++] = args[i];
    if (asprintf(&audit, "QUEUE_SIDECAR_AUDIT_PATH=%s", daemon_audit_path(d)) < 0) abort();
    child_t *child =
        child_start(&(child_spec_t){.argv = argv, .env = (const char *const[]){audit, NULL}, .out = log, .err = log});
    free(audit);
    free(log);
    c->operations++;
    return child;
}

static child_t *begin(chaos_t *c) {
    int instance = (int)pick(c, CHAOS_SIDECARS), kind = (int)pick(c, 10);
    const char *queue = chaos_queues[pick(c, CHAOS_QUEUES)].name;
    const daemon_t *other = c->cluster.sidecars[pick(c, CHAOS_SIDECARS)];
    bool list = strcmp(queue, "beat") == 0 || strcmp(queue, "plain") == 0;
    if (kind < 6 && list && pick(c, 3) == 0) {
        const char *to = pick(c, 2) ? "beat" : "plain";
        return run(c, instance, (const char *const[]){"requeue", "--where", "--queue", queue, "-y", "-n", "5", "--to", to, NULL});
    }
    if (kind < 6) return run(c, instance, (const char *const[]){"requeue", "--where", "--queue", queue, "-y", "-n", "5", NULL});
    if (kind < 8) return run(c, instance, (const char *const[]){"discard", "--where", "--queue", queue, "-y", "-n", "3", NULL});
    return run(c, instance, (const char *const[]){"import", daemon_audit_path(other), NULL});
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
