// A job of BullMQ 5 and 6: the fields of its hash (dialects/hash_job.h), and its record.
#pragma once

#include "dialects/bull_queue.h"
#include "dialects/hash_job.h"
#include "dialects/job_record.h"

// Fields of the hash, as BullMQ calls them (src/commands/includes/storeJob.lua, prepareJobForProcessing.lua and
// src/classes/job.ts, 5.81.5 and 6.7.0): X(ID, name, content). `atm` counts failed attempts and `ats` starts, `stc` stalls.
// Fields before PROCESSED_ON make the payload.
#define BULLMQ_FIELD_LIST(X)                                                                                                     \
    X(NAME, "name", HASH_TEXT)                                                                                                   \
    X(DATA, "data", HASH_JSON)                                                                                                   \
    X(OPTS, "opts", HASH_JSON)                                                                                                   \
    X(TIMESTAMP, "timestamp", HASH_JSON)                                                                                         \
    X(DELAY, "delay", HASH_JSON)                                                                                                 \
    X(PRIORITY, "priority", HASH_JSON)                                                                                           \
    X(ATTEMPTS_MADE, "atm", HASH_JSON)                                                                                           \
    X(ATTEMPTS_STARTED, "ats", HASH_JSON)                                                                                        \
    X(STALLED_COUNTER, "stc", HASH_JSON)                                                                                         \
    X(PROGRESS, "progress", HASH_JSON)                                                                                           \
    X(RETURNVALUE, "returnvalue", HASH_JSON)                                                                                     \
    X(STACKTRACE, "stacktrace", HASH_JSON)                                                                                       \
    X(DEID, "deid", HASH_TEXT)                                                                                                   \
    X(REPEAT_KEY, "rjk", HASH_TEXT)                                                                                              \
    X(PARENT_KEY, "parentKey", HASH_TEXT)                                                                                        \
    X(PARENT, "parent", HASH_JSON)                                                                                               \
    X(PROCESSED_ON, "processedOn", HASH_JSON)                                                                                    \
    X(PROCESSED_BY, "pb", HASH_TEXT)                                                                                             \
    X(FAILED_REASON, "failedReason", HASH_TEXT)
typedef enum bullmq_field {
#define X(id, name, content) BULLMQ_##id,
    BULLMQ_FIELD_LIST(X)
#undef X
        BULLMQ_FIELDS
} bullmq_field_t;
enum { BULLMQ_KEPT_FIELDS = BULLMQ_PROCESSED_ON };

typedef hash_job_t bullmq_job_t;
extern const hash_fields_t bullmq_fields;

// Makes the record of a final failure, without an event id. *record comes as {0}. Free it with job_record_free.
void bullmq_record_make(job_record_t *record, const call_t *call, const bullmq_job_t *job, const char *reason);
