// One event that a query has found.
#pragma once

#include "model/event.h"

typedef struct audit_row {
    event_t event;
    slice_t ref;
    slice_t state;       // of a failed event: failed, requeued or discarded; of a gap: open or filled; else empty
    int64_t answered_at; // time of the last answer to the event; 0 = no answer
    slice_t answered_by;
    slice_t answer_reason;
    int64_t erased_at; // time when its texts were erased; 0 = never
    slice_t erased_by;
    slice_t erase_reason;
    int64_t seq; // the order of arrival in this log
    bool error_is_text, payload_is_text;
    bool payload_cut; // only its head is here: see audit_set_head
} audit_row_t;

// Takes one row. False ends the query. The query still succeeds.
typedef bool audit_row_fn(void *self, const audit_row_t *row);
