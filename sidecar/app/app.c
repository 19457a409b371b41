#include "app/app.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "app/config_watch.h"
#include "app/log_setup.h"
#include "app/reload.h"
#include "app/role_set.h"
#include "app/sd_notify.h"
#include "base/buffer.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "config/table.h"
#include "http/health.h"
#include "http/http.h"
#include "model/metrics.h"

enum { HTTP_STOP_MS = 1500 };
enum { PLACES = 2 * CONFIG_QUEUES_MAX }; // of metrics: two crews may be at work, each with queues of its own

typedef struct app {
    metrics_t *metrics;
    crew_t *crew;              // that works
    crew_t *next;              // that is taking its places; NULL = none
    bool relieved[CREW_ROLES]; // roles of the crew whose places are taken
    health_t *health;
    http_t *http; // serves all crews: where it listens needs a restart
    role_t http_role;
    reload_t reload;
    notify_t notify;
    bool look;     // the file is to be read as soon as no crew is on its way
    bool asked;    // because somebody wants an answer
    mono_t poll;   // when to look without being told
    char *listen;  // address of the http role, which outlives the configuration; owned
    int signal_fd; // owned, and so is the next
    int watch_fd;
    bool failed;
    int ended_by; // number of the signal that ends the sidecar; 0 = none yet
} app_t;

// What was counted so far, one line a queue.
static void log_stats(const app_t *app) {
    const config_t *config = crew_config(app->crew);
    for (size_t i = 0; i < config->queue_count; i++) {
        const metrics_queue_t *queue = metrics_queue(app->metrics, config->queues[i].name);
#define X(name, kind, family, scale, help) F_INT(#name, metric_get(&queue->name)),
        log_info("main", config->queues[i].name, "stats",
                 METRICS_QUEUE(X) F_INT("p99_lateness_us", metrics_lateness_quantile(queue, 0.99)));
#undef X
    }
    metrics_grow(app->metrics, mono_now());
#define X(name, kind, family, scale, help) F_INT(#name, metric_get(&app->metrics->name)),
    log_info("main", NULL, "stats", METRICS_INSTANCE(X) F_INT("queues", config->queue_count));
#undef X
}

// Says whose beats count: those of the crew that works, and of the http role.
static void watch_crew(app_t *app) {
    const role_t *roles[CREW_ROLES + 1];
    for (int i = 0; i < CREW_ROLES; i++) roles[i] = crew_role(app->crew, i);
    roles[CREW_ROLES] = &app->http_role;
    health_watch(app->health, roles, CREW_ROLES + 1);
}

// A configuration is in effect from here on.
static void take_effect(app_t *app, const config_t *config) {
    metrics_serve(app->metrics, config);
    metric_set(&app->metrics->config_loaded_ms, wall_ms());
    health_took(app->health, app->reload.changes);
    log_set_level(app_log_level(config));
    app_log_memory(config, cgroup_memory_limit(""));
}

static void poll_later(app_t *app) {
    int64_t poll_ms = crew_config(app->crew)->reload.poll_ms;
    app->poll = poll_ms ? mono_add(mono_now(), poll_ms * NS_PER_MS) : mono_never();
}

// The configuration in effect is the one that is to be.
static void tell_ready(app_t *app) { notify_ready(&app->notify, crew_config(app->crew)->queue_count, app->reload.refused); }

static void look_at_config(app_t *app) {
    bool asked = app->asked, was_refused = app->reload.refused;
    if (asked) notify_reloading(&app->notify);
    config_t *config = reload_read(&app->reload, crew_config(app->crew), app->asked, app->metrics);
    app->look = app->asked = false;
    health_config(app->health, app->reload.refused);
    poll_later(app);
    if (config && !asked) notify_reloading(&app->notify);
    if (!config && (asked || was_refused != (app->reload.refused != NULL))) tell_ready(app);
    if (!config) return;
    app->next = crew_new(config, app->metrics);
    if (!app->next) {
        log_error("main", NULL, "the new configuration cannot take effect, the old one stays", F_STR("reason", strerror(errno)));
        tell_ready(app);
        return;
    }
    memset(app->relieved, 0, sizeof app->relieved);
    crew_dismiss(app->crew);
}

// Puts the next crew's roles where those of the crew have ended.
static void relieve(app_t *app) {
    bool done = true;
    for (int i = 0; i < CREW_ROLES && !app->failed; i++) {
        if (!app->relieved[i]) app->relieved[i] = crew_relieve(app->crew, app->next, i, &app->failed);
        done = done && app->relieved[i];
    }
    if (!done || app->failed) return;
    crew_t *old = app->crew;
    app->crew = app->next;
    app->next = NULL;
    watch_crew(app);
    crew_free(old);
    metric_add(&app->metrics->reloads, 1);
    take_effect(app, crew_config(app->crew));
    poll_later(app); // at the pace of the new one
    log_info("main", NULL, "the new configuration is in effect");
    tell_ready(app);
}

static void read_signals(app_t *app) {
    struct signalfd_siginfo info;
    while (read(app->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        switch ((int)info.ssi_signo) {
        case SIGUSR1: log_stats(app); break;
        case SIGHUP: app->look = app->asked = true; break;
        default: app->ended_by = (int)info.ssi_signo; break;
        }
    }
}

// The watchdog hears of us as long as every role turns: the same that /healthz tells.
static void beat(app_t *app) {
    buffer_t why = {0};
    notify_beat(&app->notify, health_alive(app->health, &why));
    buffer_free(&why);
}

// How long to wait for news at the most; NULL = until there is some.
static struct timespec *patience(const app_t *app, struct timespec *timeout) {
    mono_t until = notify_due(&app->notify);
    if (!app->next) until = mono_min(until, app->poll);
    if (until.ns == mono_never().ns) return NULL;
    int64_t left = mono_diff(until, mono_now());
    *timeout = (struct timespec){.tv_sec = left > 0 ? left / NS_PER_S : 0, .tv_nsec = left > 0 ? left % NS_PER_S : 0};
    return timeout;
}

static void await_news(app_t *app) {
    struct pollfd ready[2 + CREW_ROLES] = {{.fd = app->signal_fd, .events = POLLIN}, {.fd = app->watch_fd, .events = POLLIN}};
    for (int i = 0; i < CREW_ROLES; i++) {
        bool leaving = app->next && !app->relieved[i];
        ready[2 + i] = (struct pollfd){.fd = leaving ? crew_role(app->crew, i)->end_fd : -1, .events = POLLIN};
    }
    struct timespec timeout;
    if (ppoll(ready, sizeof ready / sizeof *ready, patience(app, &timeout), NULL) < 0) return;
    if (mono_reached(notify_due(&app->notify), mono_now())) beat(app);
    if (ready[0].revents) read_signals(app);
    if (ready[1].revents && watch_swapped(app->watch_fd)) app->look = true;
    if (!app->next && mono_reached(app->poll, mono_now())) app->look = true;
}

static void work(app_t *app) {
    if (!app->failed) tell_ready(app);
    while (!app->ended_by && !app->failed) {
        await_news(app);
        if (app->next) relieve(app);
        if (app->look && !app->next && !app->ended_by) look_at_config(app);
    }
    notify_stopping(&app->notify);
    if (app->ended_by) log_info("main", NULL, "stopping", F_STR("signal", strsignal(app->ended_by)));
}

// The http role may be off (port 0), and what is wrong with it keeps nobody from working.
static bool start_http(app_t *app) {
    const config_t *config = crew_config(app->crew);
    if (!config->http.port) return true;
    bool ok = role_init(&app->http_role, "http", http_tick, http_finish, NULL);
    app->http_role.self = app->http = http_new(app->listen, config->http.port, app->health, app->metrics);
    ok = ok && role_start(&app->http_role);
    if (!ok) log_error("main", NULL, "cannot start a thread", F_STR("thread", "http"), F_STR("reason", strerror(errno)));
    return ok;
}

static bool start(app_t *app) {
    for (int i = 0; i < CREW_ROLES; i++)
        if (!crew_start_role(app->crew, i)) return false;
    return start_http(app);
}

// False: threads are still running, so nothing may be freed.
static bool stop(app_t *app) {
    bool ended = true;
    role_stop(&app->http_role);
    if (app->next) ended = crew_end(app->next);
    ended = crew_end(app->crew) && ended;
    return role_join(&app->http_role, HTTP_STOP_MS) && ended;
}

// Signals are blocked in every thread and read by the main one, so no handler ever runs.
static bool block_signals(app_t *app, sigset_t *ends) {
    sigemptyset(ends);
    sigaddset(ends, SIGTERM);
    sigaddset(ends, SIGINT);
    sigset_t signals = *ends;
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    app->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return app->signal_fd >= 0;
}

static void end(app_t *app) {
    http_free(app->http);
    role_destroy(&app->http_role);
    health_free(app->health);
    free(app->listen);
    crew_free(app->next);
    crew_free(app->crew);
    metrics_free(app->metrics);
    reload_end(&app->reload);
    notify_end(&app->notify);
    if (app->signal_fd >= 0) close(app->signal_fd);
    if (app->watch_fd >= 0) close(app->watch_fd);
}

int app_run(config_t *config) {
    app_t app = {
        .metrics = metrics_new(PLACES), .watch_fd = watch_begin(config->path), .http_role = {.wake_fd = -1, .end_fd = -1}};
    sigset_t ends;
    app.health = health_new(app.metrics, config->group);
    take_effect(&app, config);
    bool ready = block_signals(&app, &ends);
    notify_begin(&app.notify);
    app.crew = crew_new(config, app.metrics);
    if (!app.crew || !ready) {
        log_error("main", NULL, "cannot start", F_STR("reason", strerror(errno)));
        end(&app);
        return 1;
    }
    app.listen = mem_str(config->http.listen);
    watch_crew(&app);
    poll_later(&app);
    app.failed = !start(&app);
    work(&app);
    pthread_sigmask(SIG_UNBLOCK, &ends, NULL);  // a second signal ends the process at once
    if (!stop(&app)) _exit(app.failed ? 1 : 0); // threads are still running: free nothing
    bool failed = app.failed;
    end(&app);
    if (!failed) log_info("main", NULL, "stopped");
    return failed ? 1 : 0;
}
