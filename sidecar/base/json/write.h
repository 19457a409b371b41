// Writes JSON strings.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

// Appends the text as a JSON string in quotes. Each byte that is not UTF-8 becomes U+FFFD.
void json_write_string(buffer_t *out, slice_t text);
