/* Searching in texts. */
#pragma once

#include <stdbool.h>
#include <string.h>

static inline bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }
