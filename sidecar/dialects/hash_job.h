// A job whose fields are in a hash, as Bull and BullMQ keep it: its fields, the payload for the audit log, and how to rebuild the
// job from the payload.
//
// The payload is a JSON object with the job's id and the fields that workers need to run the job again, in the order of the
// dialect's table. Missing fields are left out:
//
//     {"id":"17","name":"resize","data":{"image":1},"opts":{"attempts":3},"timestamp":1700000000000,"attemptsMade":3}
//
// A field of HASH_JSON that is valid JSON is copied byte for byte. The id and a field of HASH_TEXT become JSON strings. Other
// bytes are stored in base64 as "data64".
#pragma once

#include "base/buffer.h"
#include "base/slice.h"
#include "redis/conn.h"

struct redisReply;

typedef enum hash_content { HASH_TEXT, HASH_JSON } hash_content_t;

// A field of the table. A value goes to the member `plain` of the payload, and to `coded` in base64. Both are JSON pointers.
typedef struct hash_field {
    const char *plain, *coded;
    hash_content_t content;
} hash_field_t;
#define HASH_FIELD(name, content)                                                                                                \
    { "/" name, "/" name "64", content }

enum { HASH_FIELDS_MAX = 24 };

// The fields of a dialect. Of the first `kept` the payload is made; the others belong to a record only.
typedef struct hash_fields {
    const char *const *names; // `count`, at most HASH_FIELDS_MAX
    const hash_field_t *all;  // the same fields
    size_t count, kept;
    size_t name; // index of the field that each job has
} hash_fields_t;

typedef struct hash_job {
    slice_t id;
    slice_t score;     // in the zset of failures; len 0 = the job is not there, or the reply has no scores
    const char *state; // of its key: "" = a job, "large N" (bytes), "none" = no job, or the type of a key that is no hash
    slice_t fields[HASH_FIELDS_MAX]; // len 0 = missing
} hash_job_t;

// A page of failed_page.lua or bull_stalled.lua: HASH_PAGE_HEAD elements, then for each job its id, its score (`head` is
// HASH_SCORED), its state and its fields (queue/lua/prologue/hash_jobs.lua).
enum { HASH_PAGE_HEAD = 4, HASH_PLAIN = 2, HASH_SCORED = 3 };

// Reads job `index` of a page; borrows from the page. False: the page has fewer jobs.
bool hash_job_at(const hash_fields_t *table, const struct redisReply *page, size_t index, size_t head, hash_job_t *out);
int64_t hash_job_large_bytes(const hash_job_t *job); // N of the state "large N"; 0 in any other state

int64_t hash_job_number(slice_t field); // 0 if the field is missing or not a number from 0 to 2^53

// Whether an option is true for `if (opts.lifo)` in JavaScript. `pointer` is "/lifo".
bool hash_job_option(slice_t opts, const char *pointer);

// Appends to an empty buffer the reason and, below it, the last of the stack traces, a JSON array of strings; at most 64 KiB in
// all.
void hash_job_error(slice_t reason, slice_t stacks, buffer_t *out);

void hash_job_payload(const hash_fields_t *table, const hash_job_t *job, buffer_t *out); // appends the payload of the job

// Reads a payload. Id and fields borrow from the payload, or from *room, which holds decoded values. False: the text is not a
// payload of this table.
bool hash_job_rebuild(const hash_fields_t *table, slice_t payload, hash_job_t *out, buffer_t *room);

// Appends the number of the following arguments, then names and values of the fields that are kept and not missing.
void hash_job_append(conn_t *conn, const hash_fields_t *table, const hash_job_t *job);
