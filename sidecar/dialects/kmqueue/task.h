// The JSON of Trekkiii/KMQueue (4241368), as fastjson 1.2.16 writes its Task (tests/data/kmqueue): tasks, and the marker that
// ends a scan of the backup list.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

// Texts are raw, with escapes and without quotes, borrowed from the task's bytes. Times are ms since 1970 by the clocks of
// producers and workers, and may be any number.
typedef struct kmqueue_task {
    slice_t queue, id;
    slice_t type; // "" = none
    bool unique;  // its id is in the set <queue>_unique
    slice_t state;
    slice_t retry_text, gen_text;
    int64_t gen, exc; // genTimestamp; excTimestamp, 0 = not executed yet
    int64_t retry;    // 0 to 2^31-1
} kmqueue_task_t;

// False: not a task. Stricter than fastjson, which also accepts "1", 1.0, a doubled key or a missing taskStatus: workers write
// entries of the backup list themselves, so the list has no such text.
bool kmqueue_task_read(slice_t bytes, kmqueue_task_t *out);

// Whether a raw text, decoded, equals `wanted`.
bool kmqueue_text_is(slice_t text, slice_t wanted);

// Appends the task with other retries, another state and another creation date. All other bytes stay. A requeue needs a new date:
// a worker drops a task that is older than its alive timeout (RedisTaskQueue.java, popTask).
void kmqueue_task_rewrite(const kmqueue_task_t *task, slice_t bytes, int64_t retry, const char *state, int64_t gen,
                          buffer_t *out);

// Whether an entry of the backup list is its marker: queue is the list itself, type is "marker", excTimestamp is 0, and there is
// no data. KMQueue requires only one of the first two (BackupQueueMonitor.java, monitor), so one crafted task could hide all
// tasks behind it. No task fits all four, because workers set excTimestamp of each task that they put into the list.
bool kmqueue_is_marker(slice_t entry, const char *backup);
// Appends a new marker. Its id is a UUID of version 4 made of `random`, 32 hex digits.
void kmqueue_marker(const char *backup, const char *random, int64_t now_ms, buffer_t *out);
