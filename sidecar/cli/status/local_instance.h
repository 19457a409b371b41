// The sidecar on this machine, as it answers at http.port of the config.
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "config/config.h"

enum { LOCAL_CHECKS_MAX = 8 };

// One check of /readyz.
typedef struct local_check {
    char name[32];
    bool ok;
    char why[512];
    char state[512]; // "" = none
} local_check_t;

typedef struct local_instance {
    bool asked, answered, ready;
    bool unresponsive; // something listens there and does not answer
    bool unrelated;    // another program, or a sidecar of another group, answers
    char why[400];     // why there is no answer of ours
    local_check_t checks[LOCAL_CHECKS_MAX];
    size_t count;
} local_instance_t;

// Asks /readyz. Not asked where http.port is 0.
void local_instance_read(const config_t *config, local_instance_t *instance);

// The check of that name, or NULL.
const local_check_t *local_instance_check(const local_instance_t *instance, const char *name);

// Asks for `path`; each step may take timeout_s. Returns the status of the answer and adds its body to *body, cut at some KiB. -1
// = no answer, with the reason in *why (never freed): local_instance_unresponsive if something listens.
extern const char local_instance_unresponsive[];
int local_instance_ask(const config_t *config, const char *path, int timeout_s, buffer_t *body, const char **why);

// Whether an answer of /readyz comes from another program, or from a sidecar of another group than the config's, and which in
// *why: another one has the port, or the group was changed. A refused config has no group to compare.
bool local_instance_is_unrelated(const config_t *config, slice_t body, buffer_t *why);
