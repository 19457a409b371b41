// The name by which people know this process among others of its kind.
#ifndef QS_BASE_INSTANCE_H
#define QS_BASE_INSTANCE_H

enum { INSTANCE_SIZE = 128 }; // bytes with the NUL

// "<host>/<process id>", made at the first call; in a pod the host is the pod's name. Printable ASCII without blanks.
const char *instance_name(void);

#endif
