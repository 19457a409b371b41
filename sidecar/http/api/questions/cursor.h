// The cursor of a list: where a search goes on. Opaque for clients. Pure.
#pragma once

#include "base/slice.h"

enum { CURSOR_SIZE = 128 };

typedef struct cursor {
    char log[48]; // name of the log that has `seq`
    int64_t at;   // ms since 1970
    int64_t seq;
} cursor_t;

void cursor_write(const cursor_t *cursor, char text[CURSOR_SIZE]);
// False: cursor_write did not make the text.
bool cursor_read(const char *text, cursor_t *out);
