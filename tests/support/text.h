/* Texts that a test looks into. */
#ifndef QS_TEST_TEXT_H
#define QS_TEST_TEXT_H

#include <stdbool.h>
#include <string.h>

static inline bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

#endif
