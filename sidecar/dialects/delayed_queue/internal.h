// The interfaces between the files of dialect delayed_queue.
#ifndef QS_DIALECTS_DELAYED_QUEUE_INTERNAL_H
#define QS_DIALECTS_DELAYED_QUEUE_INTERNAL_H

#include "dialects/dialect.h"

extern const promote_ops_t delayed_promote;
extern const side_task_ops_t delayed_task;
extern const requeue_ops_t delayed_requeue;

bool delayed_dry_run(const dry_run_t *room);

#endif
