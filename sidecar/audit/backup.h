// A copy of the audit log, made while others write to it.
#ifndef QS_AUDIT_BACKUP_H
#define QS_AUDIT_BACKUP_H

#include "audit/audit.h"

typedef void backup_progress_fn(void *self, int64_t pages, int64_t of);

// Copies the log, as it is at this moment, into the empty file `path`, and checks the copy (PRAGMA quick_check). The copy gets an
// instance name of its own: should both ever be in use, neither acknowledges for the other. It is not yet forced to disk when
// this returns. False with *why; what is in the file then is of no use.
bool audit_backup(audit_t *audit, const char *path, backup_progress_fn *progress, void *self, buffer_t *why);

#endif
