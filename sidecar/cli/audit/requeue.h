// Inside of `audit requeue` and `audit discard`: what was asked, what it comes to, carrying it out, and saying what became of it.
#ifndef QS_CLI_AUDIT_REQUEUE_H
#define QS_CLI_AUDIT_REQUEUE_H

#include "base/clock.h"
#include "cli/audit/audit.h"
#include "dialects/requeue.h"
#include "queue/keys.h"

// What people asked for. All borrowed.
typedef struct requeue_options {
    audit_t *audit;
    const keyspace_t *keys;
    bool discard;
    bool bulk;  // by filters, not by refs
    bool again; // also what was answered before
    bool yes;
    bool dry_run;
    bool utc;
    audit_format_t format;
    audit_filter_t filter;
    const char *by;     // who asks
    const char *note;   // and why; "" = not said
    int64_t to;         // index of the queue that takes all jobs; -1 = each its own
    int64_t per_minute; // jobs; 0 = as many as there are
} requeue_options_t;

// What becomes of one failure. RESULT_LIST: X(name, how programs call it, whether it makes the exit code 1, what people read).
#define RESULT_LIST(X)                                                                                                           \
    X(DONE, "done", false, "")                                                                                                   \
    X(WOULD, "would", false, "")                                                                                                 \
    X(ANSWERED, "answered", false, "was answered before")                                                                        \
    X(UNRECORDED, "unrecorded", true, "put back, but not recorded")                                                              \
    X(NO_FAILURE, "no_failure", true, "is no final failure")                                                                     \
    X(NO_QUEUE, "no_queue", true, "its queue is not in the config: add it, or name another by --to")                             \
    X(OTHER_DIALECT, "other_dialect", true, "its queue has another dialect now")                                                 \
    X(WAITING, "waiting", true, "is in its queue already: use --again to put it there once more")                                \
    X(UNFIT, "unfit", true, "cannot be put back")                                                                                \
    X(NO_PAYLOAD, "no_payload", true, "the log does not have its payload")                                                       \
    X(DAMAGED, "damaged", true,                                                                                                  \
      "its payload in the log is not the job that failed (by its SHA-256): see another instance's log")                          \
    X(GONE, "gone", true, "is no longer in the log")                                                                             \
    X(REFUSED, "refused", true, "Redis refuses it")                                                                              \
    X(UNKNOWN, "unknown", true, "Redis was lost before it answered: it may be done")
typedef enum result {
#define X(name, word, fails, text) RESULT_##name,
    RESULT_LIST(X)
#undef X
        RESULT_COUNT
} requeue_result_t;

// A failure, for messages. Owned copies, cut where they are long.
typedef struct target {
    char ref[EVENT_REF_SIZE];
    char event[EVENT_ID_SIZE];
    char queue[129];
    char job[129];
    size_t home; // index of the queue that holds its mark
    size_t to;   // and of the one that takes it
} requeue_target_t;

// Which failures, in the order in which they are taken, and how many of each queue.
typedef struct plan_queue {
    char *name; // owned
    int64_t open, answered;
} plan_queue_t;
typedef struct plan {
    int64_t *seqs; // owned
    size_t count;
    plan_queue_t *queues; // owned
    size_t queue_count;
    int64_t open, answered;
    int64_t newest; // the latest `at` of these
    int bad_refs;   // they were complained of
} requeue_plan_t;

// Both change nothing. False: the log cannot be read, with *why.
bool plan_refs(const requeue_options_t *options, const char *const *refs, size_t count, requeue_plan_t *plan, buffer_t *why);
bool plan_matches(const requeue_options_t *options, requeue_plan_t *plan, buffer_t *why);
void plan_free(requeue_plan_t *plan);
// "1,234 jobs: email 1,200, video 34", to be printed.
void plan_format(const requeue_plan_t *plan, buffer_t *out);

// What became of all, told as it comes.
typedef struct report {
    const requeue_options_t *options;
    int64_t of[RESULT_COUNT];
    int64_t total;  // planned
    int64_t before; // of these, answered when it began
    mono_t began;
    mono_t shown;      // when the progress was
    bool progress;     // a line of it stands on the terminal
    buffer_t problems; // of json
    int64_t problem_count;
} requeue_report_t;

// `answered` of `total` are not tried, because they were answered before.
void report_begin(requeue_report_t *report, const requeue_options_t *options, int64_t total, int64_t answered);
// `detail` may be NULL.
void report_add(requeue_report_t *report, const requeue_target_t *target, requeue_result_t result, const char *detail);
void report_progress(requeue_report_t *report, bool last);
// Prints the summary; `stopped` says why not all were tried, NULL = all were. Returns the exit code for what the tally holds.
int report_end(requeue_report_t *report, const char *stopped);

// Carries the plan out, or with wish->dry only looks at it. Returns an exit code.
int requeue_run(const requeue_options_t *options, const requeue_plan_t *plan);

#endif
