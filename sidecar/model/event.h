// An event of a job, as the failure stream and the audit log keep it.
//
// EVENT_TEXTS and EVENT_NUMBERS are the fields of a stream entry by name, of the table `events` by column, and of this struct. An
// unknown text is empty, an unknown number is 0. Times are milliseconds since 1970 by Redis's clock.
#pragma once

#include "base/buffer.h"
#include "base/digest.h"
#include "base/slice.h"

// X(name, help)
#define EVENT_TEXTS(X)                                                                                                           \
    X(event, "id of the event: 64 hex digits, the same in every audit log")                                                      \
    X(kind, "failed, retried, requeued, discarded, erased, gap or filled")                                                       \
    X(dialect, "of the queue")                                                                                                   \
    X(queue, "name of the queue")                                                                                                \
    X(job, "id of the job")                                                                                                      \
    X(type, "of the job, read by type_path")                                                                                     \
    X(worker, "that had the job, if its heartbeat names it; of requeued, discarded and erased: the operator")                    \
    X(reason, "why: retries_exhausted, reported, alive_timeout, ...; of a retry: stalled or reported; of requeued, "             \
              "discarded and erased: a note")                                                                                    \
    X(error, "what the worker reported, at most 64 KiB")                                                                         \
    X(term, "token of the leader that decided")                                                                                  \
    X(sha256, "of the payload, 64 hex digits")                                                                                   \
    X(answers,                                                                                                                   \
      "of requeued, discarded and erased: id of the failed event, whose state is the last of the former two; of filled: "        \
      "id of the gap")                                                                                                           \
    X(payload, "the job's bytes; of a failure only")                                                                             \
    X(group, "of the instance that decided; empty in records of version 0.1.0")                                                  \
    X(traceparent, "of a failure: the W3C traceparent that trace_path found in the payload")
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

// Writes the event's id to `id` and lets event->event point to it. The id is the digest_of_parts of dialect, queue, job, sha256,
// life, attempts, kind and nth, numbers in decimal, so every machine computes the same one. `life` (see stamp_t; microseconds
// since 1970) separates two lives of equal jobs, `nth` two events of one kind in one attempt.
void event_id(event_t *event, int64_t life, int64_t nth, char id[EVENT_ID_SIZE]);

// Makes the ref that people type: the first 12 base32 digits (RFC 4648, lower case) of the id's bytes. False: malformed `id`.
bool event_ref(slice_t id, char ref[EVENT_REF_SIZE]);

// Sets the field `name`, a text (borrowed from `value`) or a number. False, and nothing is set: no field has that name, or
// `value` is not a decimal number of 64 bits.
bool event_set(event_t *event, slice_t name, slice_t value);

// Checks an event of a file or of a failure stream. `now_ms` is the time of the clock that gave `at`. False, with *why: skip it.
bool event_check(const event_t *event, int64_t now_ms, buffer_t *why);
// Whether the event is of kind requeued, discarded or erased: it names a failure.
bool event_is_answer(const event_t *event);
// Whether the event is of kind erased: it removes the texts of the failure that it names, and of earlier retries of the job.
bool event_is_erasure(const event_t *event);
// Whether the event is of kind gap or filled: only an audit log has these.
bool event_is_of_a_log(const event_t *event);
#define EVENT_ANSWERS_OTHER "answers a failure of another job" // why an answer is skipped
// Clears the dates and attempts, and cuts the worker's name, if event_check would refuse them. A job must not be able to prevent
// the record of its own failure.
void event_clear_impossible(event_t *event);
