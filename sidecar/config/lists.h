// Values that are lists: names (KEY_STRINGS) and steps of a delay (KEY_STEPS).
#ifndef QS_CONFIG_LISTS_H
#define QS_CONFIG_LISTS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "config/file/source.h"
#include "config/table.h"

bool config_is_list(key_type_t type);

// Sets the field from a list or an array, or steps from a text as the table has it ("10: 10s, *: 60s"). Returns false, and
// changes nothing, when it is no such value.
bool config_list_set(const config_key_t *key, const node_t *node, void *field);
void config_list_free(const config_key_t *key, void *field); // leaves an empty list
void config_list_write(const config_key_t *key, const void *field, buffer_t *out);
void config_list_describe(const config_key_t *key, buffer_t *out);

// Copies the text; the list owns it.
void strings_add(strings_t *list, const char *text);
void strings_free(strings_t *list); // leaves an empty list
bool strings_has(const strings_t *list, const char *text);

#endif
