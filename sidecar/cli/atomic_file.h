// A file that appears under its name when it is complete and on disk. Until then it is PATH.part, which a killed process leaves
// behind and the next process overwrites.
#pragma once

#include "base/buffer.h"

typedef struct atomic_file {
    char *path, *part; // owned
    FILE *out;         // the part; owned
    bool force;        // replace an existing file
} atomic_file_t;

// Creates an empty part (mode 0640). Never replaces the audit log `log` or the config. False with *why: nothing is left open.
bool atomic_file_create(atomic_file_t *file, const char *path, const char *log, const char *config, bool force, buffer_t *why);
// Gives a complete file its name; removes an incomplete one. False: incomplete, or not on disk for the reason in *why.
bool atomic_file_end(atomic_file_t *file, bool complete, buffer_t *why);
