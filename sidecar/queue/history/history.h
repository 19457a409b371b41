// The history of a queue in Redis: what the leader counted in each minute of the last day. It lies in Redis because leaders
// change.
//
// The key is a ring of slots, one for each step: a minute, or five minutes if the config has more than HISTORY_MANY_QUEUES
// queues. Steps are those of Redis's clock. Each slot says which step it has, so a reader ignores what is older than a day.
#pragma once

#include "queue/call.h"

struct redisReply;

enum {
    HISTORY_MANY_QUEUES = 256,
    HISTORY_DAY = 1440,   // minutes
    HISTORY_UNKNOWN = -1, // a number that nobody knows, or that the queue's dialect does not have
};

// The counts of one step: the jobs at its end, and the rest during it. Larger numbers than a slot holds are cut.
typedef struct history_sample {
    int64_t ready;
    int64_t delayed;
    int64_t in_progress;
    int64_t late_ms;  // the most by which a job was late
    int64_t failures; // final ones, without those that `jobs cancel` has ended
} history_sample_t;

typedef struct history_slot {
    bool written;
    history_sample_t sample;
} history_slot_t;

// Minutes of a step; 0 = the config wants no history.
int history_step(const config_t *config);

// Queues of one request, so that it takes Redis less than redis.slice.
size_t history_request_queues(const config_t *config);

// Appends the request that stores samples in the histories of these queues, which one lock fences. call->queue is the first of
// them. `number` is that of the step that ended last, counted from 1970. A step of 0 removes the histories.
typedef struct history_entry {
    size_t queue;
    history_sample_t sample;
} history_entry_t;
void history_append(const call_t *call, int step, int64_t number, const history_entry_t *entries, size_t count);
// Reads its reply. OUTCOME_OK: stored, or the step has been over for too long. Otherwise Redis has refused the whole request, or
// some of the queues: *error has the key of the first of them.
outcome_t history_read_stored(const call_t *call, const history_entry_t *entries, size_t count);

// Minutes of a step in a ring of this length; 0 = it is no history.
int history_step_of(size_t bytes);
// The slot of step `number` in a ring of that step.
history_slot_t history_slot(slice_t ring, int step, int64_t number);
