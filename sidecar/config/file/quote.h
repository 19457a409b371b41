#pragma once

#include "base/buffer.h"

// Adds text as libconfig writes it, in quotes; control bytes are escaped.
void config_quote(const char *text, buffer_t *out);
