// Facts about the host: the name of this instance, and the memory limit of its container. And how the process ends by signals.
#pragma once

#include <signal.h>

#include "base/std.h"

enum { INSTANCE_SIZE = 128 }; // bytes with the NUL

// Returns "<host>/<process id>", as it was at the first call; in a pod the host is the pod's name. Printable ASCII, no blanks.
const char *instance_name(void);

// Raises the limit of open files to `wanted`, or as far as the system allows.
void host_raise_file_limit(uint64_t wanted);

// After the first signal of a set that asks the process to end: unblocks the set in the calling thread. Another signal of the set
// ends the process at once, but not within a second, because timeout(1) and some supervisors send each signal twice. Call it
// once.
void host_end_at_repeated_signal(const sigset_t *signals);

// Returns the limit in bytes above which the kernel kills this container; INT64_MAX = no limit, or it cannot be read. Knows
// cgroups 1 and 2, but not the limits of parent cgroups. `root` is "", or a test's directory.
int64_t cgroup_memory_limit(const char *root);
