// Integers, durations and sizes as the config writes them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/table.h"

// Reads "12", "-3", "0x1F", with or without the L or LL of libconfig. False: it is no integer, or does not fit 64 bits.
bool config_number_parse(const char *text, int64_t *value);

// True when libconfig would wrap this literal at 32 bits: too large, and without an L.
bool config_number_wraps(const char *text, int64_t value);

// Reads a number or a bound by the type of the key: a duration, a size or an integer.
bool config_number_of(key_type_t type, const char *text, int64_t *value);

// Whether the number lies within the bounds of the key, which are lengths for a text and delays for steps.
bool config_number_in_bounds(const config_key_t *key, int64_t value);
