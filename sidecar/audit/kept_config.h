// A copy of the config in effect, which a running instance keeps beside its audit log. Commands use it while the file on disk is
// refused. Its values are those of config_dump: includes and environment are resolved, and passwords are left out.
#pragma once

#include "config/config.h"

char *kept_config_path(const char *log); // LOG.in-effect.cfg; owned

// Writes the copy (mode 0600) if it is not there already: whole, or not at all. Never replaces another file. False with *why:
// there is no copy now.
bool kept_config_write(const char *log, const config_t *config, buffer_t *why);

typedef struct kept_config {
    char *path;       // owned
    int64_t since_ms; // when it took effect, by this machine's clock
    bool hides;       // passwords are left out
    bool in_effect;   // an instance holds the log
} kept_config_t;

// Finds the copy beside `log` of the config whose file is `config`. Nobody but this user, root or the owner of the log may have
// written it. False: there is none. Free kept->path.
bool kept_config_find(const char *log, const char *config, kept_config_t *kept);
