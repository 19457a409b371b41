// A file that appears under its name only when it is complete and on disk. Until then it is PATH.part, which a killed process
// leaves behind and the next one takes over.
#ifndef QS_CLI_ATOMIC_FILE_H
#define QS_CLI_ATOMIC_FILE_H

#include <stdbool.h>

#include "base/buffer.h"

typedef struct atomic_file {
    char *path, *part; // owned
    int fd;            // of the part; -1 = none
    bool force;
} atomic_file_t;

// Begins an empty file (mode 0640). `log` is the audit log, which is never replaced; force: another file of that name may be.
// False with *why, and nothing is left.
bool atomic_file_create(atomic_file_t *file, const char *path, const char *log, bool force, buffer_t *why);
// To disk, and to its name. False with *why, and nothing is left.
bool atomic_file_commit(atomic_file_t *file, buffer_t *why);
void atomic_file_discard(atomic_file_t *file); // removes the part; nothing after atomic_file_commit

#endif
