#include "redis/service/capability.h"

#include <pthread.h>

#include "base/log.h"

enum { REASON_SIZE = 256 };

static const struct {
    const char *command;
    const char *effect;
} CAPABILITIES[CAPABILITY_COUNT] = {
    // a role reports CAPABILITY_TRACKING by itself
    [CAPABILITY_CLIENT_NAME] = {"CLIENT SETNAME", "CLIENT LIST shows no names of connections"},
    [CAPABILITY_VERSION] = {"INFO server", "the version of the server is unknown and counts as the newest"},
    [CAPABILITY_MEMORY_INFO] =
        {"INFO memory", "maxmemory-policy is unknown; it must be noeviction. Copied records make no room in a full Redis"},
    [CAPABILITY_CLUSTER_INFO] = {"INFO cluster", "a Cluster shows only by redis.mode"},
    [CAPABILITY_ROLE] = {"ROLE", "a replica shows only when it refuses a write"},
    [CAPABILITY_SCRIPT_FLAGS] = {"SCRIPT LOAD with #!lua", "scripts run without flags, so a full Redis may refuse them"},
};

// Of the process.
static struct {
    pthread_mutex_t mutex;
    struct {
        bool refused;
        bool logged;
        char reason[REASON_SIZE];
    } of[CAPABILITY_COUNT];
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

const char *capability_command(capability_t capability) { return CAPABILITIES[capability].command; }
const char *capability_effect(capability_t capability) { return CAPABILITIES[capability].effect; }

bool capability_refused(capability_t capability, const char *reason) {
    pthread_mutex_lock(&state.mutex);
    bool known = state.of[capability].refused;
    state.of[capability].refused = true;
    snprintf(state.of[capability].reason, REASON_SIZE, "%s", reason);
    pthread_mutex_unlock(&state.mutex);
    return !known;
}

void capability_accepted(capability_t capability) {
    pthread_mutex_lock(&state.mutex);
    state.of[capability].refused = state.of[capability].logged = false;
    pthread_mutex_unlock(&state.mutex);
}

bool capability_is_refused(capability_t capability) {
    pthread_mutex_lock(&state.mutex);
    bool refused = state.of[capability].refused;
    pthread_mutex_unlock(&state.mutex);
    return refused;
}

void capability_log_refusals(const char *role) {
    pthread_mutex_lock(&state.mutex);
    for (size_t i = 0; i < CAPABILITY_COUNT; i++) {
        if (!state.of[i].refused || state.of[i].logged || !CAPABILITIES[i].command) continue;
        log_warn(role, NULL, "redis refuses a command; going on without it", F_STR("command", CAPABILITIES[i].command),
                 F_STR("effect", CAPABILITIES[i].effect), F_STR("reason", state.of[i].reason));
        state.of[i].logged = true;
    }
    pthread_mutex_unlock(&state.mutex);
}
