// Checks whether a sidecar could keep an audit log at a path, before it begins.
#pragma once

#include <stdint.h>

#include "base/buffer.h"

typedef enum audit_severity { AUDIT_OK, AUDIT_WARNING, AUDIT_ERROR } audit_severity_t;
typedef void audit_path_check_fn(void *self, audit_severity_t severity, const char *text);

// Checks the directory, the file, its lock, and the free space for `max_bytes` (audit.retain_bytes; 0 = no limit). Changes
// nothing. Calls `report` at least once.
void audit_check_path(const char *path, int64_t max_bytes, audit_path_check_fn *report, void *self);
