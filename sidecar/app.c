#include "app.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "auditor.h"
#include "base/log.h"
#include "dispatcher.h"
#include "leader.h"
#include "lease.h"
#include "metrics.h"
#include "monitor.h"
#include "queue/keys.h"
#include "role.h"

// A role has this long to end what is in flight: longer than one reply may be awaited after the stop (CONN_STOP_GRACE_MS).
enum { STOP_MS = 1500 };

typedef struct app {
    const config_t *config;
    keyspace_t *keys;
    metrics_t *metrics;
    leases_t *leases;
    leader_t *leader;
    dispatcher_t *dispatcher;
    monitor_t *monitor;
    auditor_t *auditor;
    role_t leader_role;
    role_t dispatcher_role;
    role_t monitor_role;
    role_t auditor_role;
    // In the order of their start. The leader comes first and so is stopped last: it gives the lock back when nobody uses it any
    // more.
    role_t *roles[4];
} app_t;

enum { ROLES = sizeof((app_t *)0)->roles / sizeof(role_t *) };

static bool app_build(app_t *app) {
    bool ok = role_init(&app->leader_role, "leader", leader_tick, leader_finish, NULL) &&
              role_init(&app->dispatcher_role, "dispatcher", dispatcher_tick, NULL, NULL) &&
              role_init(&app->monitor_role, "monitor", monitor_tick, monitor_finish, NULL) &&
              role_init(&app->auditor_role, "auditor", auditor_tick, NULL, NULL);
    app->roles[0] = &app->leader_role;
    app->roles[1] = &app->dispatcher_role;
    app->roles[2] = &app->monitor_role;
    app->roles[3] = &app->auditor_role;
    app->keys = keyspace_new(app->config);
    app->metrics = metrics_new(app->keys->queue_count);
    app->leases = leases_new(app->keys->seat_count);
    app->leader_role.self = app->leader = leader_new(app->keys, app->leases, app->metrics, &app->leader_role.stop);
    app->dispatcher_role.self = app->dispatcher =
        dispatcher_new(app->keys, app->leases, app->metrics, &app->dispatcher_role.stop);
    app->monitor_role.self = app->monitor = monitor_new(app->keys, app->leases, app->metrics, &app->monitor_role.stop);
    app->auditor_role.self = app->auditor = auditor_new(app->keys, app->leases, app->metrics, &app->auditor_role.stop);
    leases_listen(app->leases, app->dispatcher_role.wake_fd);
    leases_listen(app->leases, app->monitor_role.wake_fd);
    leases_doubts_to(app->leases, app->leader_role.wake_fd);
    return ok;
}

static void app_teardown(app_t *app) {
    monitor_free(app->monitor);
    auditor_free(app->auditor);
    dispatcher_free(app->dispatcher);
    leader_free(app->leader);
    leases_free(app->leases);
    metrics_free(app->metrics);
    keyspace_free(app->keys);
    for (int i = 0; i < ROLES; i++) role_destroy(app->roles[i]);
}

static bool app_start(app_t *app) {
    for (int i = 0; i < ROLES; i++) {
        if (role_start(app->roles[i])) continue;
        log_error("main", NULL, "cannot start a thread", F_STR("thread", app->roles[i]->name), F_STR("reason", strerror(errno)));
        return false;
    }
    return true;
}

// False: a role has not ended in time.
static bool app_stop(app_t *app) {
    for (int i = ROLES - 1; i >= 0; i--) {
        role_stop(app->roles[i]);
        if (role_join(app->roles[i], STOP_MS)) continue;
        log_warn("main", NULL, "a role did not end in time", F_STR("thread", app->roles[i]->name));
        return false;
    }
    return true;
}

// What was counted so far, one line a queue.
static void log_stats(const app_t *app) {
    for (size_t i = 0; i < app->keys->queue_count; i++) {
        const metrics_queue_t *queue = &app->metrics->queues[i];
#define X(name, help) F_INT(#name, metric_get(&queue->name)),
        log_info("main", app->config->queues[i].name, "stats",
                 METRICS_QUEUE(X) F_INT("p99_lateness_us", metrics_lateness_quantile(queue, 0.99)));
#undef X
    }
#define X(name, help) F_INT(#name, metric_get(&app->metrics->name)),
    log_info("main", NULL, "stats", METRICS_INSTANCE(X) F_INT("queues", app->keys->queue_count));
#undef X
}

// Signals are blocked in every thread and read here, so no handler ever runs.
static int wait_for_end(const app_t *app, const sigset_t *signals) {
    for (;;) {
        switch (sigwaitinfo(signals, NULL)) {
        case SIGTERM: return SIGTERM;
        case SIGINT: return SIGINT;
        case SIGUSR1: log_stats(app); break;
        case SIGHUP: log_warn("main", NULL, "the configuration cannot be reloaded in this version: restart instead"); break;
        default: break; // interrupted by a signal that is not ours
        }
    }
}

int app_run(const config_t *config) {
    app_t app = {.config = config};
    sigset_t signals;
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    signals = ends;
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    bool ok = app_build(&app);
    if (!ok) log_error("main", NULL, "cannot start", F_STR("reason", strerror(errno)));
    ok = ok && app_start(&app);
    if (ok) {
        int number = wait_for_end(&app, &signals);
        log_info("main", NULL, "stopping", F_STR("signal", strsignal(number)));
    }
    pthread_sigmask(SIG_UNBLOCK, &ends, NULL); // a second signal ends the process at once
    if (!app_stop(&app)) _exit(ok ? 0 : 1);    // threads are still running: free nothing
    app_teardown(&app);
    if (ok) log_info("main", NULL, "stopped");
    return ok ? 0 : 1;
}
