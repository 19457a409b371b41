// The auditor role: copies the failure stream of every queue into this instance's audit log, and acknowledges what is on disk. It
// works in every instance; the one that leads also trims the streams of what enough auditors have.
//
// One blocking XREAD over all streams waits for news, on one connection. Rows and positions are one transaction; a stream is read
// again from its beginning when it may hold something else than before, which is harmless (an event is one row by its id).
#ifndef QS_AUDITOR_AUDITOR_H
#define QS_AUDITOR_AUDITOR_H

#include <stdatomic.h>

#include "model/metrics.h"
#include "queue/keys.h"
#include "role/lease.h"
#include "role/role.h"

typedef struct auditor auditor_t;

// Everything is borrowed. `stop` is the role's. Returns owned.
auditor_t *auditor_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics, const atomic_bool *stop);
void auditor_free(auditor_t *auditor); // takes; NULL is fine

void auditor_tick(void *auditor, role_wait_t *wait);

// Closes the audit log and gives its lock file back, so that another auditor may open it.
void auditor_finish(void *auditor);

#endif
