// Whether a log could be kept at a path: asked before a sidecar begins to.
#ifndef QS_AUDIT_PATH_CHECK_H
#define QS_AUDIT_PATH_CHECK_H

#include <stdint.h>

#include "base/buffer.h"

typedef enum audit_severity { AUDIT_OK, AUDIT_WARNING, AUDIT_ERROR } audit_severity_t;
typedef void audit_path_check_fn(void *self, audit_severity_t finding, const char *text);

// Looks at the directory, the file, who holds it, and the room on the disk for `max_bytes` (audit.retain_bytes; 0 = no limit).
// Changes nothing and makes nothing. Calls `found` at least once.
void audit_check_path(const char *path, int64_t max_bytes, audit_path_check_fn *found, void *self);

#endif
