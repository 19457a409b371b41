// Finds the commands that Redis refuses to the user of the sidecar, before a job depends on them.
#pragma once

#include "inspect/preflight_call.h"

// Tries each command that the queues need, on one scratch key, and reports the refusals. The key begins with
// "sidecar:preflight-", is in the slot of the first lock, lives for a minute at most, and is deleted at the end.
//
// `wanted` NULL: tries what all queues need, a pair of connections for wake-ups, and what each dialect needs. Else only what the
// dialects of the queues with wanted[i] need. OUTCOME_REFUSED: Redis refuses the trial itself.
outcome_t probe_rights(const preflight_call_t *call, const bool *wanted);
