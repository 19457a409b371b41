// The auditor role: copies the failure stream of every queue into the audit log of this instance, and acknowledges records that
// are on disk. Every instance runs an auditor. The auditor of the leader also trims records that enough auditors have.
//
// One blocking XREAD over all streams waits for records, on one connection. Rows and positions are one transaction. A stream
// that may have other records than before is read again from its beginning. The log still gets one row for each event, because
// a row's key is the id of the event.
#pragma once

#include <stdatomic.h>

#include "auditor/share.h"
#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/topology.h"
#include "role/lease.h"
#include "role/role.h"

typedef struct auditor auditor_t;

// Every argument is borrowed. `stop` is the flag of the role. Returns owned.
auditor_t *auditor_new(const keyspace_t *keys, shard_t *shard, leases_t *leases, metrics_t *metrics, const atomic_bool *stop);
// The same for one shard of several, whose auditors share the log. `share` is borrowed, and not closed.
auditor_t *auditor_new_shared(audit_share_t *share, const keyspace_t *keys, shard_t *shard, leases_t *leases,
                              const atomic_bool *stop);
void auditor_free(auditor_t *auditor); // NULL is fine

void auditor_tick(void *auditor, role_wait_t *wait);

// Closes an audit log that is not shared and releases its lock, so that another auditor can open it.
void auditor_finish(void *auditor);

// Takes back the acknowledgements of a log that is not kept. Call it after the last tick. Takes a second at most, and
// does nothing while Redis is away: a silent log counts for a day (docs/audit.md, "Copies").
void auditor_withdraw(auditor_t *auditor);

// Gives the lag of `old` to `next`. `old` has ended.
void auditor_hand_over(auditor_t *next, const auditor_t *old);

// Whether the log may lack records of a failure stream. For any thread.
bool auditor_is_behind(const auditor_t *auditor);
