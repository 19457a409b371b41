// An event in a job's life, in the form of the failure stream and the audit log.
//
// EVENT_TEXTS and EVENT_NUMBERS are the fields of a stream entry by name, of the table `events` by column, and of this struct. A
// text that is not known is empty, a number 0. Times are milliseconds since 1970 by Redis's clock.
#pragma once

#include "base/digest.h"
#include "base/slice.h"

// X(name, help)
#define EVENT_TEXTS(X)                                                                                                           \
    X(event, "id of the event: 64 hex digits, made once, the same on every replica")                                             \
    X(kind, "failed, retried, requeued, discarded, gap or filled")                                                               \
    X(dialect, "of the queue")                                                                                                   \
    X(queue, "name of the queue")                                                                                                \
    X(job, "id of the job")                                                                                                      \
    X(type, "of the job, where type_path tells it")                                                                              \
    X(worker, "who had it, where a heartbeat told; of requeued and discarded: who wanted that")                                  \
    X(reason, "why: retries_exhausted, reported, alive_timeout, ...; of a retry: stalled or reported; of an answer: its text")   \
    X(error, "what the worker reported, at most 64 KiB")                                                                         \
    X(term, "token of the leader that decided")                                                                                  \
    X(sha256, "of the payload, 64 hex digits")                                                                                   \
    X(answers,                                                                                                                   \
      "id of the failed event that a requeued or discarded one answers, the last one is its state; of the gap that is filled")   \
    X(payload, "the job's bytes; of a failure only")
#define EVENT_NUMBERS(X)                                                                                                         \
    X(attempts, "executions so far")                                                                                             \
    X(created, "when the job was made: by created_path, else when it was first seen")                                            \
    X(started, "when the last execution was first seen")                                                                         \
    X(at, "when this was decided")                                                                                               \
    X(size, "of the payload, in bytes")

typedef struct event {
#define X(name, help) slice_t name;
    EVENT_TEXTS(X)
#undef X
#define X(name, help) int64_t name;
    EVENT_NUMBERS(X)
#undef X
} event_t;

enum { EVENT_ID_SIZE = DIGEST_HEX_SIZE, EVENT_REF_SIZE = 13 };

// Sets event->event, borrowed from `id`: the id of the event, the same at every time and on every machine: the
// digest_of_parts of dialect, queue, job, sha256, life, attempts, kind and nth, numbers in decimal. `life` (microseconds since
// 1970) separates two lives of equal jobs, `nth` two events of one kind in one attempt.
void event_id(event_t *event, int64_t life, int64_t nth, char id[EVENT_ID_SIZE]);

// Makes the ref that people type: the first 12 base32 digits (RFC 4648, lower case) of the id's bytes. False: malformed `id`.
bool event_ref(slice_t id, char ref[EVENT_REF_SIZE]);

// Sets the field `name`, a text (borrowed from `value`) or a number. False, and nothing is set: no field has that name, or
// `value` is not a decimal number of 64 bits.
bool event_set(event_t *event, slice_t name, slice_t value);
