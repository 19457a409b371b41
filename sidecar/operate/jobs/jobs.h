// The jobs of a queue by state: pages of them, and what an operator may do with delayed ones.
//
// Nothing here prints, and nothing keeps state in a file or in Redis. Each request to Redis is bounded: a reader asks for pages,
// and the caller may stop between two of them.
#pragma once

#include "base/clock.h"
#include "dialects/dialect.h"
#include "operate/events/records.h"

#define JOBS_STATES "delayed ready in-progress" // in the order of jobs_state_t

enum {
    JOBS_HEAD_BYTES = 4096,  // of a payload that an item shows
    JOBS_SORTED_MAX = 10000, // most jobs in progress that are sorted
};

typedef struct jobs_query {
    jobs_state_t state;
    const char *const *texts; // a job must have one of them in its payload or id; none = all jobs; at most JOBS_TEXTS_MAX
    size_t text_count;
    const char *type;           // NULL = any
    int64_t since_ms, until_ms; // delayed jobs: due at or after, and before; 0 = any
    bool whole;                 // read payloads up to max_payload whole
} jobs_query_t;

// A job. Texts are borrowed, and last for the call.
typedef struct jobs_item {
    slice_t queue, state;
    slice_t job; // its id; "" = unknown, because the payload is cut
    slice_t type;
    slice_t worker;  // whose list has it, if each worker has one
    slice_t key;     // the zset or list that has it
    int64_t due;     // of a delayed job; 0 = unknown, or before 1970; INT64_MAX = never
    int64_t since;   // of a job in progress: when this execution began or was first seen; 0 = unknown
    int64_t created; // 0 = unknown
    int64_t retries; // so far; -1 = unknown
    int64_t size;    // bytes of the payload
    slice_t sha256;  // of the payload; "" = unknown, because it is cut
    slice_t payload; // its head
    bool payload_is_text, payload_cut;
    // For a change.
    slice_t entry; // as Redis has it
    bool entry_cut;
    double score;
    const digest_t *digest;
    const stamp_t *stamp;
    slice_t stamp_bytes;
} jobs_item_t;

enum { JOBS_FIELDS = 15 };
extern const field_t jobs_fields[JOBS_FIELDS]; // of a jobs_item_t, for `jobs list -o json` and the API

// Returns whether to go on. After a false only the rest of the page comes, so that a cursor leaves out no job.
typedef bool jobs_item_fn(void *self, const jobs_item_t *item);

typedef struct jobs_reader jobs_reader_t;

// Begins, or goes on at a cursor of jobs_cursor. Keys and query are borrowed. Owned; NULL = the cursor is malformed.
jobs_reader_t *jobs_open(const keyspace_t *keys, size_t queue, const jobs_query_t *query, const char *cursor);
void jobs_close(jobs_reader_t *reader); // NULL is fine
// Whether queues of this kind have jobs of the state at all.
bool jobs_has_state(const jobs_reader_t *reader);

// Makes one request, for at most `most` jobs, and one more for their stamps. It may find none before the end.
outcome_t jobs_step(jobs_reader_t *reader, conn_t *conn, int64_t most, jobs_item_fn *fn, void *self, redis_error_t *error);
// Makes steps until `most` jobs are found (0 = all), there are no more, fn has stopped it, or the deadline has passed.
outcome_t jobs_read(jobs_reader_t *reader, conn_t *conn, int64_t most, mono_t deadline, jobs_item_fn *fn, void *self,
                    redis_error_t *error);
// Reads all jobs in progress and gives those first that run for longest, then those that no sidecar has seen yet. What follows
// JOBS_SORTED_MAX jobs comes as it is in the list.
outcome_t jobs_read_oldest(jobs_reader_t *reader, conn_t *conn, jobs_item_fn *fn, void *self, redis_error_t *error);
void jobs_rewind(jobs_reader_t *reader); // begins again

bool jobs_ended(const jobs_reader_t *reader);   // all jobs were read
bool jobs_rotated(const jobs_reader_t *reader); // a list that scans rotate has moved while it was read
bool jobs_missing(const jobs_reader_t *reader); // a list changed so much while it was read that jobs may be missing
// Whether the reader still skips the jobs that stood before its cursor, where it cannot begin at once.
bool jobs_is_behind(const jobs_reader_t *reader);
// Appends where a later reader of the same queue and state may go on, as text without spaces. It holds no bytes of a job.
void jobs_cursor(const jobs_reader_t *reader, buffer_t *out);
