// Durations, sizes and integers as text, both ways.
#ifndef QS_CONFIG_NUMBER_H
#define QS_CONFIG_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "config/table.h"

// Takes "12", "-3", "0x1F", with or without the L or LL of libconfig. Returns false when it is none or does not fit 64 bits.
bool config_number_parse(const char *text, int64_t *value);

// True when libconfig would have wrapped this literal at 32 bits: too large, and without an L.
bool config_number_wraps(const char *text, int64_t value);

// The text of a bound, default or value of such a key (an integer, duration or size) as a number.
bool config_number_of(key_type_t type, const char *text, int64_t *value);

// Adds a number in the largest unit that divides it: 180000 ms -> 3m, 4096 bytes -> 4KiB.
void config_number_write(key_type_t type, int64_t value, buffer_t *out);

#endif
