// A job of Bull 4: the fields of its hash, the payload that the audit log keeps of them, and the way back.
//
// The payload is a JSON object with the job's id and the fields that Bull needs to run it again, in the order of the list below;
// a field that the hash lacks is left out:
//
//     {"id":"17","name":"resize","data":{"image":1},"opts":{"attempts":3},"timestamp":1700000000000,"attemptsMade":3}
//
// A field that is JSON itself (all of Bull's own are, but for name and deid) stands in it byte for byte; one that is not, as
// `preventParsingData` may leave it, stands there in base64 as "data64". An id or a name is a JSON string.
#ifndef QS_DIALECTS_BULL_JOB_H
#define QS_DIALECTS_BULL_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"
#include "config/config.h"
#include "model/event.h"
#include "model/job.h"

// Fields of the hash, as Bull calls them (OptimalBits/bull 4.16, lib/job.js and lib/commands): X(ID, name, what it holds). Those
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
#define X(id, name, holds) BULL_##id,
    BULL_FIELD_LIST(X)
#undef X
        BULL_FIELDS
} bull_field_t;
enum { BULL_KEPT_FIELDS = BULL_PROCESSED_ON };

extern const char *const bull_field_names[BULL_FIELDS];

// What Bull itself writes as failedReason of a job that stalled too often, and what it says of it in the channel `failed`
// (lib/commands/moveStalledJobsToWait-7.lua).
#define BULL_STALLED_REASON  "job stalled more than allowable limit"
#define BULL_STALLED_MESSAGE "job stalled more than maxStalledCount"

typedef struct bull_job {
    slice_t id;
    slice_t fields[BULL_FIELDS]; // len 0 = it lacks it
} bull_job_t;

// A number of its fields (BULL_TIMESTAMP, BULL_ATTEMPTS_MADE, ...); 0 where there is none, or none of 0 to 2^53.
int64_t bull_number(const bull_job_t *job, bull_field_t field);

// Appends the payload.
void bull_payload(const bull_job_t *job, buffer_t *out);

// Back: id and fields borrow from the payload, or from *room, which holds what had to be decoded. False: it is no payload of
// ours.
bool bull_rebuild(slice_t payload, bull_job_t *out, buffer_t *room);

// Whether the worker takes the job next (opts.lifo).
bool bull_is_lifo(const bull_job_t *job);

// Appends what to tell of its failure: failedReason, and in the lines below the stack of the last one, in all at most 64 KiB.
void bull_error(const bull_job_t *job, buffer_t *out);

// The record of one event in the life of a job, in memory of its own. Begin with {0}, use again, end with bull_record_free.
typedef struct bull_record {
    event_t event; // borrows from the job, and from what follows; job and type are at most JOB_ID_MOST and JOB_TYPE_MOST bytes
    char id[EVENT_ID_SIZE];
    char sha256[DIGEST_HEX_SIZE];
    buffer_t payload;
    buffer_t error;
} bull_record_t;

// Makes the record of a final failure at `finished_ms` by the clock that decided it. Executions are the attempts that Bull
// counted and the stalls. `kept` false: its payload is not known; `size` is how large it is then, 0 = unknown.
void bull_record_make(bull_record_t *record, const queue_config_t *queue, const bull_job_t *job, const char *reason,
                      const char *term, double finished_ms, bool kept, int64_t size);
void bull_record_free(bull_record_t *record);

#endif
