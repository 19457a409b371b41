// The reader of failures that workers decided. It is a side task of dialects whose workers keep failed jobs in a zset by the time
// of their failure. It copies each failure once to the failure stream, and changes no key of the workers. README.md says how a
// dialect uses it.
#pragma once

#include "base/condition.h"
#include "dialects/dialect.h"
#include "dialects/failed/messages.h"
#include "dialects/failed/scripts.h"
#include "dialects/hash_job.h"
#include "dialects/job_record.h"

// Whether the record of a job that is gone may rest on its message alone.
typedef struct failed_doubt {
    condition_t why; // holds: it may not
    mono_t until;    // not before this the condition ends
} failed_doubt_t;

// A stream in which workers tell of all events of jobs. Read once a second, for the sake of failures of jobs that workers removed
// at once. The place up to which it was read is in the field `failed_cursor` of the queue's meta hash; the first read begins at
// the end.
enum { FAILED_STREAM_TELLS = 4 };
typedef struct failed_stream {
    const char *job, *error;                   // names of fields: the id of the job, and the error
    const char *tells[FAILED_STREAM_TELLS][2]; // names and values that the entry of a final failure has
} failed_stream_t;

// How a family of workers keeps failed jobs.
typedef struct failed_layout {
    int64_t unit_ms;             // of the scores: 1 = they are ms, 1000 = they are seconds
    const hash_fields_t *fields; // a member is the id of a job, and these are the fields of its hash; NULL = a member is the job
    size_t error;                // of these the index that takes the error of a message
    // Makes the record of a failure, without event id and size: job_record_begin, then what the job says. *record comes as {0}.
    // If a member is the job, fields[0] has its bytes (len 0 = it is large), and the id is its SHA-1 in hex.
    void (*record)(job_record_t *record, const call_t *call, const hash_job_t *job);
    // Updates the doubt about messages. NULL: there is never a doubt.
    outcome_t (*look)(failed_doubt_t *doubt, const side_task_call_t *call);
    const failed_stream_t *stream; // NULL = there is none
    int64_t keeps;                 // the workers keep so many failures and drop the oldest; 0 = all
} failed_layout_t;

// The keys that the reader reads in one queue. The reader owns the texts.
typedef struct failed_source {
    const failed_layout_t *layout;
    char *key;    // zset of failures, by the workers' clocks
    char *prefix; // of the key of a job's hash; the id follows; NULL = a member is the job
    char *events; // stream of the layout; NULL = do not read it
    bool records; // false: failures from now on count as recorded
} failed_source_t;

typedef struct failed failed_t;

// The members of a side_task_ops_t. Its `open` calls failed_open; `channels` and `on_message` are the dialect's own.
#define FAILED_TASK .close = failed_close, .forget = failed_forget, .watched_keys = failed_names, .step = failed_step
failed_t *failed_open(const queue_keys_t *at, failed_source_t source);
void failed_close(void *state);
void failed_forget(void *state);
size_t failed_names(const void *state, const char **out); // the key of the zset, if failures are recorded
outcome_t failed_step(void *state, side_task_call_t *call);

failed_messages_t *failed_messages(failed_t *state); // for on_message
const char *failed_queue(const failed_t *state);     // its name

// For dialect_ops_t.rights.
#define FAILED_RIGHTS                                                                                                            \
    {RIGHT_SCRIPT(failed_seen)}, {RIGHT_SCRIPT(failed_page)}, { RIGHT_SCRIPT(failed_record) }
