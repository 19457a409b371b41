#include "base/text/fold.h"

enum { LEAD_FIRST = 0xc3, LEAD_LAST = 0xd4 }; // first bytes of the letters of two bytes that have a case

// In ascending order: code points with the distance to the other case. `step` 2: upper and lower case take turns.
static const struct {
    uint16_t first, last;
    uint8_t step;
    int16_t distance;
} fold_ranges[] = {
    {0x00c0, 0x00d6, 1, 32}, {0x00d8, 0x00de, 1, 32}, {0x0100, 0x012e, 2, 1},     {0x0132, 0x0136, 2, 1},
    {0x0139, 0x0147, 2, 1},  {0x014a, 0x0176, 2, 1},  {0x0178, 0x0178, 1, -0x79}, {0x0179, 0x017d, 2, 1},
    {0x0386, 0x0386, 1, 38}, {0x0388, 0x038a, 1, 37}, {0x038c, 0x038c, 1, 64},    {0x038e, 0x038f, 1, 63},
    {0x0391, 0x03a1, 1, 32}, {0x03a3, 0x03ab, 1, 32}, {0x03c2, 0x03c2, 1, 1},     {0x0400, 0x040f, 1, 80},
    {0x0410, 0x042f, 1, 32}, {0x0460, 0x0480, 2, 1},  {0x048a, 0x04be, 2, 1},     {0x04c0, 0x04c0, 1, 15},
    {0x04c1, 0x04cd, 2, 1},  {0x04d0, 0x052e, 2, 1},
};

static unsigned fold_code(unsigned code) {
    for (size_t i = 0; i < sizeof fold_ranges / sizeof *fold_ranges && fold_ranges[i].first <= code; i++)
        if (code <= fold_ranges[i].last && (code - fold_ranges[i].first) % fold_ranges[i].step == 0)
            return (unsigned)((int)code + fold_ranges[i].distance);
    return code;
}

// Moves *at behind a letter and returns it in lower case: the code point of a letter of one or two bytes, otherwise one byte.
// Such a byte is not below 0x80, and no code point of two bytes with a case is below 0xc0, so a byte of either kind is not taken
// for the other if both texts are read from the beginning of a letter.
static unsigned fold_next(const char **at, const char *end) {
    unsigned first = (unsigned char)*(*at)++;
    if (first < 0x80) return first >= 'A' && first <= 'Z' ? first + 'a' - 'A' : first;
    if (first < LEAD_FIRST || first > LEAD_LAST || *at == end || ((unsigned char)**at & 0xc0) != 0x80) return first << 16;
    return fold_code((first & 0x1f) << 6 | ((unsigned char)*(*at)++ & 0x3f));
}

static bool fold_begins(const char *at, const char *end, slice_t wanted) {
    for (const char *w = wanted.data, *w_end = w + wanted.len; w < w_end;)
        if (at == end || fold_next(&at, end) != fold_next(&w, w_end)) return false;
    return true;
}

// Skips what cannot be `letter`. No letter of two bytes is the other case of an ASCII letter.
static const char *fold_skip(const char *at, const char *end, unsigned letter) {
    char lower = (char)letter, upper = letter >= 'a' && letter <= 'z' ? (char)(letter - 'a' + 'A') : lower;
    while (letter < 0x80 && at < end && *at != lower && *at != upper) at++;
    return at;
}

bool fold_find(slice_t text, slice_t wanted) {
    const char *end = text.data + text.len, *rest = wanted.data;
    if (wanted.len == 0) return true;
    unsigned first = fold_next(&rest, wanted.data + wanted.len);
    for (const char *at = text.data, *next; text.len && (at = fold_skip(at, end, first)) < end; at = next) {
        next = at;
        if (fold_next(&next, end) == first && fold_begins(at, end, wanted)) return true;
    }
    return false;
}
