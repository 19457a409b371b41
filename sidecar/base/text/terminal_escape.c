#include "base/text/terminal_escape.h"

#include "base/utf8.h"

// C1 controls (some terminals obey them), separators of lines, and all that a terminal does not show: marks of direction, tags,
// and the rest of Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt) but FE00 to FE0F, which belong to emoji.
static bool terminal_is_unsafe(uint32_t code) {
    static const struct {
        uint32_t from, to;
    } ranges[] = {{0x80, 0x9f},     {0xad, 0xad},     {0x34f, 0x34f},     {0x61c, 0x61c},     {0x115f, 0x1160},  {0x17b4, 0x17b5},
                  {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},   {0x3164, 0x3164},  {0xfeff, 0xfeff},
                  {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i].from && code <= ranges[i].to) return true;
    return false;
}

// As in JSON, whose text this may be: above U+FFFF two surrogates.
static void terminal_escape_code(buffer_t *out, uint32_t code) {
    if (code > 0xffff) buffer_printf(out, "\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)));
    buffer_printf(out, "\\u%04x", (unsigned)(code > 0xffff ? 0xdc00 + (code & 0x3ff) : code));
}

static void terminal_escape_ascii(buffer_t *out, unsigned char byte, bool keep_lines) {
    if (byte == '\n' && !keep_lines)
        buffer_str(out, "\\n");
    else if (byte == '\r')
        buffer_str(out, "\\r");
    else if (byte == '\t')
        buffer_str(out, "\\t");
    else if ((byte < 0x20 && byte != '\n') || byte == 0x7f)
        buffer_printf(out, "\\x%02x", byte);
    else
        buffer_add(out, &byte, 1);
}

void terminal_escape(buffer_t *out, slice_t bytes, bool keep_lines) {
    for (size_t i = 0; i < bytes.len;) {
        const char *at = bytes.data + i;
        size_t len = utf8_sequence(at, bytes.len - i);
        if (len == 0)
            buffer_printf(out, "\\x%02x", (unsigned char)*at);
        else if (len == 1)
            terminal_escape_ascii(out, (unsigned char)*at, keep_lines);
        else if (terminal_is_unsafe(utf8_code_point(at, len)))
            terminal_escape_code(out, utf8_code_point(at, len));
        else
            buffer_add(out, at, len);
        i += len ? len : 1;
    }
}

bool terminal_takes_colours(int fd) {
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(fd) && terminal && *terminal && strcmp(terminal, "dumb") != 0 && !(none && *none);
}
