// The checks that make the findings of `status`. They are pure.
#pragma once

#include "model/anomaly.h"
#include "operate/status/servers_text.h"
#include "operate/status/status.h"

#define CHECK_NO_QUEUE SIZE_MAX

// The subjects of a check.
typedef enum check_scope {
    CHECK_HERE,  // this machine
    CHECK_LOCAL, // each check of /readyz, if the instance on this machine answered
    // The next scopes have subjects only if Redis was reached.
    CHECK_SERVER,
    CHECK_PREFLIGHT, // each result of the preflight
    CHECK_LOCK,      // each lock
    CHECK_QUEUE,     // each queue
} check_scope_t;

typedef struct status_check status_check_t;

// One subject; pointers are borrowed. NULL = the scope of `row` does not have it.
typedef struct check_subject {
    const status_t *s;
    const status_check_t *row;
    size_t queue; // index, or CHECK_NO_QUEUE
    const queue_keys_t *keys;
    const queue_policy_t *policy;
    const snapshot_queue_t *stream;
    const sizes_t *sizes;
    const status_recent_t *recent;
    const lock_keys_t *lock_keys; // CHECK_QUEUE: the lock of the queue
    const snapshot_lock_t *lock;
    const status_preflight_t *preflight;
    const local_check_t *local;
} check_subject_t;

// Returns how bad the problem is (higher is worse), and describes it in *what. 0 = no problem; *what is then ignored.
typedef int64_t check_fn(const check_subject_t *subject, buffer_t *what);

struct status_check {
    check_scope_t scope;
    status_severity_t severity;
    const char *code;
    check_fn *find;
    // {queue}, {config}, {lock}, {failures}, {delayed} and {leader} are replaced by the names of the worst match.
    const char *why, *next;
    int variant;  // tells `find` what to look for, where rows share a function
    bool adds_up; // CHECK_QUEUE: what `find` returns is a number of things, so the numbers of several queues make a sum
    // CHECK_LOCAL: the name of the check; NULL = of every check that no other row names. CHECK_HERE: the words before the reason.
    // check_anomaly: what is so, of one, and of several behind a |.
    const char *words;
    servers_problem_fn *servers; // of check_servers
};

enum { CHECK_FULL = 1 };        // variant of a row; variant 0 = nearly full
enum { CHECK_NEVER_LEADS = 1 }; // variant of a row: lock.lead is false in this config; variant 0 = it is true

// checks_queue.c
check_fn check_other_group, check_unserved, check_key_fault, check_overdue, check_ready_limit, check_ready_grows, check_too_old,
    check_stale_unique, check_score_unit, check_failures;

// checks_stream.c
check_fn check_stream, check_notifications, check_trimmed_early, check_last_id, check_uncopied, check_behind, check_silent_log;

// checks_anomaly.c
check_fn check_anomaly;
bool checks_has_anomaly(const check_subject_t *subject, anomaly_kind_t kind, anomaly_seen_t *out);

// checks_here.c
check_fn check_connection, check_instance, check_log_unreadable, check_gaps, check_erased_texts, check_memory, check_clocks,
    check_servers, check_slot;

extern const status_check_t status_checks[];
extern const size_t status_check_count;

// The name of the lock's holder, or "the leader" if it is unknown.
const char *status_leader(const snapshot_lock_t *lock);

// Whether a sidecar holds the lock.
bool checks_is_led(const snapshot_lock_t *lock);

// Appends a word of a command line, in quotes where a shell needs them.
void shell_word(buffer_t *out, const char *text);
