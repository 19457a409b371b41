#include "queue/record.h"

#include <inttypes.h>
#include <stdio.h>

static void record_append_text(conn_t *conn, const char *name, slice_t value) {
    if (value.len == 0) return;
    request_text(conn, name);
    request_bytes(conn, value.data, value.len);
}

static void record_append_number(conn_t *conn, const char *name, int64_t value) {
    if (value == 0) return;
    request_text(conn, name);
    request_int(conn, value);
}

void record_append(conn_t *conn, const event_t *event) {
#define X(name, help)                                                                                                            \
    if (strcmp(#name, "error") != 0) record_append_text(conn, #name, event->name);
    EVENT_TEXTS(X)
#undef X
#define X(name, help)                                                                                                            \
    if (strcmp(#name, "at") != 0) record_append_number(conn, #name, event->name);
    EVENT_NUMBERS(X)
#undef X
}

size_t record_bytes(const event_t *event) {
    size_t bytes = 0;
#define X(name, help)                                                                                                            \
    if (strcmp(#name, "error") != 0) bytes += event->name.len;
    EVENT_TEXTS(X)
#undef X
#define X(name, help)                                                                                                            \
    if (strcmp(#name, "at") != 0 && event->name) bytes += (size_t)snprintf(NULL, 0, "%" PRId64, event->name);
    EVENT_NUMBERS(X)
#undef X
    return bytes;
}
