// Text from outside, made safe to print.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

// Length in bytes of the well-formed UTF-8 sequence at `text` (1 to 4), or 0 where there is none (RFC 3629: no overlong forms,
// no surrogates, nothing above U+10FFFF).
size_t utf8_sequence(const char *text, size_t len);

// The code point of such a sequence of `len` bytes.
uint32_t utf8_code_point(const char *at, size_t len);

// Whether the whole text is well-formed UTF-8.
bool utf8_is_valid(const char *text, size_t len);

// The first `most` bytes of a text, or up to three less: the end is not within a character.
slice_t utf8_head(slice_t text, size_t most);

// Appends `text` with control bytes as \u00XX, each broken byte as \ufffd, and a backslash before every ASCII character of
// `escape`. The result is always valid UTF-8 on one line, and with escape = "\"\\" the inside of a JSON string.
void utf8_escape(buffer_t *out, const char *text, size_t len, const char *escape);
