// Finds events by id.
//
// The tables `ids` and `jobs` (004_lookup.sql) get the rows of new events in sorted batches, because their keys come in no order.
// Until then this process keeps the ids of those events in memory. It reads them from the file when it opens the log, and when
// another process has added events.
#pragma once

#include "audit/store.h"

// Registers the SQL function that lookup_index needs.
bool lookup_register(audit_t *audit, buffer_t *why);
void lookup_free(lookup_t *lookup);

// At the beginning of a transaction: reads what other processes have changed.
bool lookup_begin(audit_t *audit, buffer_t *why);
// Forgets what the transaction has added.
void lookup_rollback(audit_t *audit);
// Before the commit of a transaction that has added events.
bool lookup_commit(audit_t *audit, buffer_t *why);

// Reads into memory the events that are in no table, as many as there is room for. *complete: these are all, and
// there is room for another.
bool lookup_refresh(audit_t *audit, bool *complete, buffer_t *why);
// Adds the rows of the events in memory to both tables. In a transaction.
bool lookup_index(audit_t *audit, buffer_t *why);

// Adds an event that was just inserted.
bool lookup_add(audit_t *audit, int64_t seq, const char *ref, buffer_t *why);
// Counts removed events, whose rows in both tables stay for a while.
bool lookup_count_removed(audit_t *audit, int64_t count, buffer_t *why);
// Finds the event of this id.
bool lookup_find(audit_t *audit, const char *ref, slice_t event, bool *found, int64_t *seq, buffer_t *why);

// *due: a caller that has nothing better to do should call lookup_keep_up, in a transaction. `events`: number of events in the
// log.
bool lookup_is_due(audit_t *audit, int64_t events, bool *due, buffer_t *why);
bool lookup_keep_up(audit_t *audit, mono_t until, buffer_t *why);
