// Whether a log could be kept at a path: asked before a sidecar begins to.
#ifndef QS_AUDIT_PATH_CHECK_H
#define QS_AUDIT_PATH_CHECK_H

#include <stdint.h>

#include "base/buffer.h"

typedef enum audit_finding { AUDIT_GOOD, AUDIT_WARNING, AUDIT_FAULT } audit_finding_t;
typedef void audit_site_fn(void *self, audit_finding_t finding, const char *text);

// Looks at the directory, the file, who holds it, and the room on the disk for `most_bytes` (audit.retain_bytes; 0 = no limit).
// Changes nothing and makes nothing. Calls `found` at least once.
void audit_look_at_site(const char *path, int64_t most_bytes, audit_site_fn *found, void *self);

#endif
