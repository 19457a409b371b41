// A search over the audit log for a request: its filter, in slices, until it has enough, or its time is over.
#pragma once

#include "http/api/api.h"
#include "http/api/questions/cursor.h"
#include "operate/events/event_json.h"

// The viewer who searches: it decides in which text a filter looks.
typedef struct viewer {
    audit_view_t view;
    bool payloads;          // may see payloads
    const config_t *config; // borrowed
} viewer_t;
void viewer_init(viewer_t *viewer, bool payloads, const config_t *config);
bool viewer_sees_all(const viewer_t *viewer);                  // every byte of every payload
bool viewer_sees_queue(const viewer_t *viewer, slice_t queue); // every byte of payloads of the queue

// A payload without its hidden values. The digest of a cut one is not told, or somebody could find the rest by trying.
typedef struct sight {
    slice_t payload; // borrowed from the payload or from the memory of viewer_look
    bool whole;
    bool hidden; // `hide` takes something away: the size tells how much
} sight_t;
// *memory comes empty.
sight_t viewer_look(const viewer_t *viewer, slice_t queue, slice_t payload, buffer_t *memory);

// So much of a payload is in an answer, whatever the rows hold. Where `hide` has pointers, lists read more of it to find the
// values.
enum { HEAD_BYTES = 4096, HIDE_BYTES = 65536, LIST_BYTES_MAX = 4 << 20 };

typedef struct search_job {
    audit_filter_t filter; // borrows texts of the request
    viewer_t viewer;
    char log[48]; // name of the log that has the place
    audit_place_t place;
    int64_t count;  // matches so far
    bool knows_job; // the filter's job was read from the log: it may be a digest that the client must not ask for
} search_job_t;

// Reads the time of a parameter; NULL leaves *ms as it is. False: *answer is the problem.
bool search_read_time(const char *word, const char *name, int64_t *ms, answer_t *answer);
// Reads the filters of failures of `params`, whose rows are those of the table. Texts are borrowed. False: *answer is the
// problem.
bool search_read_filter(const param_t *table, size_t count, const params_t *params, audit_filter_t *filter, answer_t *answer);
// Reads the parameters of the request. False: the problem is the answer.
bool search_begin(request_t *request, search_job_t *search);
// Prepares a slice of it. NULL: the problem is the answer.
audit_t *search_prepare(api_t *api, request_t *request, search_job_t *search);

typedef enum search_step {
    SEARCH_AGAIN,  // another slice is needed
    SEARCH_ENDED,  // at the end of the log, or with `limit` matches, or `take` returned false
    SEARCH_LATE,   // its time is over
    SEARCH_FAILED, // the problem is the answer
} search_step_t;
// Searches for one slice; limit 0 = all. Calls `take` with each match.
search_step_t search_slice(api_t *api, request_t *request, search_job_t *search, int64_t limit, audit_row_fn *take, void *self);

// Appends the members "next", "log" and "searched_to", which end a list.
void search_write_end(api_t *api, const search_job_t *search, search_step_t step, buffer_t *out);

// Appends an event as JSON, with what the client may see of the first `most` bytes of its payload.
void search_write_event(const api_t *api, const request_t *request, const audit_row_t *row, size_t most, buffer_t *out);
