#include "config/file/quote.h"

void config_quote(const char *text, buffer_t *out) {
    buffer_str(out, "\"");
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            buffer_printf(out, "\\%c", byte);
        else if (byte == '\n')
            buffer_str(out, "\\n");
        else if (byte < ' ' || byte == 0x7f)
            buffer_printf(out, "\\x%02X", byte);
        else
            buffer_add(out, text, 1);
    }
    buffer_str(out, "\"");
}
