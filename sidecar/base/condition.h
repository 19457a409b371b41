// A condition that is reported when it begins, when its reason changes and when it ends, and not while it lasts.
#pragma once

#include "base/std.h"

typedef struct condition {
    bool holds;
    char *reason; // owned; NULL = none
} condition_t;

typedef enum condition_change {
    CONDITION_UNCHANGED,
    CONDITION_BEGAN, // the condition holds and did not before, or it holds for another reason
    CONDITION_ENDED,
} condition_change_t;

condition_change_t condition_update(condition_t *condition, bool holds);
// The same with a reason, which is copied; NULL or "" = the condition does not hold.
condition_change_t condition_update_reason(condition_t *condition, const char *reason);
void condition_free(condition_t *condition); // ends the condition
