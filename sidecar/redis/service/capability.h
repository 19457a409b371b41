// Features of Redis that a managed service may refuse, and that the program can go without. The service refuses it on each
// connection, so a process logs it once.
#pragma once

#include "base/std.h"

typedef enum capability {
    CAPABILITY_CLIENT_NAME,
    CAPABILITY_VERSION,
    CAPABILITY_MEMORY_INFO,
    CAPABILITY_CLUSTER_INFO,
    CAPABILITY_ROLE,
    CAPABILITY_SCRIPT_FLAGS,
    CAPABILITY_TRACKING, // CLIENT TRACKING: a role logs it and polls instead
    CAPABILITY_COUNT
} capability_t;

// The command that was refused, and what the program lacks without it.
const char *capability_command(capability_t capability);
const char *capability_effect(capability_t capability);

// `reason` is the error reply. Returns false if the capability was refused before. Thread-safe, as all functions here.
bool capability_refused(capability_t capability, const char *reason);
// The next refusal counts as the first.
void capability_accepted(capability_t capability);
bool capability_is_refused(capability_t capability);

// Logs each refusal that no earlier call has logged.
void capability_log_refusals(const char *role);
