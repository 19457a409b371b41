// A job of Bull 4: the fields of its hash, the payload for the audit log, and how to rebuild the job from it.
//
// The payload is a JSON object with the job's id and the fields that Bull needs to run it again, in the order of the list below.
// Missing fields are left out:
//
//     {"id":"17","name":"resize","data":{"image":1},"opts":{"attempts":3},"timestamp":1700000000000,"attemptsMade":3}
//
// A field that is valid JSON is copied byte for byte; of Bull's fields only name and deid are text, and become JSON strings like
// the id. Other bytes, as `preventParsingData` allows, are stored in base64 as "data64".
#pragma once

#include "base/buffer.h"
#include "base/slice.h"
#include "config/config.h"
#include "model/event.h"
#include "model/job.h"
#include "queue/call.h"
#include "redis/error.h"

struct redisReply;

// Fields of the hash, as Bull calls them (OptimalBits/bull 4.16, lib/job.js and lib/commands): X(ID, name, content). Fields
// before PROCESSED_ON make the payload.
#define BULL_FIELD_LIST(X)                                                                                                       \
    X(NAME, "name", BULL_TEXT)                                                                                                   \
    X(DATA, "data", BULL_JSON)                                                                                                   \
    X(OPTS, "opts", BULL_JSON)                                                                                                   \
    X(TIMESTAMP, "timestamp", BULL_JSON)                                                                                         \
    X(DELAY, "delay", BULL_JSON)                                                                                                 \
    X(PRIORITY, "priority", BULL_JSON)                                                                                           \
    X(ATTEMPTS_MADE, "attemptsMade", BULL_JSON)                                                                                  \
    X(STALLED_COUNTER, "stalledCounter", BULL_JSON)                                                                              \
    X(PROGRESS, "progress", BULL_JSON)                                                                                           \
    X(RETURNVALUE, "returnvalue", BULL_JSON)                                                                                     \
    X(STACKTRACE, "stacktrace", BULL_JSON)                                                                                       \
    X(DEID, "deid", BULL_TEXT)                                                                                                   \
    X(PROCESSED_ON, "processedOn", BULL_JSON)                                                                                    \
    X(FAILED_REASON, "failedReason", BULL_TEXT)
typedef enum bull_field {
#define X(id, name, content) BULL_##id,
    BULL_FIELD_LIST(X)
#undef X
        BULL_FIELDS
} bull_field_t;
enum { BULL_KEPT_FIELDS = BULL_PROCESSED_ON };

extern const char *const bull_field_names[BULL_FIELDS];

// Texts that Bull writes for a job that stalled too often: failedReason, and the message on the channel `failed`
// (lib/commands/moveStalledJobsToWait-7.lua).
#define BULL_STALLED_REASON  "job stalled more than allowable limit"
#define BULL_STALLED_MESSAGE "job stalled more than maxStalledCount"

typedef struct bull_job {
    slice_t id;
    slice_t score;     // in `failed`; len 0 = the job is not in `failed`, or the reply has no scores
    const char *state; // of its key: "" = a job, "large N" (bytes), "none" = no job, or the type of a key that is no hash
    slice_t fields[BULL_FIELDS]; // len 0 = missing
} bull_job_t;

// A field as a number; 0 if it is missing or not from 0 to 2^53.
int64_t bull_number(const bull_job_t *job, bull_field_t field);

void bull_payload(const bull_job_t *job, buffer_t *out); // appends the payload of the job

// Reads a payload. Id and fields borrow from the payload, or from *room, which holds decoded values. False: the text is not a
// payload of the sidecar.
bool bull_rebuild(slice_t payload, bull_job_t *out, buffer_t *room);

bool bull_is_lifo(const bull_job_t *job); // workers take the job before all waiting jobs (opts.lifo)

// Reads job `index` of a page of bull_stalled.lua or bull_failed.lua: BULL_PAGE_HEAD elements, then for each job its id, its
// score (`head` is BULL_SCORED), its state and its fields. Borrows from the page. False: the page has fewer jobs.
enum { BULL_PAGE_HEAD = 4, BULL_PLAIN = 2, BULL_SCORED = 3 };
bool bull_job_at(const struct redisReply *page, size_t index, size_t head, bull_job_t *out);
// Whether the reply of a script begins with one of these words. If not, sets *error to OUTCOME_REFUSED.
bool bull_reply_begins(const struct redisReply *reply, const char *word, const char *other, redis_error_t *error);
int64_t bull_attempts(const bull_job_t *job);    // executions: attempts plus stalls
int64_t bull_large_bytes(const bull_job_t *job); // N of the state "large N"; 0 in any other state

// Appends to an empty buffer failedReason and, below it, the last stack trace; at most 64 KiB in all.
void bull_error(const bull_job_t *job, buffer_t *out);

// The record of one event of a job.
typedef struct bull_record {
    event_t event; // borrows from the job and the fields below; job and type are cut to MAX_JOB_ID and MAX_JOB_TYPE bytes
    char id[EVENT_ID_SIZE];
    char sha256[DIGEST_HEX_SIZE];
    buffer_t payload;
    buffer_t error;
} bull_record_t;

// Makes the record of a final failure, without an event id. *record comes as {0}. Free it with bull_record_free.
void bull_record_make(bull_record_t *record, const call_t *call, const bull_job_t *job, const char *reason);
// Makes the event id of a failure at `finished_ms`, by the clock of the worker or Redis server that decided it.
void bull_record_date(bull_record_t *record, double finished_ms);
void bull_record_free(bull_record_t *record);
