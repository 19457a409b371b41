// The state of the reader, and the interface between its files.
#pragma once

#include "dialects/failed/events.h"
#include "dialects/failed/failed.h"

enum { FAILED_NUMBER_SIZE = 32 }; // of the text of a number

// A read of `failed`: one page, or several.
typedef struct failed_read {
    bool started;                  // a page has come, the last one has not
    bool full_range;               // covers OVERLAP_MS
    mono_t began;                  // when it began
    int64_t began_ms;              // the same by Redis's clock; 0 = its first page has not come
    char from[FAILED_NUMBER_SIZE]; // score at which the next page begins
    int64_t skip;                  // entries of that score that were read
    int64_t recorded;              // failures that this read has recorded
} failed_read_t;

struct failed {
    const queue_keys_t *at;
    failed_source_t source;
    failed_read_t read;
    bool changed;          // `failed` may have changed since the last read began
    bool full_range_due;   // `failed` may have changed since the last full-range read began
    bool mark_known;       // the mark (failed_ask_mark) was read, or deleted, in this term
    int64_t full_range_ms; // by Redis's clock: when the last full-range read began
    int64_t near_ms;       // by Redis's clock: when the last read of any kind began
    mono_t pause_until;    // when the next read may begin
    mono_t full_range_at;  // when the next full-range read begins
    bool full;             // the stream was full; wait for pause_until
    bool messages_turn;    // the next step handles messages, even if a read is due
    failed_messages_t messages;
    failed_doubt_t doubt; // failed_forget keeps it
    failed_events_t events;
};

// Whether a member of the zset is the job.
static inline bool failed_is_job(const failed_t *s) { return !s->source.layout->fields; }

// A record that was sent to Redis.
typedef struct failed_sent {
    job_record_t record; // until the reply is read
    slice_t id;
    const failed_message_t *message; // the message that led to the record; NULL = the failure was found in `failed`
    bool kept;                       // the job was in `failed`
    bool gone;                       // the job has left `failed` since; its message is handled again
} failed_sent_t;

// Sends the record of a failure. `message` is the one that led to it; NULL = it was found in the zset. A job without a score was
// removed by the workers: then the message tells when it failed, or `now` is taken.
void failed_send_record(const failed_t *s, const side_task_call_t *call, const hash_job_t *job, const failed_message_t *message,
                        int64_t now, failed_sent_t *sent);
// Reads the replies, and frees the records. Sets s->full if the stream took no record. Returns the number of records.
int64_t failed_read_records(failed_t *s, side_task_call_t *call, failed_sent_t *sent, size_t count);
