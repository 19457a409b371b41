#include "base/condition.h"

#include "base/buffer.h"

condition_change_t condition_update(condition_t *condition, bool holds) {
    if (holds == condition->holds) return CONDITION_UNCHANGED;
    condition->holds = holds;
    return holds ? CONDITION_BEGAN : CONDITION_ENDED;
}

condition_change_t condition_update_reason(condition_t *condition, const char *reason) {
    bool holds = reason && *reason;
    if (holds && condition->reason && strcmp(condition->reason, reason) == 0) return CONDITION_UNCHANGED;
    char *copy = holds ? mem_str(reason) : NULL; // `reason` may point into the old reason
    free(condition->reason);
    condition->reason = copy;
    condition_change_t change = condition_update(condition, holds);
    return holds ? CONDITION_BEGAN : change;
}

void condition_free(condition_t *condition) {
    free(condition->reason);
    *condition = (condition_t){0};
}
