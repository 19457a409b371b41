#include "app/app.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "app/reload.h"
#include "app/role_set.h"
#include "app/sd_notify.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/wakeup.h"
#include "config/dialect.h"
#include "config/table.h"
#include "http/health.h"
#include "http/http.h"
#include "model/metrics.h"
#include "redis/cluster/cluster.h"
#include "redis/topology.h"

enum { HTTP_STOP_MS = 1500 };
enum { MODE_INTERVAL_S = 2 };
// Roles, connections and a reload have some 15 files for each shard; other parts of the process have some 40.
enum { FILES = 32 * TOPOLOGY_SHARDS_MAX + 256 };
enum { METRIC_ROWS = 2 * CONFIG_QUEUES_MAX }; // two role sets may run at once, with different queues

typedef struct app {
    metrics_t *metrics;
    role_set_t *roles;      // in effect
    role_set_t *next_roles; // taking over; NULL = none
    health_t *health;
    http_t *http; // outlives reloads: its address cannot change
    role_t http_role;
    api_t *apis[API_LANES]; // outlive reloads too, and take over each config
    role_t api_roles[API_LANES];
    reload_t reload;
    sd_notify_t notify;
    bool reload_wanted; // read the file once no hand-over is under way
    bool reload_asked;  // SIGHUP: always log the result
    mono_t password_at; // when to read the password file
    mono_t poll_at;     // when to read the file without being asked
    mono_t mode_at;     // when to ask what Redis is; never = it is known
    int signal_fd;      // owned, like watch_fd and told_fd
    int told_fd;        // raised when a role has ended or slots have moved
    int watch_fd;
    bool failed;
    int signal_number; // the signal that ends the sidecar; 0 = none yet
} app_t;

// Logs all counters, one line a queue.
static void app_log_stats(const app_t *app) {
    const config_t *config = role_set_config(app->roles);
    for (size_t i = 0; i < config->queue_count; i++) {
        const metrics_queue_t *queue = metrics_queue(app->metrics, config->queues[i].name);
#define X(name, kind, family, scale, help) F_INT(#name, metric_get(&queue->name)),
        log_info("main", config->queues[i].name, "stats", METRICS_QUEUE(X) F_STR("dialect", config->queues[i].dialect->name));
#undef X
    }
    metrics_grow(app->metrics, mono_now());
#define X(name, kind, family, scale, help) F_INT(#name, metric_get(&app->metrics->name)),
    log_info("main", NULL, "stats", METRICS_INSTANCE(X) F_INT("queues", config->queue_count));
#undef X
}

// Health watches the roles of the current set and the http role.
static void app_watch_roles(app_t *app) {
    const role_t *roles[HEALTH_WATCHED];
    size_t count = role_set_roles(app->roles, roles, HEALTH_WATCHED - 1 - API_LANES);
    if (app->http) roles[count++] = &app->http_role;
    for (int i = 0; app->http && i < API_LANES; i++) roles[count++] = &app->api_roles[i];
    health_watch_roles(app->health, roles, count);
}

// Peak memory of an instance in bytes: MEMORY_BASE and MEMORY_OF_JOB times the largest job; measured while many of the largest
// jobs failed. The monitor has two copies of a job for a moment, the auditor has one, and the kernel buffers more.
enum { MEMORY_BASE = 24 << 20, MEMORY_OF_JOB = 5, SMALLEST_PAYLOAD = 1 << 10 };

void app_log_memory(const config_t *config, int64_t limit) {
    int64_t largest = 0;
    for (size_t i = 0; i < config->queue_count; i++)
        if (config->queues[i].policy.max_payload > largest) largest = config->queues[i].policy.max_payload;
    int64_t needed = MEMORY_BASE + MEMORY_OF_JOB * largest;
    if (needed <= limit) return;
    int64_t fits = (limit - MEMORY_BASE) / MEMORY_OF_JOB;
    if (fits >= SMALLEST_PAYLOAD)
        log_warn("main", NULL, "memory limit too small for max_payload; raise the limit or lower max_payload",
                 F_INT("limit", limit), F_INT("needed", needed), F_INT("max_payload", largest), F_INT("fits", fits));
    else
        log_warn("main", NULL, "memory limit too small for max_payload; raise the limit", F_INT("limit", limit),
                 F_INT("needed", needed), F_INT("max_payload", largest));
}

// Tells metrics, health and log which configuration is now in effect.
static void app_take_effect(app_t *app, const config_t *config) {
    metrics_serve(app->metrics, config);
    metric_set(&app->metrics->config_loaded_ms, wall_ms());
    health_set_in_effect(app->health, app->reload.changes);
    log_set_level(config->log.level);
    app_log_memory(config, cgroup_memory_limit(""));
}

static void app_schedule_poll(app_t *app) {
    int64_t poll_ms = role_set_config(app->roles)->reload.poll_ms;
    app->poll_at = poll_ms ? mono_add(mono_now(), poll_ms * NS_PER_MS) : mono_never();
}

static void app_notify_ready(app_t *app) {
    sd_notify_ready(&app->notify, role_set_config(app->roles)->queue_count, app->reload.refused.holds);
}

static void app_read_config(app_t *app) {
    bool reload_asked = app->reload_asked, was_refused = app->reload.refused.holds;
    if (reload_asked) sd_notify_reloading(&app->notify);
    const config_t *current = role_set_config(app->roles);
    config_t *config = reload_read(&app->reload, current, app->reload_asked, app->metrics);
    if (config && role_set_auditor_is_behind(app->roles)) reload_warn_uncopied_records(current, config);
    app->reload_wanted = app->reload_asked = false;
    health_set_refused(app->health, app->reload.refused.reason);
    app_schedule_poll(app);
    if (config && !reload_asked) sd_notify_reloading(&app->notify);
    if (!config && (reload_asked || was_refused != (app->reload.refused.holds))) app_notify_ready(app);
    if (!config) return;
    assert(!app->next_roles); // one hand-over at a time: each role has one predecessor
    app->next_roles = role_set_new(config, app->metrics, app->told_fd);
    if (!app->next_roles) {
        log_error("main", NULL, "cannot apply the new configuration; keeping the old one", F_STR("reason", strerror(errno)));
        config_files_clear(&app->reload.files); // the next poll tries again
        app_notify_ready(app);
        return;
    }
    role_set_stop_for_reload(app->roles);
}

// Starts each role of the next set whose predecessor has ended; completes the reload after the last one.
static void app_hand_over(app_t *app) {
    if (!role_set_take_over(app->next_roles, app->roles, &app->failed) || app->failed) return;
    role_set_t *old = app->roles;
    app->roles = app->next_roles;
    app->next_roles = NULL;
    for (int i = 0; app->http && i < API_LANES; i++) api_use_config(app->apis[i], role_set_config(app->roles));
    app->password_at = mono_now();
    app_watch_roles(app);
    role_set_free(old);
    metric_add(&app->metrics->reloads, 1);
    app_take_effect(app, role_set_config(app->roles));
    app_schedule_poll(app); // at the interval of the new configuration
    log_info("main", NULL, "new configuration in effect");
    app_notify_ready(app);
}

static void app_read_signals(app_t *app) {
    struct signalfd_siginfo info;
    while (read(app->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        switch ((int)info.ssi_signo) {
        case SIGUSR1: app_log_stats(app); break;
        case SIGHUP: app->reload_wanted = app->reload_asked = true; break;
        default: app->signal_number = (int)info.ssi_signo; break;
        }
    }
}

// Feed the watchdog while every role ticks: the condition of /healthz.
static void app_notify_watchdog(app_t *app) {
    buffer_t why = {0};
    sd_notify_beat(&app->notify, health_alive(app->health, &why));
    buffer_free(&why);
}

static void app_follow_slots(app_t *app) {
    bool changed;
    if (!role_set_follow_slots(app->roles, &changed)) app->failed = true;
    if (!changed) return;
    app_watch_roles(app);
    role_set_free_ended(app->roles);
}

// Redis was away at the start, so nobody knows whether it is a Cluster.
static void app_find_mode(app_t *app) {
    app->reload.mode = cluster_find_mode(&role_set_config(app->roles)->redis);
    bool known = app->reload.mode != REDIS_MODE_AUTO;
    app->mode_at = known ? mono_never() : mono_add(mono_now(), MODE_INTERVAL_S * NS_PER_S);
    if (app->reload.mode == REDIS_MODE_CLUSTER) app->reload_wanted = true;
}

static void app_wait(app_t *app) {
    struct pollfd ready[] = {{.fd = app->signal_fd, .events = POLLIN},
                             {.fd = app->watch_fd, .events = POLLIN},
                             {.fd = app->told_fd, .events = POLLIN}};
    struct timespec left;
    if (mono_reached(app->password_at, mono_now())) app->password_at = role_set_check_password(app->roles);
    mono_t until = app->next_roles ? sd_notify_due(&app->notify) : mono_min(sd_notify_due(&app->notify), app->poll_at);
    until = mono_min(until, app->password_at);
    if (!app->next_roles) until = mono_min(until, app->mode_at);
    if (ppoll(ready, sizeof ready / sizeof *ready, mono_timeout(until, &left), NULL) < 0) return;
    if (mono_reached(sd_notify_due(&app->notify), mono_now())) app_notify_watchdog(app);
    if (ready[0].revents) app_read_signals(app);
    if (ready[1].revents && reload_was_swapped(app->watch_fd)) app->reload_wanted = true;
    if (ready[2].revents) wakeup_clear(app->told_fd);
    if (ready[2].revents && !app->next_roles) app_follow_slots(app);
    if (app->next_roles) return;
    if (mono_reached(app->poll_at, mono_now())) app->reload_wanted = true;
    if (mono_reached(app->mode_at, mono_now())) app_find_mode(app);
}

static void app_loop(app_t *app) {
    if (!app->failed) app_notify_ready(app);
    while (!app->signal_number && !app->failed) {
        app_wait(app);
        if (app->next_roles) app_hand_over(app);
        if (app->reload_wanted && !app->next_roles && !app->signal_number) app_read_config(app);
    }
    sd_notify_stopping(&app->notify);
    if (app->signal_number) log_info("main", NULL, "stopping", F_STR("signal", strsignal(app->signal_number)));
}

// The http role may be off (port 0); its errors stop no other role.
static bool app_start_http(app_t *app) {
    config_t *config = role_set_config(app->roles);
    if (!config->http.port) return true;
    bool ok = role_init(&app->http_role, "http", http_tick, http_finish, NULL);
    for (int i = 0; i < API_LANES; i++) {
        role_t *role = &app->api_roles[i];
        app->apis[i] = api_new(config, app->metrics);
        ok = role_init(role, "api", api_tick, api_finish, app->apis[i]) && ok;
        api_connect(app->apis[i], role->wake_fd, app->http_role.wake_fd, &role->stop);
    }
    app->http_role.self = app->http = http_new(config, app->health, app->metrics, app->apis);
    for (int i = 0; i < API_LANES; i++) ok = ok && role_start(&app->api_roles[i]);
    ok = ok && role_start(&app->http_role);
    if (!ok) log_error("main", NULL, "cannot start a thread", F_STR("thread", "http"), F_STR("reason", strerror(errno)));
    return ok;
}

static bool app_start(app_t *app) { return role_set_start(app->roles) && app_start_http(app); }

// Returns false when a thread is still running; then free nothing.
static bool app_stop(app_t *app) {
    bool ended = true;
    role_stop(&app->http_role);
    for (int i = 0; i < API_LANES; i++) role_stop(&app->api_roles[i]);
    if (app->next_roles) ended = role_set_end(app->next_roles);
    ended = role_set_end(app->roles) && ended;
    for (int i = 0; i < API_LANES; i++) ended = role_join(&app->api_roles[i], HTTP_STOP_MS) && ended;
    return role_join(&app->http_role, HTTP_STOP_MS) && ended;
}

static void app_abandon(app_t *app) {
    role_set_abandon(app->next_roles);
    role_set_abandon(app->roles);
    role_abandon(&app->http_role);
    for (int i = 0; i < API_LANES; i++) role_abandon(&app->api_roles[i]);
}

// All threads block signals and the main thread reads them, so no handler runs. *ends: the signals that end the process.
static sigset_t app_block_signals(sigset_t *ends) {
    sigemptyset(ends);
    sigaddset(ends, SIGTERM);
    sigaddset(ends, SIGINT);
    sigset_t signals = *ends;
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    return signals;
}

void app_hold_signals(void) {
    sigset_t ends;
    app_block_signals(&ends);
}

static bool app_open_signals(app_t *app, sigset_t *ends) {
    sigset_t signals = app_block_signals(ends);
    app->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return app->signal_fd >= 0;
}

static void app_free(app_t *app) {
    http_free(app->http);
    for (int i = 0; i < API_LANES; i++) api_free(app->apis[i]);
    role_destroy(&app->http_role);
    for (int i = 0; i < API_LANES; i++) role_destroy(&app->api_roles[i]);
    health_free(app->health);
    role_set_free(app->next_roles);
    role_set_free(app->roles);
    metrics_free(app->metrics);
    reload_end(&app->reload);
    sd_notify_end(&app->notify);
    if (app->signal_fd >= 0) close(app->signal_fd);
    if (app->watch_fd >= 0) close(app->watch_fd);
    if (app->told_fd >= 0) close(app->told_fd);
}

int app_run(config_t *config) {
    app_t app = {.metrics = metrics_new(METRIC_ROWS),
                 .watch_fd = reload_watch(config->path),
                 .http_role = {.wake_fd = -1, .end_fd = -1},
                 .api_roles = {{.wake_fd = -1, .end_fd = -1}, {.wake_fd = -1, .end_fd = -1}}};
    sigset_t ends;
    host_raise_file_limit(FILES);
    app.health = health_new(app.metrics, config->group, config->lock.lead);
    app_take_effect(&app, config);
    app.told_fd = wakeup_new();
    bool ready = app_open_signals(&app, &ends) && app.told_fd >= 0;
    sd_notify_begin(&app.notify);
    app.roles = role_set_new(config, app.metrics, app.told_fd);
    if (!app.roles || !ready) {
        log_error("main", NULL, "cannot start", F_STR("reason", strerror(errno)));
        app_free(&app);
        return 1;
    }
    app_watch_roles(&app);
    app_schedule_poll(&app);
    reload_begin(&app.reload, config);
    app.mode_at = config_may_be_cluster(config) && config->redis.found == REDIS_MODE_AUTO ? mono_now() : mono_never();
    app.failed = !app_start(&app);
    app_watch_roles(&app); // with the http role
    app_loop(&app);
    host_end_at_repeated_signal(&ends);
    if (!app_stop(&app)) { // threads are still running: free nothing
        app_abandon(&app);
        _exit(app.failed ? 1 : 0);
    }
    bool failed = app.failed;
    app_free(&app);
    if (!failed) log_info("main", NULL, "stopped");
    return failed ? 1 : 0;
}
