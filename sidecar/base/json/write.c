#include "base/json/write.h"

#include "base/utf8.h"

void json_write_string(buffer_t *out, slice_t text) {
    buffer_str(out, "\"");
    utf8_escape(out, text.data, text.len, "\"\\");
    buffer_str(out, "\"");
}
