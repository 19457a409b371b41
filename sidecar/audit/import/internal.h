// Types and functions that the files of import/ share. Calls go from importer.c to gaps.c and batch.c, in this order.
#pragma once

#include "audit/import/import.h"

enum { IMPORT_ROWS = 500, IMPORT_BYTES = 1024 * 1024 }; // of one transaction

typedef struct import_event {
    event_t event; // borrows from the block
    char *block;   // owned
    bool open;     // of a gap: no event fills it
    bool fills;    // of an open gap of this log: the other log has its whole range
} import_event_t;

typedef struct gaps {
    import_event_t *all; // owned
    size_t count;
    int64_t dropped_ms; // highest `at` that retention has removed from the log of these gaps; 0 = none
} gaps_t;

struct import {
    audit_t *audit;        // borrowed
    import_event_t *batch; // owned; not written yet
    size_t count, bytes;   // of the batch
    import_counts_t counts;
};

void import_copy(import_event_t *copy, const event_t *event); // copy->block is owned

bool import_put(import_t *import, const event_t *event, buffer_t *why);
// Runs `work` in a transaction, and pauses after it. False: the counts are those of before.
typedef bool import_work_fn(void *self, buffer_t *why);
bool import_in_transaction(import_t *import, import_work_fn *work, void *self, buffer_t *why);

// Fills gaps of this log, in one transaction. All rows of `peer`, the other log, were valid.
bool import_fill_gaps(import_t *import, audit_t *peer, const char *path, const import_listener_t *listener, buffer_t *why);
