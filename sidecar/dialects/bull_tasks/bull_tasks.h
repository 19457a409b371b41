// Side tasks that Bull and BullMQ have in common.
#pragma once

#include "dialects/bull_queue.h"

extern const side_task_ops_t bull_quarantine_task; // quarantine.c
