// Marks of unique tasks that no task belongs to any more. A worker pops a task and only then pushes it to the backup list; one
// that dies in between loses the task, and nobody else can see that, but for the id that stays in <queue>_unique and keeps every
// later task of that id out (RedisTaskQueue.java, popTask and pushTask). They are told, and never removed: a producer that has
// added its mark and not yet its task looks the same.
#ifndef QS_DIALECTS_KMQUEUE_UNIQUE_IDS_H
#define QS_DIALECTS_KMQUEUE_UNIQUE_IDS_H

#include "dialects/dialect.h"

extern const side_task_ops_t kmqueue_task_ops;

#endif
