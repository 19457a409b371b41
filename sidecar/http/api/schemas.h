// The schemas of answers in openapi.json.
#pragma once

#include "base/buffer.h"

// Appends the members of `schemas`.
void openapi_schemas(buffer_t *out);
