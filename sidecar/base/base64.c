#include "base/base64.h"

#include <stdint.h>

void base64_encode(buffer_t *out, slice_t bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        uint32_t group = 0;
        for (size_t j = 0; j < 3; j++) group = group << 8 | (j < left ? (unsigned char)bytes.data[i + j] : 0);
        char four[] = {digits[group >> 18], digits[group >> 12 & 63], left > 1 ? digits[group >> 6 & 63] : '=',
                       left > 2 ? digits[group & 63] : '='};
        buffer_add(out, four, sizeof four);
    }
}

static int digit_value(char digit) {
    if (digit >= 'A' && digit <= 'Z') return digit - 'A';
    if (digit >= 'a' && digit <= 'z') return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9') return digit - '0' + 52;
    return digit == '+' ? 62 : digit == '/' ? 63 : -1;
}

bool base64_decode(char *text, size_t *len) {
    size_t used = 0;
    if (*len % 4 != 0) return false;
    for (size_t i = 0; i < *len; i += 4) {
        uint32_t group = 0;
        size_t digits = text[i + 3] != '=' || i + 4 < *len ? 4 : text[i + 2] != '=' ? 3 : 2;
        for (size_t j = 0; j < 4; j++) {
            int value = j < digits ? digit_value(text[i + j]) : 0;
            if (value < 0) return false;
            group = group << 6 | (uint32_t)value;
        }
        if (group & (digits == 2 ? 0xffffU : digits == 3 ? 0xffU : 0)) return false; // bits of no byte
        for (size_t j = 0; j + 1 < digits; j++) text[used++] = (char)(group >> (16 - 8 * j));
    }
    *len = used;
    return true;
}
