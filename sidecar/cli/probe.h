// One question to the sidecar that runs on this machine, where the config says that it serves http.
#ifndef QS_CLI_PROBE_H
#define QS_CLI_PROBE_H

#include "base/buffer.h"
#include "config.h"

// Asks for `path`; each step may take patience_s. Returns the status of the answer, with its body added to *body (cut at some
// KiB); -1 with the reason in *why (never freed): nobody answers; it is probe_mute where somebody listens all the same.
extern const char probe_mute[];
int probe(const config_t *config, const char *path, int patience_s, buffer_t *body, const char **why);

#endif
