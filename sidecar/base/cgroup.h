// What the container that this process runs in may take.
#ifndef QS_BASE_CGROUP_H
#define QS_BASE_CGROUP_H

#include <stdint.h>

// Bytes of memory that the kernel kills this process's cgroup for; INT64_MAX = no limit, or none that can be read. Version 2 and
// 1 of cgroups, seen from inside a container or outside. Limits of cgroups above are not looked at. `root`: "", or what stands
// for / in tests.
int64_t cgroup_memory_limit(const char *root);

#endif
