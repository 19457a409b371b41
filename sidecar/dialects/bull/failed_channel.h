// What Bull's channel `failed` has told and is not looked at yet; and whose failures have been recorded lately. For
// bull_failed.c.
#ifndef QS_DIALECTS_BULL_FAILED_CHANNEL_H
#define QS_DIALECTS_BULL_FAILED_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/slice.h"

// What a message of the sidecar itself says beside Bull's own members, which alone Bull reads, so that it is not taken for a
// worker's.
#define BULL_OUR_MESSAGE "\"by\":\"queue-sidecar\""

enum { BULL_ANSWERED_MOST = 1024 };

// One failure, owned by the list that it stands in.
typedef struct bull_told {
    slice_t id;
    slice_t error;  // val of the message, decoded
    buffer_t bytes; // what both borrow
    struct bull_told *next;
} bull_told_t;

typedef struct bull_heard {
    bull_told_t *first, **last; // in the order in which they came
    size_t count;
    size_t bytes;
    struct {
        digest_t id;
        mono_t at;
    } answered[BULL_ANSWERED_MOST]; // a ring
    size_t answered_next;
} bull_heard_t;

void bull_heard_begin(bull_heard_t *heard); // of memory that holds zeros
void bull_heard_clear(bull_heard_t *heard); // forgets everything; it can be used again

// Takes in a message, unless it is none of a failure, or our own. False: the oldest ones had to make room.
bool bull_heard_add(bull_heard_t *heard, slice_t message);
void bull_heard_pop(bull_heard_t *heard);              // drops the first
void bull_heard_turn(bull_heard_t *heard);             // makes the first the last
bool bull_heard_drop(bull_heard_t *heard, slice_t id); // drops the first that names this job, if there is one

// The failure of a job that stood in `failed` has its record. When its message comes later, and Bull has removed the job
// meanwhile, that is no further failure. Bull sends one message for each: the next one of this id is of another failure.
void bull_heard_answered(bull_heard_t *heard, slice_t id, mono_t now);
size_t bull_heard_answers(const bull_heard_t *heard, slice_t id, mono_t now); // whose messages are still to come
void bull_heard_take_answer(bull_heard_t *heard, slice_t id);                 // one message has come; no answer is fine

#endif
