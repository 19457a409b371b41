// The dead letter list of a queue whose workers give jobs up themselves: what they push there is recorded once, and stays.
// For private_queues.c only.
#ifndef QS_DIALECTS_PRIVATE_QUEUES_DEAD_LETTERS_H
#define QS_DIALECTS_PRIVATE_QUEUES_DEAD_LETTERS_H

#include "dialects/dialect.h"

extern const side_task_ops_t dead_letters_task;

#endif
