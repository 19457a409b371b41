// A condition that is reported when it begins and when it ends, and not while it lasts.
#ifndef QS_BASE_CONDITION_H
#define QS_BASE_CONDITION_H

#include <stdbool.h>

typedef struct condition {
    bool holds;
} condition_t;

typedef enum condition_change { CONDITION_UNCHANGED, CONDITION_BEGAN, CONDITION_ENDED } condition_change_t;

static inline condition_change_t condition_update(condition_t *condition, bool holds) {
    if (holds == condition->holds) return CONDITION_UNCHANGED;
    condition->holds = holds;
    return holds ? CONDITION_BEGAN : CONDITION_ENDED;
}

#endif
