// The stream in which workers tell of failures. For reader.c.
#pragma once

#include "base/condition.h"
#include "dialects/failed/failed.h"

enum { FAILED_CURSOR_SIZE = 44 }; // of a stream id: two numbers of 64 bits

typedef struct failed_events {
    char cursor[FAILED_CURSOR_SIZE]; // id of the last entry that was read; "" = the one in Redis
    mono_t at;                       // when the next read is due
    condition_t trimmed;             // the stream was trimmed before it was read
} failed_events_t;

void failed_events_forget(failed_events_t *events); // for a new term or connection

// Reads the next entries into `messages`, which is empty: so all failures up to the cursor have a record or need none, and the
// cursor is stored. With `off` it forgets the stored cursor instead: failures until the next read need no record.
outcome_t failed_events_read(failed_events_t *events, const failed_source_t *source, side_task_call_t *call,
                             failed_messages_t *messages, bool off);
