// What the files of import share.
#ifndef QS_AUDIT_IMPORT_INTERNAL_H
#define QS_AUDIT_IMPORT_INTERNAL_H

#include "audit/import/import.h"

typedef struct import_event {
    event_t event; // borrows from the block
    char *block;   // owned
    bool open;     // of a gap: nothing has filled it
} import_event_t;

typedef struct gaps {
    import_event_t *all; // owned
    size_t count, room;
    int64_t dropped_ms; // what is so old, or older, retention may have removed from that log; 0 = nothing that matters
} gaps_t;

struct import {
    audit_t *audit;        // borrowed
    import_event_t *batch; // owned: taken, and not written yet
    size_t count, bytes;
    gaps_t gaps; // and ends of gaps: they wait for the end of the file
    import_counts_t counts;
    import_counts_t pending; // of the transaction that is under way
};

void import_copy(import_event_t *copy, const event_t *event); // copy->block is owned
// In a transaction: puts, and counts it when import_commit comes.
bool import_put(import_t *import, const event_t *event, bool *added, buffer_t *why);
bool import_commit(import_t *import, buffer_t *why);

void import_add_gap(import_t *import, const event_t *event);
void import_clear_gaps(import_t *import);
// Settles the gaps of a file, in one transaction. `peer`, where not NULL, is the log that was read without a fault.
bool import_finish_gaps(import_t *import, audit_t *peer, const char *path, const import_listener_t *listener, buffer_t *why);

#endif
