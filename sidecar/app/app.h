// The sidecar as a process: its roles, its signals, and its configuration, which may change while it runs.
#ifndef QS_APP_APP_H
#define QS_APP_APP_H

#include "config/config.h"

// Runs the sidecar until SIGTERM or SIGINT; takes `config`. Call it with no other thread running. Returns the exit code.
//
// SIGHUP, a ConfigMap swapped in beside the file, and a look at the file every reload.poll: read it again and, where all of it is
// good, work by it from then on without losing a lock. SIGUSR1: the counters, into the log.
int app_run(config_t *config);

#endif
