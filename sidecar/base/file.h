// Files that a user names and the sidecar reads.
#pragma once

#include "base/std.h"

enum { FILE_NOT_REGULAR = ESPIPE };

// Opens a file for reading. NULL: errno; FILE_NOT_REGULAR = a FIFO, a device or the like, whose reads could wait for ever.
FILE *file_open_regular(const char *path);
