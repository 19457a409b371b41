#include "audit/text.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

enum { WORD_SIZE = 8 };

// Eight bytes at once, all of them ASCII and none of them NUL: the usual case.
static bool text_is_ascii_word(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    uint64_t high = UINT64_C(0x8080808080808080), low = UINT64_C(0x0101010101010101);
    return ((word | (word - low)) & high) == 0;
}

bool text_is_storable(slice_t slice) {
    for (size_t i = 0; i < slice.len;) {
        if (slice.len - i >= WORD_SIZE && text_is_ascii_word(slice.data + i)) {
            i += WORD_SIZE;
            continue;
        }
        size_t sequence = slice.data[i] ? utf8_sequence(slice.data + i, slice.len - i) : 0;
        if (sequence == 0) return false;
        i += sequence;
    }
    return true;
}
