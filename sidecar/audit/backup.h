// A copy of the audit log, made while others write to the log.
#pragma once

#include "audit/audit.h"

typedef void backup_progress_fn(void *self, int64_t pages, int64_t of);

// Copies the present content of the log into the empty file `path`, and checks the copy (PRAGMA quick_check). The copy gets its
// own instance name, because two logs of one name would acknowledge for each other. The copy is not yet forced to disk. False
// with *why: the file is useless.
bool audit_backup(audit_t *audit, const char *path, backup_progress_fn *progress, void *self, buffer_t *why);
