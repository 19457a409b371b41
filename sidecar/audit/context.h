// The table `contexts`: what many events have in common, such as queue and reason.
#pragma once

#include "audit/store.h"

// The id of the event's context, for a row with this seq. In a transaction.
bool context_find(audit_t *audit, const event_t *event, int64_t seq, int64_t *id, buffer_t *why);
// Removes the contexts to which no event refers. In a transaction.
bool context_prune(audit_t *audit, buffer_t *why);

// At the begin of a transaction, and after a rollback: another process may have pruned contexts.
void context_forget(contexts_t *contexts);
void context_free(contexts_t *contexts);
