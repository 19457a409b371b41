// An event of delayedQueue: its member in zset and hash, and its envelope.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "config/config.h"
#include "dialects/delayed_queue/config.h"

#define DELAYED_DELIMITER "###" // between class and id (DelayedEventService.java, DELIMITER)

enum { DELAYED_LATER_MS = 10000 }; // the delay of a quarantined event

// A member, split at its first delimiter: class names hold no #. The parts are borrowed from the member.
typedef struct delayed_name {
    slice_t class; // "" = none
    slice_t id;
} delayed_name_t;

delayed_name_t delayed_name(slice_t member);

// Index of a class in delayed_config_t.classes; false: not configured.
bool delayed_class(const delayed_config_t *own, slice_t class, size_t *out);

typedef struct delayed_envelope {
    int64_t attempt; // the next attempt, from 1
    slice_t digits;  // the digits of `attempt` in the text
} delayed_envelope_t;

// False: not an envelope of this class. Stricter than Jackson: `attempt` must be there once, and unquoted.
bool delayed_read(slice_t text, slice_t class, delayed_envelope_t *out);

// Whether delayed_promote.lua can read this envelope: the envelope ends exactly as Jackson writes it.
bool delayed_is_fast(slice_t text, slice_t class, const delayed_envelope_t *envelope);

// Appends the text with another attempt; every other byte stays.
void delayed_splice(slice_t text, const delayed_envelope_t *envelope, int64_t attempt, buffer_t *out);

// The delay before attempt number `attempt` (DelayedEventService.java, nextDelay).
int64_t delayed_delay_ms(const delayed_config_t *own, int64_t attempt);
