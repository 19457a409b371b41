// Checks the server before leading: whether the promises hold on this Redis, whether the keys have the right types, and whether
// the user may run every script.
#pragma once

#include "inspect/preflight_call.h"

// Runs all checks. OUTCOME_OK: every check was made, with good or bad results.
outcome_t preflight(const preflight_call_t *call);

// Runs only the checks that read. Runs no script.
outcome_t preflight_read_only(const preflight_call_t *call);

// Rechecks the keys of suspected queues, and the layout and rights of disabled queues. Both arrays are indexed by queue. Outcomes
// and results are those of the full check, except OUTCOME_REFUSED: the check could not be made.
outcome_t preflight_again(const preflight_call_t *call, const bool *suspected, const bool *disabled);
