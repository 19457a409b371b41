// The body of POST answers: which failures to requeue or discard, and how. Pure.
#pragma once

#include "http/api/filters.h"

enum { ORDER_REFS_MAX = 1000, ORDER_NOTE_MAX = 1024 };

typedef struct order {
    bool discard, again, dry_run;
    bool filtered;             // by `filter`; false: by `refs`
    char *to, *because, *plan; // owned; NULL = not given
    int64_t per_minute;        // jobs; 0 = no limit
    char **refs;               // owned
    size_t ref_count;
    params_t filter; // by the rows of failure_filters
} order_t;

// Reads a body. False: *answer is the problem. End *out with order_free in both cases.
bool order_read(slice_t body, order_t *out, answer_t *answer);
void order_free(order_t *order);
