// Inside of `audit requeue` and `audit discard`: what was asked, what it comes to, carrying it out, and saying what became of it.
#ifndef QS_CLI_AUDIT_REQUEUE_H
#define QS_CLI_AUDIT_REQUEUE_H

#include "base/clock.h"
#include "cli/audit/audit.h"
#include "dialects/requeue.h"
#include "queue/keys.h"

// What people asked for. All borrowed.
typedef struct requeue_wish {
    audit_t *audit;
    const keyspace_t *keys;
    bool discards;
    bool bulk;  // by filters, not by refs
    bool again; // also what was answered before
    bool yes;
    bool dry;
    bool utc;
    audit_format_t format;
    audit_filter_t filter;
    const char *by;     // who asks
    const char *note;   // and why; "" = not said
    int64_t to;         // index of the queue that takes all jobs; -1 = each its own
    int64_t per_minute; // jobs; 0 = as many as there are
} requeue_wish_t;

// What becomes of one failure. FATE_LIST: X(name, how programs call it, whether it makes the exit code 1, what people read).
#define FATE_LIST(X)                                                                                                             \
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
typedef enum fate {
#define X(name, word, fails, text) FATE_##name,
    FATE_LIST(X)
#undef X
        FATE_COUNT
} fate_t;

// A failure, for messages. Owned copies, cut where they are long.
typedef struct subject {
    char ref[EVENT_REF_SIZE];
    char event[EVENT_ID_SIZE];
    char queue[129];
    char job[129];
    size_t home; // index of the queue that holds its mark
    size_t to;   // and of the one that takes it
} subject_t;

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
} plan_t;

// Both change nothing. False: the log cannot be read, with *why.
bool plan_refs(const requeue_wish_t *wish, const char *const *refs, size_t count, plan_t *plan, buffer_t *why);
bool plan_matches(const requeue_wish_t *wish, plan_t *plan, buffer_t *why);
void plan_clear(plan_t *plan);
// "1,234 jobs: email 1,200, video 34", to be printed.
void plan_describe(const plan_t *plan, buffer_t *out);

// What became of all, told as it comes.
typedef struct tally {
    const requeue_wish_t *wish;
    int64_t of[FATE_COUNT];
    int64_t total;  // planned
    int64_t before; // of these, answered when it began
    mono_t began;
    mono_t shown;      // when the progress was
    bool progress;     // a line of it stands on the terminal
    buffer_t problems; // of json
    int64_t problem_count;
} tally_t;

// `answered` of `total` are not tried, because they were answered before.
void tally_begin(tally_t *tally, const requeue_wish_t *wish, int64_t total, int64_t answered);
// `detail` may be NULL.
void tally_add(tally_t *tally, const subject_t *subject, fate_t fate, const char *detail);
void tally_progress(tally_t *tally, bool last);
// Prints the summary; `stopped` says why not all were tried, NULL = all were. Returns the exit code for what the tally holds.
int tally_end(tally_t *tally, const char *stopped);

// Carries the plan out, or with wish->dry only looks at it. Returns an exit code.
int requeue_run(const requeue_wish_t *wish, const plan_t *plan);

#endif
