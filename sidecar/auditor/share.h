// The audit log of a process: one writer, which the auditors of all shards share. An auditor holds the mutex while it uses the
// writer.
#pragma once

#include <pthread.h>

#include "auditor/writer.h"
#include "config/config.h"

enum { AUDIT_SHARE_MAX = 512 }; // auditors

struct auditor;

typedef struct audit_share {
    pthread_mutex_t mutex;
    audit_writer_t writer;
    struct auditor *auditors[AUDIT_SHARE_MAX]; // guarded by the mutex
    size_t auditor_count;
} audit_share_t;

// Borrows everything; *stop ends a long check. Returns owned.
audit_share_t *audit_share_new(const config_t *config, metrics_t *metrics, const atomic_bool *stop);
// Closes the log and releases its lock, so that another process or configuration can open it. A second call is harmless.
void audit_share_finish(audit_share_t *share);
void audit_share_free(audit_share_t *share); // NULL is fine; no auditor is left

// Locks the mutex. Another auditor may hold it while it rewrites or checks a large log. That is no hang of the role that waits:
// the tick of the other one tells whether it hangs.
void audit_share_lock(audit_share_t *share);

void audit_share_add(audit_share_t *share, struct auditor *auditor);
void audit_share_remove(audit_share_t *share, struct auditor *auditor);
