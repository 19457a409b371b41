#include "base/utf8.h"

static bool utf8_is_tail(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// The second byte shows overlong forms, surrogates and code points above U+10FFFF.
static bool utf8_second_fits(unsigned char first, unsigned char second) {
    switch (first) {
    case 0xe0: return second >= 0xa0 && second <= 0xbf;
    case 0xed: return second >= 0x80 && second <= 0x9f;
    case 0xf0: return second >= 0x90 && second <= 0xbf;
    case 0xf4: return second >= 0x80 && second <= 0x8f;
    default: return utf8_is_tail(second);
    }
}

size_t utf8_sequence(const char *text, size_t len) {
    const unsigned char *at = (const unsigned char *)text;
    if (len == 0) return 0;
    if (at[0] < 0x80) return 1;
    size_t need = at[0] >= 0xc2 && at[0] <= 0xdf ? 2 : (at[0] & 0xf0) == 0xe0 ? 3 : at[0] >= 0xf0 && at[0] <= 0xf4 ? 4 : 0;
    if (need == 0 || len < need || !utf8_second_fits(at[0], at[1])) return 0;
    for (size_t i = 2; i < need; i++)
        if (!utf8_is_tail(at[i])) return 0;
    return need;
}

uint32_t utf8_code_point(const char *at, size_t len) {
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (unsigned char)at[0] & mask[len];
    for (size_t i = 1; i < len; i++) code = code << 6 | ((unsigned char)at[i] & 0x3f);
    return code;
}

bool utf8_is_valid(const char *text, size_t len) {
    for (size_t i = 0, step; i < len; i += step) {
        uint64_t word = UINT64_MAX; // eight bytes at once, because most texts are ASCII
        if (len - i >= sizeof word) memcpy(&word, text + i, sizeof word);
        step = word & UINT64_C(0x8080808080808080) ? utf8_sequence(text + i, len - i) : sizeof word;
        if (step == 0) return false;
    }
    return true;
}

void utf8_escape(buffer_t *out, const char *text, size_t len, const char *escape) {
    for (size_t i = 0; i < len;) {
        unsigned char byte = (unsigned char)text[i];
        size_t sequence = utf8_sequence(text + i, len - i);
        if (sequence == 0) {
            buffer_str(out, "\\ufffd");
        } else if (byte < 0x20 || byte == 0x7f) {
            buffer_printf(out, "\\u%04x", byte);
        } else {
            if (sequence == 1 && strchr(escape, byte)) buffer_str(out, "\\");
            buffer_add(out, text + i, sequence);
        }
        i += sequence ? sequence : 1;
    }
}

slice_t utf8_head(slice_t text, size_t most) {
    if (text.len <= most) return text;
    size_t len = most;
    for (size_t back = 0; back < 3 && len && ((unsigned char)text.data[len] & 0xc0) == 0x80; back++) len--;
    return (slice_t){text.data, len};
}
