// Health of this instance: do its roles tick, can it do its work? Answers come from memory.
#pragma once

#include "base/buffer.h"
#include "model/metrics.h"
#include "role/role.h"

enum { HEALTH_ROLES = 8 };      // names of roles
enum { HEALTH_WATCHED = 1032 }; // roles; those of several shards have the same name

typedef struct health health_t;

// The state of the lock in /readyz while lock.lead is false.
#define HEALTH_NEVER_LEADS "never leads (lock.lead = false)"

// Returns owned; borrows `metrics`, copies the group's name, which /readyz shows. `leads`: lock.lead; an instance that never
// leads is ready without a leader.
health_t *health_new(metrics_t *metrics, const char *group, bool leads);
void health_free(health_t *health); // NULL is fine

const char *health_group(const health_t *health); // borrowed

// Watches these roles from now on; when it returns, no earlier role is in use. Borrows them.
void health_watch_roles(health_t *health, const role_t *const *roles, size_t count);

// Wakes the watched role of that name.
void health_wake(health_t *health, const char *role);

// Sets why the newest configuration was refused; NULL = it is in effect. Copies.
void health_set_refused(health_t *health, const char *refused);
// Notes that a configuration took effect now; `changes`: its changes, NULL = the first one. Copies.
void health_set_in_effect(health_t *health, const char *changes);

// Whether every role ticks. Redis, a disk or a peer that hangs for a minute does not make this false. *why: one line for each
// role that does not tick.
bool health_alive(health_t *health, buffer_t *why);

// Whether this instance works: it has Redis, and leads or stands by, or never leads. *json: every check with the reason of its
// failure, also those that do not decide the answer (a refused configuration, an audit log that cannot be written).
bool health_ready(health_t *health, buffer_t *json);

// Fills one entry for each name of a role, with the worst of its roles, and returns how many: seconds since its last tick ended
// (-1 = none yet) and how long it has been in trouble.
typedef struct health_beat {
    const char *name;
    double age_s;
    double trouble_s; // since the last tick without trouble; 0 = the last tick had none
    bool turns;       // false: the next tick is overdue
} health_beat_t;
size_t health_beats(health_t *health, health_beat_t beats[HEALTH_ROLES]);
