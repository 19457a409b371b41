// Values: text to number and back, and one key's value into the struct that holds it.
#pragma once

#include "base/buffer.h"
#include "config/file/source.h"
#include "config/table.h"

// Sets the field of key in base (a config_t, queue_policy_t or queue_config_t) from a node. If the node is not valid, returns
// false, changes nothing, and appends the found and the allowed values to why ("is 0, but must be an integer from 1 to 65535").
bool config_value_set(const config_key_t *key, const node_t *node, void *base, buffer_t *why);

// The same from plain text, as the environment and the defaults of the table have it.
bool config_value_set_text(const config_key_t *key, const char *text, void *base, buffer_t *why);

// The same from a text that is good: a default of the table, or a name made of good parts.
void config_value_set_known(const config_key_t *key, const char *text, void *base);

// Copies a field that is no list, and frees what the target held.
void config_value_copy(const config_key_t *key, void *to, const void *from);

// Frees the field if it is owned.
void config_value_free(const config_key_t *key, void *base);

// Adds the field in libconfig syntax, secrets redacted.
void config_value_write(const config_key_t *key, const void *base, buffer_t *out);

// Adds what is allowed: "an integer from 1 to 65535".
void config_value_describe(const config_key_t *key, buffer_t *out);
