// Hides values of a payload from people: `hide` of its queue.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"
#include "config/config.h"

#define HIDDEN "(hidden)"

// Returns the payload as page and API may show, search and group it: each value of the pointers is "(hidden)". A payload whose
// parsers might disagree which value is meant, or that is no JSON object or array, is HIDDEN as a whole; so is any if there are
// more than HIDE_MAX pointers. Borrowed from `payload` or from *memory, which comes empty.
slice_t hide_payload(const strings_t *pointers, slice_t payload, buffer_t *memory);
