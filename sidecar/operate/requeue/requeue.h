// Requeues, discards or erases failures of the audit log: choose them, connect, run. Everything happens in the caller's thread,
// and nothing is printed.
#pragma once

#include <stdatomic.h>

#include "audit/query/query.h"
#include "dialects/requeue.h"
#include "operate/events/ref.h"
#include "queue/keys.h"

// X(name, word in JSON, whether the command then fails, text for people). Since a requeue is recorded or refused as a whole, no
// failure is UNRECORDED; the summary in JSON keeps the word.
#define RESULT_LIST(X)                                                                                                           \
    X(DONE, "done", false, "")                                                                                                   \
    X(WOULD, "would", false, "")                                                                                                 \
    X(ANSWERED, "answered", false, "was answered before")                                                                        \
    X(EARLIER, "earlier", false, "has a later failure of the same job, which is put back")                                       \
    X(UNRECORDED, "unrecorded", true, "put back, but not recorded in the failure stream")                                        \
    X(NO_FAILURE, "no_failure", true, "is not a final failure")                                                                  \
    X(NO_QUEUE, "no_queue", true, "its queue is not in the config: add it, or name another one as target")                       \
    X(OTHER_GROUP, "other_group", true, "failed in another group: put it back there")                                            \
    X(OTHER_DIALECT, "other_dialect", true, "its queue has another dialect now")                                                 \
    X(WAITING, "waiting", true, "is not put back now")                                                                           \
    X(UNFIT, "unfit", true, "cannot be put back")                                                                                \
    X(NO_PAYLOAD, "no_payload", true, "the log does not have its payload")                                                       \
    X(DAMAGED, "damaged", true,                                                                                                  \
      "its payload in the log is not the job that failed (SHA-256 differs): use another instance's log")                         \
    X(ERASED, "erased", true, "has no payload any more")                                                                         \
    X(GONE, "gone", true, "is no longer in the log")                                                                             \
    X(REFUSED, "refused", true, "refused by Redis")                                                                              \
    X(UNKNOWN, "unknown", true, "the connection to Redis broke before its reply: it may be done")
typedef enum requeue_result {
#define X(name, word, fails, text) RESULT_##name,
    RESULT_LIST(X)
#undef X
        RESULT_COUNT
} requeue_result_t;

extern const struct requeue_word {
    const char *word, *text;
    bool fails;
} requeue_words[RESULT_COUNT];

// A failure to requeue, discard or erase. Texts are copies; long ones are cut.
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

// The failures to requeue, discard or erase, oldest first.
typedef struct requeue_plan {
    int64_t *seqs; // owned
    size_t count;
    plan_queue_t *queues; // owned
    size_t queue_count;
    int64_t answered; // failures that match and were requeued, discarded or, for an erasure, erased before
    int64_t earlier;  // failures that match and have a later one of the same job
    int64_t newest;   // the latest `at`
    // Of all failures that match the filter, also of those that were answered since:
    int64_t seen;        // a checksum over their ids, in any order
    int64_t seen_newest; // the latest `at`
} requeue_plan_t;

// The order of a caller. All texts are borrowed.
typedef struct requeue_options {
    bool discard, erase;    // instead of a requeue
    bool dry_run;           // only tell what would be done
    bool again;             // also failures that were requeued or discarded before; of an erasure: erased before
    const char *by;         // the operator
    const char *note;       // the reason given; "" = none
    const char *from_group; // also failures of this group; NULL = none
    int64_t to;             // index of the queue that receives all jobs; -1 = each job's own queue
    int64_t per_minute;     // jobs; 0 = no limit
    bool utc;               // of the times in details; false: local time
} requeue_options_t;

static inline bool requeue_pushes(const requeue_options_t *options) { return !options->discard && !options->erase; }

// The caller of a run.
typedef struct requeue_caller {
    void *self;
    // Waits so long, or until the run is to stop. True: it is to stop, now and ever after. Requests in flight still get their
    // replies.
    bool (*wait)(void *self, int64_t ns);
    // `detail` may be "".
    void (*result)(void *self, const requeue_target_t *target, requeue_result_t result, const char *detail);
    void (*warn)(void *self, const char *text);
    const atomic_bool *quit; // true: do not even wait for replies in flight; NULL = always wait
} requeue_caller_t;

typedef struct requeue_counts {
    int64_t of[RESULT_COUNT]; // failures with each result
    int64_t tried;            // the sum of `of`
    int64_t total;            // planned
} requeue_counts_t;

typedef struct requeue {
    requeue_options_t options;
    requeue_caller_t caller;
    audit_t *audit;   // borrowed
    keyspace_t *keys; // owned
    requeue_plan_t plan;
    requeue_counts_t counts;
    struct requeue_servers *servers; // owned; NULL = not connected
} requeue_t;

// `config` and `audit` are borrowed. Fill in `options` and `caller` before the other calls. Owned.
requeue_t *requeue_new(const config_t *config, audit_t *audit);
void requeue_free(requeue_t *requeue);

// Reads "50/s", "300/m" or "50" (a second). False: it is malformed.
bool requeue_read_rate(const char *word, int64_t *per_minute);

// Plans all failures that the filter selects. False with *why: the log cannot be read.
bool requeue_plan_filter(requeue_t *requeue, const audit_filter_t *filter, buffer_t *why);
// Plans one event, once even if it comes twice.
void requeue_plan_event(requeue_t *requeue, ref_event_t event);

// Connects to the servers that the plan needs; a dry run needs none. Another outcome than OUTCOME_OK: none can be used, and
// *target is the address for messages, borrowed.
outcome_t requeue_connect(requeue_t *requeue, const char **target, redis_error_t *error);

typedef enum requeue_end {
    REQUEUE_ENDED,     // all failures were tried
    REQUEUE_STOPPED,   // by the caller
    REQUEUE_LOST,      // the connection to Redis
    REQUEUE_NOT_READY, // Redis takes no writes now
    REQUEUE_UNREADABLE // the log
} requeue_end_t;

// Carries the plan out, or only checks it in a dry run. Begins with the counts of failures that were answered before. *why says
// what ended it early, unless the caller did.
requeue_end_t requeue_run(requeue_t *requeue, buffer_t *why);

// Whether a result of the run is a failure.
bool requeue_has_failed(const requeue_counts_t *counts);

const char *requeue_action(const requeue_options_t *options); // the word in JSON
// Appends one result as a JSON object.
void requeue_write_result(buffer_t *out, const requeue_t *requeue, const requeue_target_t *target, requeue_result_t result,
                          const char *detail);
// Appends `"done":2,"would":0,...`: the number of failures with each result.
void requeue_write_counts(buffer_t *out, const requeue_counts_t *counts);
