// The jobs of a queue for people: reads pages of a zset or list, makes a delayed job due now, and ends a delayed job.
#pragma once

#include "base/buffer.h"
#include "base/digest.h"
#include "model/event.h"
#include "queue/call.h"

struct redisReply;

enum { JOBS_TEXTS_MAX = 100, JOBS_FIELDS_MAX = 16, JOBS_PLACE_SIZE = 41 };

// The place and length of a page. Borrowed.
typedef struct jobs_range {
    const char *key;
    bool zset;                 // else a list
    bool from_head;            // of a list: the entry at its head is the first one; else the entry at its tail
    const char *hash;          // hash: entry -> payload; NULL = none
    slice_t prefix;            // of hashes that the entries name; len 0 = none
    const char *const *fields; // of these hashes, first the payload
    size_t field_count;
    int64_t count;            // most jobs
    int64_t examine;          // most entries to read
    int64_t most;             // bytes of the reply
    int64_t whole;            // bytes of the largest value that the reply has whole
    int64_t head;             // bytes of a larger one in the reply
    int64_t longest;          // bytes of the last entry that the place of the page keeps
    double least;             // scores of a zset: from this one on,
    double below;             // and below this one; INFINITY = all
    const char *const *texts; // a job must have one of them; none = all jobs
    size_t text_count;
} jobs_range_t;

// The last entry that a page has read. A page goes on behind it, also when entries before it have gone.
typedef struct jobs_place {
    int64_t place; // from the lowest score, or from the first end of the list; -1 = no page was read
    double score;
    int64_t size;
    char id[JOBS_PLACE_SIZE]; // SHA-1 of its beginning
    buffer_t bytes;           // its beginning, or all of it; owned
} jobs_place_t;

// A job of a page. Borrowed from the page.
typedef struct jobs_entry {
    double score;
    int64_t size;                        // bytes of the payload
    bool cut;                            // the payload is cut
    slice_t values[1 + JOBS_FIELDS_MAX]; // the entry, and its payload or fields
} jobs_entry_t;

typedef struct jobs_page {
    struct redisReply *reply; // owned
    size_t values;            // of each entry
    size_t count;
    int64_t now_ms;
    int64_t examined; // entries that the script has read
    bool ended;       // the key has no more
    bool missing;     // the list changed so much since the page before that this page may have missed jobs
} jobs_page_t;

// Appends a request for the page behind *place.
void jobs_page_append(const call_t *call, const jobs_range_t *range, const jobs_place_t *place);
// Reads the page and sets *place. Free the page with jobs_page_free in any case.
outcome_t jobs_page_read(const call_t *call, const jobs_range_t *range, jobs_place_t *place, jobs_page_t *page);
void jobs_page_entry(const jobs_page_t *page, size_t index, jobs_entry_t *out);
void jobs_page_free(jobs_page_t *page);

// Both append one request, which does its change as a whole or not at all.
void jobs_run_append(const call_t *call, slice_t job, double score);
typedef struct jobs_cancel {
    slice_t job;
    double score;           // that the decision rests on
    const digest_t *digest; // of the job
    slice_t stamp;          // that was read; len 0 = none
    bool ends_stamp;        // the job was retried, and the stamp is its own
    const event_t *record;  // without payload
} jobs_cancel_t;
void jobs_cancel_append(const call_t *call, const jobs_cancel_t *ask);

typedef enum jobs_change {
    JOBS_DONE,
    JOBS_DUE,     // it was due before; nothing was done
    JOBS_GONE,    // no longer delayed; nothing was done
    JOBS_CHANGED, // its due time or its stamp has changed; nothing was done
    JOBS_FULL,    // the failure stream takes no record; nothing was done
} jobs_change_t;

// Reads the reply to one request.
outcome_t jobs_change_read(const call_t *call, jobs_change_t *out);
