// The sidecar as a process: roles, signals, reloads.
#pragma once

#include "config/config.h"

// Runs the sidecar until SIGTERM or SIGINT and returns the exit code. Takes `config`. Call it while no other thread runs.
//
// Reloads the file on SIGHUP, on a ConfigMap swap and every reload.poll; a good file takes effect without losing a lock. SIGUSR1
// logs the counters.
int app_run(config_t *config);

// From now on the signals that app_run takes wait for it. Otherwise SIGTERM at the start would end the process without an exit
// code, or, as process 1 of a container, be lost.
void app_hold_signals(void);

// Warns when the cgroup's `limit` (bytes) is too small for the largest job that the configuration allows. The kernel would kill
// the process for such a job, and again after each restart.
void app_log_memory(const config_t *config, int64_t limit);
