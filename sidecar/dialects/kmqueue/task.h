// The JSON that Trekkiii/KMQueue (4241368) keeps in Redis, as fastjson 1.2.16 writes its Task (tests/data/kmqueue): what a task
// says of itself, the same task as a retry pushes it, and the marker that closes a pass over the backup list.
#ifndef QS_DIALECTS_KMQUEUE_TASK_H
#define QS_DIALECTS_KMQUEUE_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

// Texts are what stands between the quotes, escapes and all; borrowed from the task's bytes. Times are ms since 1970 by the
// clocks of producers and workers, and any number.
typedef struct kmqueue_task {
    slice_t queue, id;
    slice_t type; // "" = none
    bool unique;  // its id stands in the set <queue>_unique
    slice_t state;
    slice_t retry_text, gen_text;
    int64_t gen, exc; // made; this execution begun, 0 = not yet
    int64_t retry;    // 0 to 2^31-1: times that it was given back
} kmqueue_task_t;

// False: no task, and nothing can be said of it. Stricter than fastjson, which also reads "1", 1.0, a key that stands twice or a
// task without a status: what a worker puts into backup it has written anew, so none of that is found there.
bool kmqueue_task_read(slice_t bytes, kmqueue_task_t *out);

// Whether a text of a task spells these bytes.
bool kmqueue_text_is(slice_t text, slice_t wanted);
// Decodes it to `out`, which has room for `most` bytes and a NUL. False: it is empty, longer, has a NUL inside, or is no UTF-8.
bool kmqueue_text_copy(slice_t text, char *out, size_t most);

// The task with its count raised and its state "retry": what BackupQueueMonitor pushes. All other bytes are as they were.
void kmqueue_task_retry(const kmqueue_task_t *task, slice_t bytes, buffer_t *out);
// The task as if it had been made now: what an operator's requeue pushes. A worker runs a task that is older than its alive
// timeout without putting it into backup (RedisTaskQueue.java, popTask), so the date must be new.
void kmqueue_task_requeue(const kmqueue_task_t *task, slice_t bytes, int64_t now_ms, buffer_t *out);

// Whether an entry of the backup list is its marker: its queue is the list itself, its type "marker", and it was never executed
// and has no data. Natively one of the first two is enough (BackupQueueMonitor.java, monitor), and a task could hide all those
// behind it; a task that looks like a marker in all else was executed, or it would not be there. Looks closely at few entries.
bool kmqueue_is_marker(slice_t entry, const char *backup);
// A new marker; `random` has 32 hex digits, of which 30 and a half become its id, a UUID of version 4.
void kmqueue_marker(const char *backup, const char *random, int64_t now_ms, buffer_t *out);

#endif
