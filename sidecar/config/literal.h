// Numbers, texts and lists as libconfig writes them.
#pragma once

#include "base/buffer.h"
#include "config/file/source.h"
#include "config/table.h"

// Adds text in quotes; control bytes are escaped.
void config_quote(const char *text, buffer_t *out);

// Reads "12", "-3", "0x1F", with or without the L or LL of libconfig. False: not an integer of 64 bits.
bool config_number_parse(const char *text, int64_t *value);

// True when libconfig would wrap this literal at 32 bits: too large, and without an L.
bool config_number_wraps(const char *text, int64_t value);

// Reads a number or a bound by the type of the key: a duration, a size or an integer.
bool config_number_of(key_type_t type, const char *text, int64_t *value);

// Whether the number lies within the bounds of the key, which are lengths for a text and delays for steps.
bool config_number_in_bounds(const config_key_t *key, int64_t value);

// ---- Lists: names (KEY_STRINGS), JSON pointers (KEY_POINTERS), hosts (KEY_HOSTS) and delay steps (KEY_STEPS).

// Calls `take` for each text of a list, or each part of "10: 10s, *: 60s". False: an element is no text, or `take` returned
// false.
typedef bool config_text_fn(void *self, const char *text);
bool config_list_each(const node_t *node, config_text_fn *take, void *self);

// `out` is empty before the call. False: the value is not valid; the caller frees `out`.
bool strings_parse(const config_key_t *key, const node_t *node, strings_t *out);
bool delay_steps_parse(const config_key_t *key, const node_t *node, delay_steps_t *out);

// Append in libconfig syntax.
void strings_write(const strings_t *list, buffer_t *out);
void delay_steps_write(const delay_steps_t *list, buffer_t *out);

strings_t strings_copy(const strings_t *list);
void strings_add(strings_t *list, const char *text); // copies the text
void strings_free(strings_t *list);                  // leaves an empty list
bool strings_has(const strings_t *list, const char *text);
