// The description of the API in OpenAPI 3.1, made of the table of routes.
#pragma once

#include "http/api/request.h"

void openapi_write(const route_t *routes, size_t count, buffer_t *out);
