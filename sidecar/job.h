// What a queue's settings (id_path, created_path, type_path) say of one job, from its bytes.
#ifndef QS_JOB_H
#define QS_JOB_H

#include <stdint.h>

#include "base/digest.h"
#include "base/json.h"
#include "base/slice.h"
#include "config.h"

enum { JOB_ID_MOST = 256, JOB_TYPE_MOST = 256 }; // bytes

typedef struct job {
    digest_t digest;          // of its bytes
    char id[JOB_ID_MOST + 1]; // id_path: a string or a number as it stands; else the 64 hex digits of the digest. No NUL inside
    char type[JOB_TYPE_MOST + 1]; // type_path, in the same way; "" = unknown
    int64_t created_ms;           // since 1970; 0 = unknown. created_path: a number above 0, at most of the year 9999
} job_t;

// What cannot be read is taken as not given: a text that is no JSON (or larger than base/json looks at), a value of another type,
// empty, too long, with a NUL inside, or with half of a surrogate pair.
void job_read(json_t *json, const queue_policy_t *policy, slice_t bytes, job_t *out);

// The heartbeat key of a job, from the pattern in which * stands for the id. Owned; NULL when the pattern is "off".
char *job_heartbeat_key(const queue_policy_t *policy, const char *id);

#endif
