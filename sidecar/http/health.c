#include "http/health.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json/write.h"
#include "base/wakeup.h"

enum { CHANGES_SHOWN = 400, FAULTS_SHOWN = 2000 }; // bytes; a config may have hundreds of errors

struct health {
    char *group; // owned
    metrics_t *metrics;
    pthread_mutex_t mutex; // guards the fields below
    const role_t *roles[HEALTH_ROLES];
    size_t count;
    char *refused; // owned; NULL = the configuration is in effect
    char *taken;   // owned; which configuration is in effect since when
};

health_t *health_new(metrics_t *metrics, const char *group) {
    health_t *health = mem_alloc(sizeof *health);
    health->metrics = metrics;
    health->group = mem_str(group);
    pthread_mutex_init(&health->mutex, NULL);
    return health;
}

void health_free(health_t *health) {
    if (!health) return;
    pthread_mutex_destroy(&health->mutex);
    free(health->group);
    free(health->refused);
    free(health->taken);
    free(health);
}

void health_watch_roles(health_t *health, const role_t *const *roles, size_t count) {
    pthread_mutex_lock(&health->mutex);
    health->count = count < HEALTH_ROLES ? count : HEALTH_ROLES;
    for (size_t i = 0; i < health->count; i++) health->roles[i] = roles[i];
    pthread_mutex_unlock(&health->mutex);
}

void health_wake(health_t *health, const char *role) {
    pthread_mutex_lock(&health->mutex);
    for (size_t i = 0; i < health->count; i++)
        if (strcmp(health->roles[i]->name, role) == 0) wakeup_raise(health->roles[i]->wake_fd);
    pthread_mutex_unlock(&health->mutex);
}

static const char AND_MORE[] = " and more: the log has all";

// How many of `len` bytes fit into `most` without cutting a character.
static int health_cut(const char *text, size_t len, size_t most) {
    if (len <= most) return (int)len;
    while (most && ((unsigned char)text[most] & 0xc0) == 0x80) most--;
    return (int)most;
}

void health_set_refused(health_t *health, const char *refused) {
    size_t len = refused ? strlen(refused) : 0;
    while (len && refused[len - 1] == '\n') len--; // one line for each error
    char *told = NULL;
    if (refused) told = mem_printf("%.*s%s", health_cut(refused, len, FAULTS_SHOWN), refused, len > FAULTS_SHOWN ? AND_MORE : "");
    pthread_mutex_lock(&health->mutex);
    free(health->refused);
    health->refused = told;
    pthread_mutex_unlock(&health->mutex);
}

void health_set_in_effect(health_t *health, const char *changes) {
    char now[32];
    wall_text(now, sizeof now);
    size_t len = changes ? strlen(changes) : 0;
    if (!changes) changes = "";
    char *taken = mem_printf("in effect since %s%s%.*s%s", now, len ? ": " : "", health_cut(changes, len, CHANGES_SHOWN), changes,
                             len > CHANGES_SHOWN ? AND_MORE : "");
    pthread_mutex_lock(&health->mutex);
    free(health->taken);
    health->taken = taken;
    pthread_mutex_unlock(&health->mutex);
}

size_t health_beats(health_t *health, health_beat_t beats[HEALTH_ROLES]) {
    mono_t now = mono_now();
    pthread_mutex_lock(&health->mutex);
    size_t count = health->count;
    for (size_t i = 0; i < count; i++) {
        const role_t *role = health->roles[i];
        int64_t beat = atomic_load(&role->beat_ns);
        int64_t due = atomic_load(&role->due_ns);
        int64_t good = atomic_load(&role->good_ns);
        beats[i] = (health_beat_t){.name = role->name,
                                   .age_s = beat ? (double)(now.ns - beat) / NS_PER_S : -1,
                                   .trouble_s = good ? (double)(now.ns - good) / NS_PER_S : 0,
                                   .turns = due == 0 || !mono_reached((mono_t){due}, now)};
    }
    pthread_mutex_unlock(&health->mutex);
    return count;
}

bool health_alive(health_t *health, buffer_t *why) {
    health_beat_t beats[HEALTH_ROLES];
    size_t count = health_beats(health, beats);
    bool alive = true;
    for (size_t i = 0; i < count; i++) {
        if (beats[i].turns) continue;
        if (beats[i].age_s < 0)
            buffer_printf(why, "the %s has not finished its first tick\n", beats[i].name);
        else
            buffer_printf(why, "the %s has not ticked for %.0f s\n", beats[i].name, beats[i].age_s);
        alive = false;
    }
    return alive;
}

static void health_add_text(buffer_t *json, const char *name, const char *text) {
    if (!text) return;
    buffer_printf(json, ", \"%s\": ", name);
    json_write_string(json, slice_text(text));
}

// Adds one check; `why` is NULL when it is ok.
static void health_add_check(buffer_t *json, const char *name, const char *why, const char *state) {
    if (json->data[json->len - 1] != '[') buffer_str(json, ",");
    buffer_printf(json, "\n  {\"check\": \"%s\", \"ok\": %s", name, why ? "false" : "true");
    health_add_text(json, "why", why);
    health_add_text(json, "state", state);
    buffer_str(json, "}");
}

// Returns a sentence with its reason when something is wrong, else NULL. *text owns it.
static const char *health_because(const health_t *health, bool wrong, const char *what, metrics_why_t of, buffer_t *text) {
    if (!wrong) return NULL;
    buffer_str(text, what);
    metrics_tell(health->metrics, of, text);
    return buffer_text(text);
}

// Whether all our queues are served; otherwise appends the reason to `why`.
static bool health_queues_served(const health_t *health, buffer_t *why) {
    char *first;
    size_t refused = metrics_refusing(health->metrics, mono_now(), &first);
    if (metric_get(&health->metrics->unserved))
        buffer_str(why, "some queues are not being served: `check --redis` and the log name them");
    else if (refused)
        buffer_printf(why, "Redis refuses commands for \"%s\"%s: `check --redis` and the log say why", first,
                      refused > 1 ? " and other queues" : "");
    free(first);
    return why->len == 0;
}

bool health_ready(health_t *health, buffer_t *json) {
    const metrics_t *m = health->metrics;
    buffer_t hangs = {0};
    buffer_t checks = {0};
    buffer_t unserved = {0}, no_redis = {0}, no_lock = {0}, no_log = {0};
    bool alive = health_alive(health, &hangs);
    bool redis = metric_get(&m->redis_up) > 0;
    int64_t leading = metric_get(&m->leading), standing_by = metric_get(&m->standing_by);
    bool lock = leading + standing_by > 0;
    buffer_str(&checks, "[");
    health_add_check(&checks, "roles", alive ? NULL : buffer_text(&hangs), NULL);
    health_add_check(&checks, "redis",
                     health_because(health, !redis, "cannot reach Redis, or it refuses the connection", WHY_REDIS, &no_redis),
                     NULL);
    health_add_check(&checks, "lock", health_because(health, !lock, "neither leading nor standing by yet", WHY_REDIS, &no_lock),
                     leading       ? "leading"
                     : standing_by ? "standing by"
                                   : NULL);
    health_add_check(&checks, "queues", health_queues_served(health, &unserved) ? NULL : buffer_text(&unserved), NULL);
    health_add_check(&checks, "wakeups",
                     metric_get(&m->tracking_refused) ? "Redis refuses client tracking; due and stalled jobs are found by "
                                                        "polling (dispatcher.safety_poll): `check --redis` and the log say why"
                                                      : NULL,
                     NULL);
    health_add_check(&checks, "audit",
                     health_because(health, metric_get(&m->audit_bad) > 0, "the audit log cannot be written", WHY_AUDIT, &no_log),
                     NULL);
    pthread_mutex_lock(&health->mutex);
    health_add_check(&checks, "config", health->refused, health->taken);
    pthread_mutex_unlock(&health->mutex);
    bool ready = alive && redis && lock;
    buffer_printf(json, "{\"ready\": %s", ready ? "true" : "false");
    health_add_text(json, "group", health->group);
    buffer_printf(json, ", \"checks\": %s\n]}\n", buffer_text(&checks));
    buffer_free(&hangs);
    buffer_free(&unserved);
    buffer_free(&no_redis);
    buffer_free(&no_lock);
    buffer_free(&no_log);
    buffer_free(&checks);
    return ready;
}
