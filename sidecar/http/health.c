#include "http/health.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/wakeup.h"

enum { CHANGES_SHOWN = 400, FAULTS_SHOWN = 2000 }; // bytes; a config may have hundreds of errors

struct health {
    char *group; // owned
    bool leads;  // as lock.lead
    metrics_t *metrics;
    pthread_mutex_t mutex; // guards the fields below
    const role_t *roles[HEALTH_WATCHED];
    size_t count;
    char *refused; // owned; NULL = the configuration is in effect
    char *state;   // owned; a text: since when the configuration is in effect, and what it changed
};

health_t *health_new(metrics_t *metrics, const char *group, bool leads) {
    health_t *health = mem_alloc(sizeof *health);
    health->metrics = metrics;
    health->group = mem_str(group);
    health->leads = leads;
    pthread_mutex_init(&health->mutex, NULL);
    return health;
}

void health_free(health_t *health) {
    if (!health) return;
    pthread_mutex_destroy(&health->mutex);
    free(health->group);
    free(health->refused);
    free(health->state);
    free(health);
}

const char *health_group(const health_t *health) { return health->group; }

void health_watch_roles(health_t *health, const role_t *const *roles, size_t count) {
    pthread_mutex_lock(&health->mutex);
    health->count = count < HEALTH_WATCHED ? count : HEALTH_WATCHED;
    for (size_t i = 0; i < health->count; i++) health->roles[i] = roles[i];
    pthread_mutex_unlock(&health->mutex);
}

void health_wake(health_t *health, const char *role) {
    pthread_mutex_lock(&health->mutex);
    for (size_t i = 0; i < health->count; i++)
        if (strcmp(health->roles[i]->name, role) == 0) wakeup_raise(health->roles[i]->wake_fd);
    pthread_mutex_unlock(&health->mutex);
}

// Returns the text, owned, cut to at most `most` bytes, but not inside a character.
static char *health_shorten(const char *text, size_t len, size_t most) {
    size_t shown = len <= most ? len : most;
    while (shown && shown < len && ((unsigned char)text[shown] & 0xc0) == 0x80) shown--;
    return mem_printf("%.*s%s", (int)shown, text, shown < len ? " and more: the log has all" : "");
}

static void health_set_text(health_t *health, char **field, char *owned) {
    pthread_mutex_lock(&health->mutex);
    free(*field);
    *field = owned;
    pthread_mutex_unlock(&health->mutex);
}

void health_set_refused(health_t *health, const char *refused) {
    size_t len = refused ? strlen(refused) : 0;
    while (len && refused[len - 1] == '\n') len--; // drop the last line feed: each error has one
    health_set_text(health, &health->refused, refused ? health_shorten(refused, len, FAULTS_SHOWN) : NULL);
}

void health_set_in_effect(health_t *health, const char *changes) {
    char now[32];
    wall_text(now, sizeof now);
    char *shown = health_shorten(changes ? changes : "", changes ? strlen(changes) : 0, CHANGES_SHOWN);
    health_set_text(health, &health->state, mem_printf("in effect since %s%s%s", now, *shown ? ": " : "", shown));
    free(shown);
}

static health_beat_t health_beat(const role_t *role, mono_t now) {
    int64_t beat = atomic_load(&role->beat_ns);
    int64_t due = atomic_load(&role->due_ns);
    int64_t good = atomic_load(&role->good_ns);
    return (health_beat_t){.name = role->name,
                           .age_s = beat ? (double)(now.ns - beat) / NS_PER_S : -1,
                           .trouble_s = good ? (double)(now.ns - good) / NS_PER_S : 0,
                           .turns = due == 0 || !mono_reached((mono_t){due}, now)};
}

static double health_worse(double a, double b) { return a > b ? a : b; }

size_t health_beats(health_t *health, health_beat_t beats[HEALTH_ROLES]) {
    mono_t now = mono_now();
    size_t count = 0;
    pthread_mutex_lock(&health->mutex);
    for (size_t i = 0; i < health->count; i++) {
        health_beat_t beat = health_beat(health->roles[i], now);
        size_t at = 0;
        while (at < count && strcmp(beats[at].name, beat.name) != 0) at++;
        if (at == count && count < HEALTH_ROLES) beats[count++] = beat;
        if (at == HEALTH_ROLES) continue;
        beats[at].age_s = beats[at].age_s < 0 || beat.age_s < 0 ? -1 : health_worse(beats[at].age_s, beat.age_s);
        beats[at].trouble_s = health_worse(beats[at].trouble_s, beat.trouble_s);
        beats[at].turns = beats[at].turns && beat.turns;
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

// Adds one check. Frees `why`; NULL = the check is ok.
static void health_add_check(buffer_t *json, const char *name, char *why, const char *state) {
    if (json->data[json->len - 1] != '[') buffer_str(json, ",");
    buffer_printf(json, "\n  {\"check\": \"%s\", \"ok\": %s", name, why ? "false" : "true");
    health_add_text(json, "why", why);
    health_add_text(json, "state", state);
    buffer_str(json, "}");
    free(why);
}

// Returns `what` and its reason, owned.
static char *health_because(const health_t *health, const char *what, metrics_why_t of) {
    buffer_t text = {0};
    buffer_str(&text, what);
    metrics_tell(health->metrics, of, &text);
    return text.data;
}

// Returns why some queues are not served, owned; NULL = all are.
static char *health_unserved(const health_t *health) {
    char *first, *why = NULL;
    size_t refused = metrics_refusing(health->metrics, mono_now(), &first);
    if (metric_get(&health->metrics->unserved))
        why = mem_str("some queues are not being served: `check --redis` and the log name them");
    else if (refused)
        why = mem_printf("Redis refuses commands for \"%s\"%s: `check --redis` and the log say why", first,
                         refused > 1 ? " and other queues" : "");
    free(first);
    return why;
}

bool health_ready(health_t *health, buffer_t *json) {
    const metrics_t *m = health->metrics;
    buffer_t hangs = {0};
    bool alive = health_alive(health, &hangs);
    bool redis = metric_get(&m->redis_up) > 0, leading = metric_get(&m->leading) > 0;
    bool lock = leading || metric_get(&m->standing_by) > 0 || !health->leads;
    bool ready = alive && redis && lock;
    buffer_printf(json, "{\"ready\": %s", ready ? "true" : "false");
    health_add_text(json, "group", health->group);
    buffer_str(json, ", \"checks\": [");
    health_add_check(json, "roles", hangs.data, NULL);
    health_add_check(json, "redis",
                     redis ? NULL : health_because(health, "cannot reach Redis, or it refuses the connection", WHY_REDIS), NULL);
    health_add_check(json, "lock", lock ? NULL : health_because(health, "neither leading nor standing by yet", WHY_REDIS),
                     leading          ? "leading"
                     : !health->leads ? HEALTH_NEVER_LEADS
                     : lock           ? "standing by"
                                      : NULL);
    health_add_check(json, "queues", health_unserved(health), NULL);
    health_add_check(json, "wakeups",
                     metric_get(&m->tracking_refused)
                         ? mem_str("Redis refuses client tracking; due and stalled jobs are found by polling "
                                   "(dispatcher.blind_poll): `check --redis` and the log say why")
                         : NULL,
                     NULL);
    health_add_check(json, "audit",
                     metric_get(&m->audit_bad) > 0 ? health_because(health, "the audit log cannot be written", WHY_AUDIT) : NULL,
                     NULL);
    pthread_mutex_lock(&health->mutex);
    health_add_check(json, "config", mem_str(health->refused), health->state);
    pthread_mutex_unlock(&health->mutex);
    buffer_str(json, "\n]}\n");
    return ready;
}
