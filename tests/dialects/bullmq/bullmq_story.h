/* Workers of BullMQ from npm beside a real sidecar. */
#pragma once

#include "cli/audit/requeue_fixture.h"
#include "native.h"
#include "rights.h"

#define BULL  "bull:video:"
#define VIDEO "{ name = \"video\"; dialect = \"bullmq\"; %s }"

enum { JOBS = 20, SOON_MS = 60000 };

/* A server, a sidecar on it, and workers of one version of BullMQ. */
typedef struct {
    cluster_t cluster;
    native_t native;
    daemon_t *sidecar;
    const char *env[8];
} setup_t;

static inline daemon_t *setup_add_sidecar(setup_t *setup, const char *settings) {
    return cluster_sidecar_up(&setup->cluster, (sidecar_t){.queues = kept_printf(VIDEO, settings)});
}

static inline void setup_begin_as(setup_t *setup, const char *version, const char *settings) {
    *setup = (setup_t){.cluster = cluster_begin(&(server_options_t){.tcp = true}), .env = {version}};
    setup->native = native_begin("bullmq", setup->cluster.server);
    setup->sidecar = setup_add_sidecar(setup, settings);
}

static inline void setup_begin(setup_t *setup, const char *version, const char *settings) {
    setup_begin_as(setup, version, kept_printf("roles = [\"monitor\"]; %s", settings));
}

static inline void setup_end(setup_t *setup) {
    native_end(&setup->native);
    cluster_end(&setup->cluster);
}

static inline child_t *worker_of(setup_t *setup, const char *queue) {
    int ready = native_count(&setup->native, "ready", NULL);
    child_t *child = native_start(&setup->native, (const char *const[]){"work", queue, NULL}, setup->env, NULL);
    if (!wait_for(native_count(&setup->native, "ready", NULL) > ready, SOON_MS))
        native_fail(&setup->native, "a worker did not start");
    return child;
}

static inline child_t *worker(setup_t *setup) { return worker_of(setup, "video"); }

static inline void stop(setup_t *setup, child_t *child) {
    child_signal(child, SIGTERM);
    if (!child_wait(child, SOON_MS) || child->exit_code != 0)
        native_fail(&setup->native, "a worker did not end with exit code 0");
    child_free(child);
}

/* Adds `count` numbered jobs of one kind; `opts` are the options of add(), as JSON; `parent` is the queue of their parents. */
static inline void produce_children(setup_t *setup, const char *kind, int count, const char *opts, const char *parent) {
    char *in = NULL;
    size_t size;
    FILE *out = open_memstream(&in, &size);
    const char *env[8] = {setup->env[0], kept_printf("QS_OPTS=%s", opts), kept_printf("QS_PARENT=%s", parent), setup->env[1]};
    for (int i = 0; i < count; i++) fprintf(out, "0 %s %d caf\xc3\xa9 \"quoted\" \\ {\"n\": 12345678901234567890}\n", kind, i);
    fclose(out);
    native_finish(&setup->native, (const char *const[]){"produce", "video", NULL}, env, in);
    free(in);
}

static inline void produce(setup_t *setup, const char *kind, int count, const char *opts) {
    produce_children(setup, kind, count, opts, "");
}

/* Calls the queue's own API: "pause", "resume", "retry" with an id. */
static inline void call_queue_api(setup_t *setup, const char *what, const char *id) {
    native_finish(&setup->native, (const char *const[]){"queue", "video", what, id, NULL}, setup->env, NULL);
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
