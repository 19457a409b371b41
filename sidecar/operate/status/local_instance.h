// The sidecar on this machine, as it answers at http.port of the config.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"
#include "config/config.h"

enum { LOCAL_CHECKS_MAX = 8 };

// One check of /readyz.
typedef struct local_check {
    char name[32];
    char why[512];   // why the check fails; "" = it passes
    char state[512]; // of what is checked; "" = not told
} local_check_t;

typedef enum local_state {
    LOCAL_NOT_ASKED, // http.port is 0
    LOCAL_ANSWERED,
    LOCAL_SILENT,       // nothing listens at http.port
    LOCAL_UNRESPONSIVE, // something listens and does not answer
    LOCAL_UNRELATED,    // another program, or a sidecar of another group, answers
} local_state_t;

typedef struct local_instance {
    local_state_t state;
    bool well;     // the answer was 200
    char why[400]; // why no valid answer came
    local_check_t checks[LOCAL_CHECKS_MAX];
    size_t count;
} local_instance_t;

// Sends GET `path`; connecting and the answer may take timeout_s each. Sets all members but the checks, and adds the body of the
// answer to *body, at most 8 KiB. Only the answer of /readyz shows that an instance is unrelated.
void local_instance_ask(const config_t *config, const char *path, int timeout_s, local_instance_t *instance, buffer_t *body);

// Asks /readyz, and reads its checks too.
void local_instance_read(const config_t *config, local_instance_t *instance);

// Whether an answer of /readyz comes from another program, or from a sidecar of another group; *why says from which. Either
// another process has the port, or the group was changed. A refused config has no group to compare.
bool local_instance_is_unrelated(const config_t *config, slice_t body, buffer_t *why);
