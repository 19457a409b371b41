// Base64 of RFC 4648, padded.
#ifndef QS_BASE_BASE64_H
#define QS_BASE_BASE64_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/slice.h"

void base64_encode(buffer_t *out, slice_t bytes); // appends
// Back, in place: `len` characters at `text` become *len bytes. False when they are no padded base64 without anything else.
bool base64_decode(char *text, size_t *len);

#endif
