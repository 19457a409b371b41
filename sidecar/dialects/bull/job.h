// A job of Bull 4: the fields of its hash (dialects/hash_job.h), and its record.
//
// In a payload only name and deid are text; the other fields are JSON. Data that is no JSON, as `preventParsingData` allows, is
// stored in base64 as "data64".
#pragma once

#include "dialects/bull_queue.h"
#include "dialects/hash_job.h"
#include "dialects/job_record.h"

// Fields of the hash, as Bull calls them (OptimalBits/bull 4.16, lib/job.js and lib/commands): X(ID, name, content). Fields
// before PROCESSED_ON make the payload.
#define BULL_FIELD_LIST(X)                                                                                                       \
    X(NAME, "name", HASH_TEXT)                                                                                                   \
    X(DATA, "data", HASH_JSON)                                                                                                   \
    X(OPTS, "opts", HASH_JSON)                                                                                                   \
    X(TIMESTAMP, "timestamp", HASH_JSON)                                                                                         \
    X(DELAY, "delay", HASH_JSON)                                                                                                 \
    X(PRIORITY, "priority", HASH_JSON)                                                                                           \
    X(ATTEMPTS_MADE, "attemptsMade", HASH_JSON)                                                                                  \
    X(STALLED_COUNTER, "stalledCounter", HASH_JSON)                                                                              \
    X(PROGRESS, "progress", HASH_JSON)                                                                                           \
    X(RETURNVALUE, "returnvalue", HASH_JSON)                                                                                     \
    X(STACKTRACE, "stacktrace", HASH_JSON)                                                                                       \
    X(DEID, "deid", HASH_TEXT)                                                                                                   \
    X(PROCESSED_ON, "processedOn", HASH_JSON)                                                                                    \
    X(FAILED_REASON, "failedReason", HASH_TEXT)
typedef enum bull_field {
#define X(id, name, content) BULL_##id,
    BULL_FIELD_LIST(X)
#undef X
        BULL_FIELDS
} bull_field_t;
enum { BULL_KEPT_FIELDS = BULL_PROCESSED_ON };

extern const char *const bull_field_names[BULL_FIELDS];

// The message on the channel `failed` of a job that stalled too often (lib/commands/moveStalledJobsToWait-7.lua).
#define BULL_STALLED_MESSAGE "job stalled more than maxStalledCount"

typedef hash_job_t bull_job_t;
extern const hash_fields_t bull_fields;

// A field as a number; 0 if it is missing or not from 0 to 2^53.
static inline int64_t bull_number(const bull_job_t *job, bull_field_t field) { return hash_job_number(job->fields[field]); }
static inline void bull_payload(const bull_job_t *job, buffer_t *out) { hash_job_payload(&bull_fields, job, out); }
static inline bool bull_rebuild(slice_t payload, bull_job_t *out, buffer_t *room) {
    return hash_job_rebuild(&bull_fields, payload, out, room);
}
// Workers take the job before all waiting jobs.
static inline bool bull_is_lifo(const bull_job_t *job) { return hash_job_option(job->fields[BULL_OPTS], "/lifo"); }

int64_t bull_attempts(const bull_job_t *job); // executions: attempts plus stalls

// Appends to an empty buffer failedReason and, below it, the last stack trace; at most 64 KiB in all.
void bull_error(const bull_job_t *job, buffer_t *out);

// Makes the record of a final failure, without an event id. *record comes as {0}. Free it with job_record_free.
void bull_record_make(job_record_t *record, const call_t *call, const bull_job_t *job, const char *reason);
