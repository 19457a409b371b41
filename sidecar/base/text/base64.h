// Padded base64 (RFC 4648) by Nettle.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

void base64_encode(buffer_t *out, slice_t bytes); // appends
// Decodes the *len characters at `text` in place and sets *len to the number of bytes. False: the text is not padded base64, or
// holds anything else, such as a space.
bool base64_decode(char *text, size_t *len);
