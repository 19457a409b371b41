// Files that a user names and the sidecar reads.
#pragma once

#include "base/std.h"

enum { FILE_NOT_REGULAR = ESPIPE };

// Opens a file for reading. NULL: errno; FILE_NOT_REGULAR = a FIFO, a device or the like, whose reads could wait for ever.
FILE *file_open_regular(const char *path);
// Also opens a pipe that this process has inherited, such as /dev/stdin or /dev/fd/63. Its reads wait for the writer to end.
FILE *file_open_regular_or_stdin(const char *path);

// S_IROTH, S_IWOTH or both: what every user of this machine may do with the file.
unsigned file_rights_of_others(const char *path);
