// What the bytes of one job say of it: by the queue's settings (id_path, created_path, type_path), or by what its dialect knows.
#ifndef QS_MODEL_JOB_H
#define QS_MODEL_JOB_H

#include <stdint.h>

#include "base/digest.h"
#include "base/slice.h"
#include "config/config.h"

enum { JOB_ID_MOST = 256, JOB_TYPE_MOST = 256 }; // bytes

typedef enum job_trouble {
    JOB_FINE,
    JOB_UNREADABLE, // it is no job of this dialect: nothing says where it would go back to
    JOB_FOREIGN,    // it names a key that is not configured
} job_trouble_t;

typedef struct job {
    digest_t digest;          // of its bytes
    char id[JOB_ID_MOST + 1]; // id_path: a string or a number as it stands; else the 64 hex digits of the digest. No NUL inside
    char type[JOB_TYPE_MOST + 1]; // type_path, in the same way; "" = unknown
    int64_t created_ms;           // since 1970; 0 = unknown. created_path: a number above 0, at most of the year 9999
    int64_t executed_ms;          // when this execution began, since 1970; 0 = its bytes do not say
    int64_t told_retries;         // that its bytes count; -1 = they do not, and the stamp does
    job_trouble_t trouble;
    size_t target; // which of the queue's ready lists it goes back to; 0 where there is one
} job_t;

// By the settings; what they do not tell of is as "unknown" above, and no job is in trouble. What cannot be read is taken as not
// given: a text that is no JSON (or larger than base/json looks at), a value of another type,
// empty, too long, with a NUL inside, or with half of a surrogate pair.
void job_read(const queue_policy_t *policy, slice_t bytes, job_t *out);

// The heartbeat key of a job, from the pattern in which * stands for the id. Owned; NULL when the pattern is "off".
char *job_heartbeat_key(const queue_policy_t *policy, const char *id);

#endif
