// An event of delayedQueue: its member in zset and hash, and its envelope. For the files of this dialect.
#ifndef QS_DIALECTS_DELAYED_QUEUE_ENVELOPE_H
#define QS_DIALECTS_DELAYED_QUEUE_ENVELOPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "config/config.h"
#include "dialects/delayed_queue/config.h"

#define DELAYED_DELIMITER "###" // between class and id (DelayedEventService.java, DELIMITER)

enum { DELAYED_LATER_MS = 10000 }; // by which promote puts off what it puts aside

// A member, taken apart at its first delimiter, as class names hold no #. Borrowed from it.
typedef struct delayed_name {
    slice_t class; // empty: it has none
    slice_t id;
} delayed_name_t;

delayed_name_t delayed_name(slice_t member);

// The place of a class among the configured ones; false: it is none of them.
bool delayed_class(const delayed_config_t *own, slice_t class, size_t *out);

typedef struct delayed_envelope {
    int64_t attempt; // the next one, from 1
    slice_t digits;  // of it, in the text
} delayed_envelope_t;

// Strict where Jackson is not: an `attempt` that is doubled, quoted, null or not there makes it no envelope; so does the name of
// another class.
bool delayed_read(slice_t text, slice_t class, delayed_envelope_t *out);

// Whether delayed_promote.lua reads this envelope by itself: it ends as Jackson writes it.
bool delayed_is_fast(slice_t text, slice_t class, const delayed_envelope_t *envelope);

// Appends the text with another attempt; every other byte stays.
void delayed_splice(slice_t text, const delayed_envelope_t *envelope, int64_t attempt, buffer_t *out);

// How long before attempt number `attempt`, after the one before it (DelayedEventService.java, nextDelay).
int64_t delayed_delay_ms(const delayed_config_t *own, int64_t attempt);

#endif
