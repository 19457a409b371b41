#pragma once

#include "dialects/dialect.h"

// dead_letters.c: records each entry that workers push to the dead letter list, once. The list keeps its entries.
extern const side_task_ops_t dead_letters_task;

bool private_dry_run(const dry_run_t *run);
unsigned private_dry_run_needs(const queue_config_t *queue);
