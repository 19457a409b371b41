// The name of this process among the instances of its group.
#pragma once

enum { INSTANCE_SIZE = 128 }; // bytes with the NUL

// Returns "<host>/<process id>", as it was at the first call; in a pod the host is the pod's name. Printable ASCII, no blanks.
const char *instance_name(void);
