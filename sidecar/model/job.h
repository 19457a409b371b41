// The id, type and times of a job, read from its bytes by the queue's settings (id_path, created_path, type_path) or by its
// dialect.
#pragma once

#include "base/digest.h"
#include "base/slice.h"
#include "config/config.h"

enum { MAX_JOB_ID = 256, MAX_JOB_TYPE = 256 }; // bytes

typedef enum job_trouble {
    JOB_FINE,
    JOB_UNREADABLE, // not a job of this dialect, so there is no list to return it to
    JOB_FOREIGN,    // names a ready list that is not configured
} job_trouble_t;

typedef struct job {
    digest_t digest;             // of its bytes
    char id[MAX_JOB_ID + 1];     // the string or number at id_path; else the 64 hex digits of the digest. No NUL inside
    char type[MAX_JOB_TYPE + 1]; // the string or number at type_path; "" = unknown
    int64_t created_ms;          // since 1970; 0 = unknown. From created_path: March 1973 to the year 9999
    int64_t executed_ms;         // when this execution began, since 1970; 0 = unknown
    int64_t retries_in_job;      // retries as the job's bytes count them; -1 = the stamp counts them
    job_trouble_t trouble;
    size_t target; // index of the ready list that the job returns to
} job_t;

// Reads a job by the settings; trouble is always JOB_FINE. A field stays unknown if the bytes are no JSON within the bounds of
// json_find, or its value has another type, is empty or too long, or holds a NUL or half of a surrogate pair.
void job_read(const queue_policy_t *policy, slice_t bytes, job_t *out);

// Returns the W3C traceparent at trace_path of the payload, borrowed from it. len 0: there is none of version 00 in the bounds of
// json_find.
slice_t job_traceparent(const queue_policy_t *policy, slice_t payload);

// Returns the heartbeat key of a job (owned): the pattern with the id in place of *. NULL: the pattern is "off".
char *job_heartbeat_key(const queue_policy_t *policy, const char *id);
