// Messages of a channel or a stream of the workers about failures that the reader has not yet handled, and failures whose message
// has not yet come.
#pragma once

#include "base/buffer.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/slice.h"

enum { FAILED_MESSAGES_MAX = 4096, FAILED_EXPECTED_MAX = 1024 };

typedef struct failed_message {
    slice_t id;
    slice_t error;
    int64_t ms;     // when the job failed; 0 = the message does not tell
    buffer_t bytes; // id and error borrow from it
} failed_message_t;

typedef struct failed_messages {
    failed_message_t *all[FAILED_MESSAGES_MAX]; // owned, in the order of arrival
    size_t count;
    size_t bytes; // of ids and errors
    struct {
        digest_t id;
        mono_t at;
    } expected[FAILED_EXPECTED_MAX]; // ring of recorded failures whose message has not come
    size_t expected_next;
} failed_messages_t;

void failed_messages_clear(failed_messages_t *messages); // leaves it empty and usable

// Drops the oldest messages until there is room for a message of so many bytes. False: it dropped one or more.
bool failed_messages_make_room(failed_messages_t *messages, size_t bytes);
// Adds a message, whose bytes begin with an id of `id_len` bytes; its error follows. Takes the bytes. There must be room.
void failed_messages_add(failed_messages_t *messages, buffer_t bytes, size_t id_len, int64_t ms);
void failed_messages_pop(failed_messages_t *messages);              // drops the first, if there is one
void failed_messages_rotate(failed_messages_t *messages);           // moves the first to the end; not if empty
bool failed_messages_drop(failed_messages_t *messages, slice_t id); // drops the first message of this job; false: it has none

// Remembers a failure that was recorded from the zset. Its message may come after the workers removed the job, and would then
// look like a second failure. There is one message for each failure. So the next message of this id belongs to this failure.
void failed_messages_expect(failed_messages_t *messages, slice_t id, mono_t now);
size_t failed_messages_expected(const failed_messages_t *messages, slice_t id, mono_t now); // messages of the id still to come
// Forgets the oldest expected failure of the id, because its message has come; does nothing if there is none.
void failed_messages_take_expected(failed_messages_t *messages, slice_t id);
