// Watches for the swap of a mounted ConfigMap or Secret: the kubelet writes a new directory and renames the symlink `..data` to
// it (kubernetes, pkg/volume/util/atomic_writer.go).
#pragma once

#include "base/std.h"

// Watches the directory of the file `path`. Returns an owned descriptor to poll, or -1 when the system refuses; polling and
// SIGHUP still work then.
int config_watch_begin(const char *path);

bool config_watch_swapped(int fd); // reads all events; true: a swap was among them
