// The conditions of a query.
#pragma once

#include "base/std.h"

typedef struct audit_filter {
    const char *kind;   // NULL = failed
    bool all_kinds;     // ignores `kind`
    const char *queue;  // NULL = any
    const char *reason; // NULL = any
    int64_t since_ms;   // at or after; 0 = from the beginning
    int64_t until_ms;   // before; 0 = to the end
    const char *grep;   // bytes that payload, error or job id must contain, case-sensitive; NULL = any
    int64_t limit;      // largest number of rows; 0 = all rows
} audit_filter_t;
