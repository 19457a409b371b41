
#include "base/json/walk.h"
#include "base/utf8.h"

static bool text_is_high(unsigned unit) { return unit >= 0xd800 && unit <= 0xdbff; }
static bool text_is_low(unsigned unit) { return unit >= 0xdc00 && unit <= 0xdfff; }

// Returns the UTF-16 unit of the escape at the backslash *at; moves *at behind it.
static unsigned text_take_unit(const char **at) {
    static const char letters[] = "b\bf\fn\nr\rt\t";
    const char *escape = *at;
    *at += 2;
    if (escape[1] != 'u') {
        for (const char *letter = letters; *letter; letter += 2)
            if (escape[1] == *letter) return (unsigned char)letter[1];
        return (unsigned char)escape[1];
    }
    unsigned unit = 0;
    for (int i = 0; i < 4; i++) unit = unit << 4 | (unsigned)hex_digit(*(*at)++);
    return unit;
}

static size_t text_write_utf8(unsigned code, char utf8[JSON_CHARACTER_SIZE]) {
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, code >>= 6) utf8[i] = (char)(0x80 | (code & 0x3f));
    utf8[0] = (char)(leads[len] | code);
    return len;
}

size_t json_take_character(const char **at, const char *end, char utf8[JSON_CHARACTER_SIZE]) {
    if (**at != '\\') {
        utf8[0] = *(*at)++;
        return 1;
    }
    unsigned code = text_take_unit(at);
    if (text_is_low(code)) return 0;
    if (text_is_high(code)) {
        if (*at == end || **at != '\\') return 0;
        unsigned low = text_take_unit(at);
        if (!text_is_low(low)) return 0;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    return text_write_utf8(code, utf8);
}

bool json_decode(slice_t raw, buffer_t *out) {
    size_t before = out->len;
    const char *end = raw.len ? raw.data + raw.len : raw.data;
    for (const char *at = raw.data; at < end;) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        char utf8[JSON_CHARACTER_SIZE];
        buffer_add(out, at, (size_t)((escape ? escape : end) - at));
        if (!escape) break;
        at = escape;
        size_t len = json_take_character(&at, end, utf8);
        if (len == 0) {
            out->len = before;
            if (out->data) out->data[before] = '\0';
            return false;
        }
        buffer_add(out, utf8, len);
    }
    return true;
}

bool json_integer(slice_t raw, int64_t *out) {
    size_t first = raw.len > 0 && *raw.data == '-';
    bool zero_leads = raw.len > first + 1 && raw.data[first] == '0';
    return !zero_leads && slice_integer(raw, out);
}

bool json_copy_text(slice_t raw, char *out, size_t most) {
    buffer_t decoded = {0};
    bool good = raw.len <= JSON_ESCAPED_BYTE * most && json_decode(raw, &decoded) && decoded.len > 0 && decoded.len <= most &&
                !memchr(decoded.data, '\0', decoded.len);
    if (good) memcpy(out, decoded.data, decoded.len + 1);
    buffer_free(&decoded);
    return good;
}

void json_write_string(buffer_t *out, slice_t text) {
    buffer_str(out, "\"");
    utf8_escape(out, text.data, text.len, "\"\\");
    buffer_str(out, "\"");
}

static int splice_order(const void *left, const void *right) {
    const json_cut_t *a = left, *b = right;
    return (a->raw.data > b->raw.data) - (a->raw.data < b->raw.data);
}

static bool splice_lies_in(slice_t text, slice_t raw) {
    uintptr_t at = (uintptr_t)raw.data - (uintptr_t)text.data; // wraps to a large number if `raw` is before the text
    return at <= text.len && raw.len <= text.len - at;
}

bool json_splice(slice_t text, json_cut_t *cuts, size_t count, buffer_t *out) {
    for (size_t i = 0; i < count; i++)
        if (!splice_lies_in(text, cuts[i].raw)) return false;
    if (count) qsort(cuts, count, sizeof *cuts, splice_order);
    for (size_t i = 1; i < count; i++)
        if (cuts[i].raw.data <= cuts[i - 1].raw.data + cuts[i - 1].raw.len) return false;
    const char *at = text.data;
    for (size_t i = 0; i < count; i++) {
        buffer_add(out, at, (size_t)(cuts[i].raw.data - at));
        buffer_add(out, cuts[i].with.data, cuts[i].with.len);
        at = cuts[i].raw.data + cuts[i].raw.len;
    }
    buffer_add(out, at, text.len - (size_t)(at - text.data));
    return true;
}
