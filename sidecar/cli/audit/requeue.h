// Inside `audit requeue` and `audit discard`: arguments, selection of failures, the run, and the report.
#pragma once

#include "cli/audit/audit.h"
#include "cli/terminal.h"
#include "dialects/requeue.h"
#include "queue/keys.h"

// X(name, word in JSON, whether the command then fails, text for people). Since a requeue is recorded or refused as a whole, no
// failure is UNRECORDED; the summary in JSON keeps the word.
#define RESULT_LIST(X)                                                                                                           \
    X(DONE, "done", false, "")                                                                                                   \
    X(WOULD, "would", false, "")                                                                                                 \
    X(ANSWERED, "answered", false, "was answered before")                                                                        \
    X(EARLIER, "earlier", false, "has a later failure of the same job: put that one back")                                       \
    X(UNRECORDED, "unrecorded", true, "put back, but not recorded in the failure stream")                                        \
    X(NO_FAILURE, "no_failure", true, "is not a final failure")                                                                  \
    X(NO_QUEUE, "no_queue", true, "its queue is not in the config: add it, or name another with --to")                           \
    X(OTHER_GROUP, "other_group", true, "failed in another group: put it back there, or here by --from-group with its name")     \
    X(OTHER_DIALECT, "other_dialect", true, "its queue has another dialect now")                                                 \
    X(WAITING, "waiting", true, "is not put back now")                                                                           \
    X(UNFIT, "unfit", true, "cannot be put back")                                                                                \
    X(NO_PAYLOAD, "no_payload", true, "the log does not have its payload")                                                       \
    X(DAMAGED, "damaged", true,                                                                                                  \
      "its payload in the log is not the job that failed (SHA-256 differs): use another instance's log")                         \
    X(GONE, "gone", true, "is no longer in the log")                                                                             \
    X(REFUSED, "refused", true, "refused by Redis")                                                                              \
    X(UNKNOWN, "unknown", true, "the connection to Redis broke before its reply: it may be done")
typedef enum requeue_result {
#define X(name, word, fails, text) RESULT_##name,
    RESULT_LIST(X)
#undef X
        RESULT_COUNT
} requeue_result_t;

// A failure to requeue or discard. Texts are copies; long ones are cut.
typedef struct requeue_target {
    char ref[EVENT_REF_SIZE];
    char event[EVENT_ID_SIZE];
    char queue[129];
    char job[129];
    size_t home; // index of the queue whose stream gets the record
    bool known;  // the config has the failure's queue, and it is `home`
    size_t to;   // index of the queue that receives the job
} requeue_target_t;

typedef struct plan_queue {
    char *name;   // owned
    int64_t open; // failures in the plan
} plan_queue_t;

// The failures to requeue or discard, oldest first.
typedef struct requeue_plan {
    int64_t *seqs; // owned
    size_t count;
    plan_queue_t *queues; // owned
    size_t queue_count;
    int64_t answered; // failures that match and were requeued or discarded before
    int64_t earlier;  // failures that match and have a later one of the same job
    int64_t newest;   // the latest `at`
    bool bad_refs;    // a REF names no event, or several
} requeue_plan_t;

typedef struct requeue_report {
    int64_t of[RESULT_COUNT]; // failures with each result
    int64_t tried;            // the sum of `of`
    int64_t total;            // planned
    mono_t began;
    progress_t progress;
    buffer_t problems; // for -o json; owned
    int64_t problem_count;
} requeue_report_t;

typedef struct requeue {
    const audit_args_t *args; // borrowed
    keyspace_t *keys;         // owned
    bool discard;
    char *by;           // the operator; owned
    const char *note;   // the reason given; "" = none; borrowed
    int64_t to;         // index of the queue that receives all jobs; -1 = each job's own queue
    int64_t per_minute; // jobs; 0 = no limit
    requeue_plan_t plan;
    requeue_report_t report;
} requeue_t;

// Begins the report. Failures that were requeued or discarded before count as tried.
void report_begin(requeue_t *requeue);
// `detail` may be "".
void report_add(requeue_t *requeue, const requeue_target_t *target, requeue_result_t result, const char *detail);
void report_progress(requeue_report_t *report);
// Prints the summary. `stopped` says why not all failures were tried; NULL = all were. Returns the exit code for the results.
int report_end(requeue_t *requeue, const char *stopped);

// Carries the plan out, or only checks it in a dry run. Returns an exit code.
int requeue_run(requeue_t *requeue);
