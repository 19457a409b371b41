#include "http/api/filters.h"

const param_t failure_filters[] = {FAILURE_FILTERS};
const size_t failure_filter_count = sizeof failure_filters / sizeof *failure_filters;
