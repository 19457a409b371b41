// One question to the sidecar that runs on this machine, where the config says that it serves http.
#ifndef QS_CLI_STATUS_LOCAL_INSTANCE_H
#define QS_CLI_STATUS_LOCAL_INSTANCE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "config/config.h"

// Asks for `path`; each step may take timeout_s. Returns the status of the answer, with its body added to *body (cut at some
// KiB); -1 with the reason in *why (never freed): nobody answers; it is local_instance_unresponsive where somebody listens all
// the same.
extern const char local_instance_unresponsive[];
int local_instance_ask(const config_t *config, const char *path, int timeout_s, buffer_t *body, const char **why);

// Whether what /readyz answered is of no sidecar, or of another group than the config: another one has its port, or the group was
// changed. Says so in *why. A config that is refused has no group.
bool local_instance_is_unrelated(const config_t *config, slice_t body, buffer_t *why);

#endif
