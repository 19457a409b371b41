// What the sidecar says of itself: whether its roles turn, and whether it can do its work. Answers come from memory.
#ifndef QS_HTTP_HEALTH_H
#define QS_HTTP_HEALTH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "model/metrics.h"
#include "role/role.h"

enum { HEALTH_ROLES = 8 };

typedef struct health health_t;

// Owned; `metrics` is borrowed, the name of the group copied: by it whoever asks sees whom he asks.
health_t *health_new(metrics_t *metrics, const char *group);
void health_free(health_t *health); // takes; NULL is fine

// These roles count from now on; when it returns nobody looks at earlier ones any more. Borrowed.
void health_watch_roles(health_t *health, const role_t *const *roles, size_t count);

// Ends the wait of the role of that name, if it is watched.
void health_wake(health_t *health, const char *role);

// Why the newest configuration is refused; NULL = it is in effect. Copied.
void health_set_refused(health_t *health, const char *refused);
// A configuration is in effect from now on; `changes`: what it has changed, NULL = it is the first. Copied.
void health_set_in_effect(health_t *health, const char *changes);

// Whether every role turns: nothing that Redis, a disk or a peer does for a minute makes this false. *why: a line for each that
// does not.
bool health_alive(health_t *health, buffer_t *why);

// Whether this instance does its part: it has Redis, and leads or stands by. *json: one check each, with why it is not well;
// those that do not matter for the answer (a refused configuration, an audit log that cannot be written) are told too.
bool health_ready(health_t *health, buffer_t *json);

// For each role its name and the seconds since its last tick ended, -1 where none has yet, and for how long it is in trouble.
// Returns how many.
typedef struct health_beat {
    const char *name;
    double age_s;
    double trouble_s; // since the last tick that could do all it wanted; 0 = the last one could
    bool turns;
} health_beat_t;
size_t health_beats(health_t *health, health_beat_t beats[HEALTH_ROLES]);

#endif
