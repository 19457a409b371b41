// Reads the configuration again: all of the file is taken, or nothing of it.
#ifndef QS_APP_RELOAD_H
#define QS_APP_RELOAD_H

#include <stdbool.h>

#include "config/config.h"
#include "model/metrics.h"

typedef struct reload {
    char *refused; // why the file was refused when it was last looked at; NULL = it was not. Owned
    char *changes; // what the last file that was taken has changed; NULL = none was. Owned
} reload_t;

void reload_end(reload_t *reload);

// Reads the file of `current` again. Returns what it says, owned, where that is good and differs from `current`; otherwise NULL.
// The log tells of what is new: what changes, or why nothing does; where somebody asked (SIGHUP) it tells in any case.
config_t *reload_read(reload_t *reload, const config_t *current, bool asked, metrics_t *metrics);

#endif
