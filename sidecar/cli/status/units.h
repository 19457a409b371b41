// Numbers and names as `status` says them to people: short, with their unit.
#ifndef QS_CLI_STATUS_UNITS_H
#define QS_CLI_STATUS_UNITS_H

#include <stdint.h>

#include "base/buffer.h"

enum { SPAN_SIZE = 32 };

// Each writes into text and returns it. A time: "0.4 s", "83 s", "14 min", "26 h", "3 d".
const char *status_span(int64_t ms, char text[SPAN_SIZE]);
// A count: "12", "1,204", "12.3M"; "?" = not known.
const char *status_number(int64_t number, char text[SPAN_SIZE]);
// "812 bytes", "12.3 MiB".
const char *status_size(int64_t bytes, char text[SPAN_SIZE]);

// Appends a word of a command line, in quotes where a shell needs them.
void status_word(buffer_t *out, const char *text);

#endif
