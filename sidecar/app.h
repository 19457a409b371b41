// The only file that knows every role: start order, stop in reverse.
#ifndef QS_APP_H
#define QS_APP_H

#include "config.h"

// Runs the sidecar until SIGTERM or SIGINT; `config` is borrowed. Call it with no other thread running. Returns the exit code.
int app_run(const config_t *config);

#endif
