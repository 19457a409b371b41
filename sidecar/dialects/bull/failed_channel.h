// Messages of Bull's channel `failed` that are not yet handled, and failures whose message has not yet come. For failed.c.
#pragma once

#include "base/buffer.h"
#include "base/clock.h"
#include "base/condition.h"
#include "base/digest.h"
#include "base/slice.h"
#include "dialects/dialect.h"

// JSON member in each message that the sidecar publishes, so that the sidecar can skip its own messages. Bull ignores it.
#define BULL_OUR_MESSAGE "\"by\":\"queue-sidecar\""

enum { BULL_MESSAGES_MAX = 4096, BULL_EXPECTED_MAX = 1024 };

typedef struct bull_message {
    slice_t id;
    slice_t error;  // member `val`, decoded
    buffer_t bytes; // id and error borrow from it
} bull_message_t;

typedef struct bull_messages {
    bull_message_t *all[BULL_MESSAGES_MAX]; // owned, in the order of arrival
    size_t count;
    size_t bytes; // of ids and errors
    struct {
        digest_t id;
        mono_t at;
    } expected[BULL_EXPECTED_MAX]; // ring of recorded failures whose message has not come
    size_t expected_next;
} bull_messages_t;

void bull_messages_clear(bull_messages_t *messages); // leaves it empty and usable

// Adds a message, unless it is malformed or the sidecar's own. False: the oldest messages were dropped to make room.
bool bull_messages_add(bull_messages_t *messages, slice_t text);
void bull_messages_pop(bull_messages_t *messages);              // drops the first, if there is one
void bull_messages_rotate(bull_messages_t *messages);           // moves the first to the end; not if empty
bool bull_messages_drop(bull_messages_t *messages, slice_t id); // drops the first message of this job; false: it has none

// Remembers a failure that was recorded from `failed`. Its message may come after Bull removed the job, and would then look like
// a second failure. Bull publishes one message for each failure. So the next message of this id belongs to this failure.
void bull_messages_expect(bull_messages_t *messages, slice_t id, mono_t now);
size_t bull_messages_expected(const bull_messages_t *messages, slice_t id, mono_t now); // messages of the id still to come
// Forgets the oldest expected failure of the id, because its message has come; does nothing if there is none.
void bull_messages_take_expected(bull_messages_t *messages, slice_t id);

// Whether a message may be about another database: Redis names no database in it.
typedef struct bull_sharing {
    condition_t why; // holds: it may
    mono_t until;    // not before this the condition ends
} bull_sharing_t;

// Looks whether another database holds a Bull queue of this name. Logs a change.
outcome_t bull_sharing_look(bull_sharing_t *sharing, const side_task_call_t *step);
