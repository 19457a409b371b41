/* Processes of the real Sidekiq beside a real sidecar. */
#pragma once

#include "cli/audit/requeue_fixture.h"
#include "native.h"

enum { JOBS = 20, SOON_MS = 60000, GONE_MS = 90000 }; /* a process is gone after 20 s, and its keys after 60 s */
#define DEAD         "dead_after = \"20s\"; min_run = \"0s\";"

#define SIDEKIQ_WITH "{ name = \"sidekiq\"; dialect = \"sidekiq\"; %s }"
#define SIDEKIQ      "{ name = \"sidekiq\"; dialect = \"sidekiq\"; queues = [\"default\", \"mailers\"]; %s }"

/* A server, a sidecar on it, and processes of one version of Sidekiq. */
typedef struct {
    cluster_t cluster;
    native_t native;
    daemon_t *sidecar;
    const char *env[8];
} setup_t;

static inline void setup_begin_with(setup_t *setup, const char *version, const char *settings) {
    *setup = (setup_t){.cluster = cluster_begin(&(server_options_t){.tcp = true}), .env = {version}};
    setup->native = native_begin("sidekiq", setup->cluster.server);
    setup->sidecar =
        cluster_sidecar_up(&setup->cluster, (sidecar_t){.queues = kept_printf(SIDEKIQ_WITH, settings), .all_roles = true});
}

static inline void setup_begin(setup_t *setup, const char *version, const char *settings) {
    setup_begin_with(setup, version, kept_printf("queues = [\"default\", \"mailers\"]; %s", settings));
}

static inline void setup_end(setup_t *setup) {
    native_end(&setup->native);
    cluster_end(&setup->cluster);
}

/* A process with 3 threads. At SIGTERM its jobs have 2 s. */
static inline child_t *process_of(setup_t *setup, const char *program) {
    int ready = native_count(&setup->native, "ready", NULL);
    child_t *child =
        native_start(&setup->native, (const char *const[]){program, "-q", "default", "-q", "mailers", "-c", "3", "-t", "2", NULL},
                     setup->env, NULL);
    if (!wait_for(native_count(&setup->native, "ready", NULL) > ready, SOON_MS))
        native_fail(&setup->native, "a process did not start");
    return child;
}

static inline child_t *process(setup_t *setup) { return process_of(setup, "work"); }

static inline void stop(setup_t *setup, child_t *child) {
    child_signal(child, SIGTERM);
    if (!child_wait(child, SOON_MS) || child->exit_code != 0)
        native_fail(&setup->native, "a process did not end with exit code 0");
    child_free(child);
}

/* Pushes `count` numbered jobs of one kind, due in `delay_ms`. */
static inline void produce(setup_t *setup, const char *kind, int count, int delay_ms) {
    char *in = NULL;
    size_t size;
    FILE *out = open_memstream(&in, &size);
    for (int i = 0; i < count; i++) fprintf(out, "%d %s %d caf\xc3\xa9 \"quoted\" \\ {\"n\": 1}\n", delay_ms, kind, i);
    fclose(out);
    native_finish(&setup->native, (const char *const[]){"produce", "default", NULL}, setup->env, in);
    free(in);
}

#define await_native(setup, cond)                                                                                                \
    do {                                                                                                                         \
        if (wait_for(cond, SOON_MS)) break;                                                                                      \
        char *log_ = daemon_log((setup)->sidecar);                                                                               \
        fprintf(stderr, "%s\n", log_);                                                                                           \
        native_fail(&(setup)->native, "timeout: " #cond);                                                                        \
    } while (0)

static inline long long rows(const setup_t *setup, const char *where) {
    return audit_log_int(daemon_audit_path(setup->sidecar), kept_printf("SELECT count(*) FROM events WHERE %s", where));
}

#define await_gone(setup, cond)                                                                                                  \
    do {                                                                                                                         \
        if (wait_for(cond, GONE_MS)) break;                                                                                      \
        char *log_ = daemon_log((setup)->sidecar);                                                                               \
        fprintf(stderr, "%s\n", log_);                                                                                           \
        native_fail(&(setup)->native, "timeout: " #cond);                                                                        \
    } while (0)

/* Counts the jobs that all processes have noted as their work. */
static inline long long noted(const setup_t *setup) {
    return redis_int(setup->cluster.r, "EVAL %s 0",
                     "local n = 0 for _, p in ipairs(redis.call('SMEMBERS', 'processes')) do "
                     "n = n + redis.call('HLEN', p .. ':work') + redis.call('HLEN', p .. ':workers') end return n");
}

static inline void kill_process(child_t *child) {
    child_signal(child, SIGKILL);
    child_wait(child, SOON_MS);
    child_free(child);
}
