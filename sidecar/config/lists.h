// Values that are lists: names (KEY_STRINGS) and delay steps (KEY_STEPS).
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "config/file/source.h"
#include "config/table.h"

// Calls `take` for each text of a list or an array, or of a text as the table has it: "10: 10s, *: 60s". False: one of them is no
// text, or `take` returned false.
typedef bool config_text_fn(void *self, const char *text);
bool config_list_each(const node_t *node, config_text_fn *take, void *self);

// False: it is no such value, and what was added to `out`, which is empty before, must be freed.
bool strings_parse(const config_key_t *key, const node_t *node, strings_t *out);
bool delay_steps_parse(const config_key_t *key, const node_t *node, delay_steps_t *out);

// Append in libconfig syntax.
void strings_write(const strings_t *list, buffer_t *out);
void delay_steps_write(const delay_steps_t *list, buffer_t *out);

void strings_add(strings_t *list, const char *text); // copies the text
void strings_free(strings_t *list);                  // leaves an empty list
bool strings_has(const strings_t *list, const char *text);
