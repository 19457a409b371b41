// What the dialects make of their settings: key names, and which settings they cannot honour.
#ifndef QS_CONFIG_DIALECTS_H
#define QS_CONFIG_DIALECTS_H

#include "config/load.h"

// Whether the key may stand with this value in a queue of the dialect.
bool config_dialect_takes(const config_key_t *key, dialect_t dialect, const node_t *node);

// Adds why a key may not stand there: "is not for bull: ..." with what takes its place in that system, or where it belongs.
void config_dialect_refuse(const config_key_t *key, dialect_t dialect, buffer_t *out);

// Makes what depends on the dialect, once a queue's own keys are taken: its key names, defaults of its own, and the faults of
// its settings. Prefix begins the messages: "queue `email`: ".
void config_load_dialect(load_t *load, size_t queue, const char *prefix);

#endif
