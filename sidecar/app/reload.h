// Reads the configuration again: the whole file takes effect, or nothing.
#pragma once

#include "base/condition.h"
#include "config/config.h"
#include "model/metrics.h"

typedef struct reload {
    condition_t refused;  // the file was refused last time
    char *changes;        // changes of the last accepted file; NULL = none yet. Owned
    redis_mode_t mode;    // what Redis turned out to be; see redis_config_t
    config_files_t files; // of the last accepted file
} reload_t;

void reload_begin(reload_t *reload, config_t *config); // of the start; moves config->files
void reload_end(reload_t *reload);

// Reads the file of `current` again. Returns the new configuration, owned, if it is good and differs; otherwise NULL. Logs each
// change and each refusal once. If no file has changed, it only compares them: a thousand queues take 3 MiB while they are
// parsed, and malloc would keep a part of that. `asked`: an operator sent SIGHUP, so log the result in any case.
config_t *reload_read(reload_t *reload, const config_t *current, bool asked, metrics_t *metrics);

// Warns of each queue that `fresh` lacks. Call it if the audit log is behind: nobody copies the records later.
void reload_warn_uncopied_records(const config_t *current, const config_t *fresh);

// The next line of a text of config_load, each of which is the reason of one message; NULL = no more. Overwrites the text.
const char *reload_next_line(char **rest);
void reload_log_warnings(buffer_t *warnings); // overwrites the text

// Watches the directory of the file `path` for the swap of a mounted ConfigMap or Secret: the kubelet writes a new directory and
// renames the symlink `..data` to it (kubernetes, pkg/volume/util/atomic_writer.go). Returns an owned descriptor to poll, or -1
// when the system refuses; polling and SIGHUP still work then.
int reload_watch(const char *path);

bool reload_was_swapped(int fd); // reads all events; true: a swap was among them
