// Facts about the host: the name of this instance, and the memory limit of its container.
#pragma once

#include "base/std.h"

enum { INSTANCE_SIZE = 128 }; // bytes with the NUL

// Returns "<host>/<process id>", as it was at the first call; in a pod the host is the pod's name. Printable ASCII, no blanks.
const char *instance_name(void);

// Raises the limit of open files to `wanted`, or as far as the system allows.
void host_raise_file_limit(uint64_t wanted);

// Returns the limit in bytes above which the kernel kills this container; INT64_MAX = no limit, or it cannot be read. Knows
// cgroups 1 and 2, but not the limits of parent cgroups. `root` is "", or a test's directory.
int64_t cgroup_memory_limit(const char *root);
