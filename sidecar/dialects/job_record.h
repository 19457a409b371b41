// The record of one event of a job, with the bytes that the event borrows.
#pragma once

#include "base/buffer.h"
#include "model/event.h"
#include "queue/call.h"

typedef struct job_record {
    event_t event; // borrows from the job and from the members below
    char id[EVENT_ID_SIZE];
    char sha256[DIGEST_HEX_SIZE];
    buffer_t payload;
    buffer_t error;
    buffer_t texts; // other values that the event borrows
} job_record_t;

// Begins the record of a final failure in the call's queue: sets job, type, reason, and what all such records have. Cuts job and
// type to MAX_JOB_ID and MAX_JOB_TYPE bytes. *record comes as {0}; free it with job_record_free.
void job_record_begin(job_record_t *record, const call_t *call, slice_t job, slice_t type, const char *reason);
// Sets the payload, its digest and size, and the traceparent. Borrows the payload. Call it before job_record_date.
void job_record_add_payload(job_record_t *record, const call_t *call, slice_t payload);
// Makes the event id of an event at `ms`, by any clock; each event of a job has a time of its own. A time that is no date counts
// as 0.
void job_record_date(job_record_t *record, double ms);
void job_record_free(job_record_t *record);
