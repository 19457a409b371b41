// Dead letters of workers: the workers of some systems push jobs that failed to a list of their own.
#pragma once

#include "dialects/dialect.h"

// Records each entry of the list config_dead_letters, once. The list keeps its entries.
extern const side_task_ops_t dead_letters_task;
