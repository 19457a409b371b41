#include "inspect/preflight_call.h"

#include "base/buffer.h"

void preflight_report(const preflight_call_t *call, preflight_level_t level, const char *queue, const char *format, ...) {
    buffer_t text = {0};
    va_list args;
    va_start(args, format);
    buffer_vprintf(&text, format, args);
    va_end(args);
    call->report(call->self, level, queue, buffer_text(&text));
    buffer_free(&text);
}
