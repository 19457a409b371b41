// Tells whether the workers use the keys that the config names. For `check --redis` and `status`: it may walk through all keys.
#pragma once

#include "inspect/preflight_call.h"

// Reports PREFLIGHT_NOTE and PREFLIGHT_WARNING only. OUTCOME_OK: every survey was made, or Redis refuses to show some keys.
outcome_t survey(const preflight_call_t *call);
