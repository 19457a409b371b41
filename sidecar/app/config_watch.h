// Watches for the swap of a mounted ConfigMap or Secret: the kubelet writes a new directory and moves the link `..data`, which
// the files are links through, onto it (kubernetes, pkg/volume/util/atomic_writer.go).
#ifndef QS_APP_CONFIG_WATCH_H
#define QS_APP_CONFIG_WATCH_H

#include <stdbool.h>

// Begins to watch the directory of the file `path`. Returns a descriptor to poll for reading, owned (close it), or -1 where the
// system refuses: then only the poll and SIGHUP are left.
int config_watch_begin(const char *path);

bool config_watch_swapped(int fd); // takes what was heard; true: a swap was among it

#endif
