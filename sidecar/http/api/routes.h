// The table of routes.
#pragma once

#include "http/api/request.h"

extern const route_t routes[];
extern const size_t route_count;

// Finds the route of a path below API_ROOT, decoded, for a method; HEAD is GET. *argument is owned. NULL: *answer is the problem.
const route_t *route_find(const char *method, const char *path, char **argument, answer_t *answer);
