// Values: text to number and back, and one key's value into the struct that holds it.
#pragma once

#include "base/buffer.h"
#include "config/file/source.h"
#include "config/table.h"

// Sets the field of key in base (a config_t, queue_policy_t or queue_config_t) from a node. If the node is not valid, returns
// false, changes nothing, and appends the found and the allowed values to *why ("is 0, but must be an integer from 1 to 65535").
bool config_value_set(const config_key_t *key, const node_t *node, void *base, buffer_t *why);

// Like config_value_set, but reads plain text, such as an environment variable or a default of the table.
bool config_value_set_text(const config_key_t *key, const char *text, void *base, buffer_t *why);

// Like config_value_set_text, for a text that is valid: a default of the table, or a name made of valid parts.
void config_value_set_known(const config_key_t *key, const char *text, void *base);

// Copies a field that is no list, and frees the old value of the target.
void config_value_copy(const config_key_t *key, void *to, const void *from);

// Frees the field if it is owned.
void config_value_free(const config_key_t *key, void *base);

#define CONFIG_REDACTED "<redacted>"
// Adds the field in libconfig syntax, secrets redacted.
void config_value_write(const config_key_t *key, const void *base, buffer_t *out);

// Adds a text of the file in quotes, or what it is if it is long or may hold a password.
void config_value_show(const char *text, buffer_t *out);

// Adds what is allowed: "an integer from 1 to 65535".
void config_value_describe(const config_key_t *key, buffer_t *out);
