// An operator makes delayed jobs due now, or ends them. Everything happens in the caller's thread, and nothing is printed.
//
// First a plan: the jobs that are wanted, by the digest of their bytes, and their scores. Then the jobs are read again, and each
// one that is planned gets one request. So a job that came later is left alone, and a job that was promoted or scheduled anew
// meanwhile is reported and left alone.
#pragma once

#include "operate/jobs/jobs.h"

// X(name, word in JSON, whether the command then fails, text for people)
#define JOBS_RESULT_LIST(X)                                                                                                      \
    X(DONE, "done", false, "")                                                                                                   \
    X(WOULD, "would", false, "")                                                                                                 \
    X(DUE, "due", false, "was due before: it waits for the leader, or for room in the ready list")                               \
    X(GONE, "gone", true, "is no longer delayed: it was promoted, or ended by somebody else; nothing was done to it")            \
    X(CHANGED, "changed", true, "was scheduled anew meanwhile; nothing was done to it: look at it again")                        \
    X(NOT_FOUND, "not_found", true, "names no delayed job, see `jobs list`")                                                     \
    X(AMBIGUOUS, "ambiguous", true, "names several delayed jobs: name one by its sha256, or use --where")                        \
    X(LARGE, "large", true, "is larger than max_payload, and is left alone")                                                     \
    X(FULL, "full", true, "cannot be recorded, because the failure stream is full: nothing was done to it")                      \
    X(REFUSED, "refused", true, "refused by Redis")                                                                              \
    X(UNKNOWN, "unknown", true, "the connection to Redis broke before its reply: it may be done")
typedef enum jobs_result {
#define X(name, word, fails, text) JOBS_RESULT_##name,
    JOBS_RESULT_LIST(X)
#undef X
        JOBS_RESULT_COUNT
} jobs_result_t;

extern const struct jobs_word {
    const char *word, *text;
    bool fails;
} jobs_words[JOBS_RESULT_COUNT];

// A job that a result is about. Texts are copies.
typedef struct jobs_target {
    char job[MAX_JOB_ID + 1];     // its id, or what the operator typed
    char sha256[DIGEST_HEX_SIZE]; // "" = unknown
    char ref[EVENT_REF_SIZE];     // of the record of a cancelled job; "" = none
    int64_t due;
} jobs_target_t;

typedef struct jobs_caller {
    void *self;
    // Waits so long, or until the run is to stop. True: it is to stop, now and ever after.
    bool (*wait)(void *self, int64_t ns);
    // `detail` may be "".
    void (*result)(void *self, const jobs_target_t *target, jobs_result_t result, const char *detail);
} jobs_caller_t;

typedef struct jobs_planned {
    digest_t digest;
    double score;
    size_t id; // index of the operand that names it
    bool tried;
} jobs_planned_t;

typedef struct jobs_action {
    // Borrowed. `conn` is open, and leads to the server of the queue.
    conn_t *conn;
    const keyspace_t *keys;
    size_t queue;
    bool cancel; // else: due now
    bool dry_run;
    jobs_query_t query;     // the filter; jobs_plan sets state and `whole`
    const char *const *ids; // ids, or sha256 of at least MIN_DIGEST digits; none = all that match
    size_t id_count;
    int64_t limit;      // 0 = none
    int64_t per_minute; // 0 = no limit
    const char *by, *because;
    jobs_caller_t caller;
    // Made by jobs_plan.
    jobs_planned_t *plan; // owned
    size_t planned;
    int64_t first_due, last_due;
    int64_t of[JOBS_RESULT_COUNT];
} jobs_action_t;

enum { JOBS_MIN_DIGEST = 12 };

// Whether the queue's dialect allows changes. False with *why.
bool jobs_may_change(const queue_config_t *queue, buffer_t *why);

// Chooses the jobs. Reports operands that name none or several. True: the caller has stopped it; `error` says the rest.
bool jobs_plan(jobs_action_t *action, redis_error_t *error);

typedef enum jobs_end {
    JOBS_ENDED,   // all jobs of the plan were tried
    JOBS_STOPPED, // by the caller
    JOBS_BROKEN,  // by *error: no more requests make sense
} jobs_end_t;

// Carries the plan out; in a dry run only reports it.
jobs_end_t jobs_carry_out(jobs_action_t *action, redis_error_t *error);
void jobs_action_free(jobs_action_t *action);

bool jobs_has_failed(const jobs_action_t *action);
// Appends one result as a JSON object, and `"done":2,"would":0,...`: the number of jobs with each result.
void jobs_write_result(buffer_t *out, const jobs_action_t *action, const jobs_target_t *target, jobs_result_t result,
                       const char *detail);
void jobs_write_counts(buffer_t *out, const jobs_action_t *action);
