// The manual pages, made from the tables of commands, options, config keys and metrics.
#ifndef QS_CLI_MAN_H
#define QS_CLI_MAN_H

#include "base/buffer.h"

void man_program(buffer_t *out); // queue-sidecar(1)
void man_config(buffer_t *out);  // queue-sidecar.cfg(5)

// The config that stands in queue-sidecar.cfg(5) as an example.
extern const char man_config_example[];

#endif
