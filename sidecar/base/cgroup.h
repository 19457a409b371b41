// The memory limit of the container that this process runs in.
#pragma once

#include <stdint.h>

// Returns the limit in bytes above which the kernel kills the process; INT64_MAX = no limit, or it cannot be read. Knows cgroups
// 1 and 2, inside and outside of a container, but not the limits of parent cgroups. `root` is "", or a directory of a test.
int64_t cgroup_memory_limit(const char *root);
