// The files of a configuration, to see whether one has changed since it was read. A comparison takes no memory, a new load does.
#pragma once

#include "base/std.h"

typedef struct config_files {
    char **paths; // owned
    size_t count;
    uint64_t hash; // of what was read from all of them
} config_files_t;

void config_files_add(config_files_t *files, const char *path, const char *text, size_t len);
bool config_files_changed(const config_files_t *files); // true, too: one cannot be read, or there are none
void config_files_clear(config_files_t *files);
