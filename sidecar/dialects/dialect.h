// The interface of a dialect. Roles and commands use this interface and know no dialect by name. A dialect sets the members that
// it lacks to NULL. The role then skips the queues of that dialect.
#pragma once

#include "base/clock.h"
#include "model/job.h"
#include "model/metrics.h"
#include "queue/jobs/jobs.h"
#include "queue/settle.h"

// ---- Promotion: due jobs go from delayed to ready.

// Promote scripts of one request end their batches at about this many bytes, so that other clients do not wait for long.
enum { PROMOTE_BYTES = 2 * 1024 * 1024 };

typedef struct promote_request {
    size_t queue; // index in the keyspace
    int64_t batch;
    int64_t skip;  // entries at the head that stay: larger than max_payload, or foreign
    int64_t first; // entries in the script's first read; few while jobs are large or of unknown size
    int64_t bytes; // the batch ends after this many
} promote_request_t;

typedef struct promote_reply {
    redis_error_t error; // of this queue alone; the other members are 0
    bool later;          // Redis's time was over before this queue's turn; nothing was moved
    bool more;           // Redis's time was over before the batch, and more jobs may be due
    bool full;           // ready is at ready_limit; nothing was moved
    int64_t moved;
    int64_t now_us;     // Redis's time in the script; 0 = the reply has none
    bool has_oldest;    // false: nothing was moved, or the reply has no score
    double oldest;      // score of the first job moved
    int64_t bytes;      // of all entries read
    int64_t took_us;    // time of Redis; 0 = unknown, or nothing was moved
    int64_t fixed_us;   // of this the part that does not depend on the number of jobs
    int64_t large;      // entries of this batch that stay: larger than max_payload, or foreign
    double large_score; // score of the first oversized entry; its bytes and SHA-1 follow
    int64_t large_bytes;
    char large_sha1[41];
    int64_t foreign;    // of the entries that stay, those that are no jobs for a list of the config
    char stranger[129]; // the queue that the first of these names
    int64_t early;      // jobs moved whose score is no time; 0 = none, or the dialect has no score_unit
    double early_score; // of the first of these
} promote_reply_t;

typedef struct promote_ops {
    // Appends one fenced request that moves at most ask->batch due jobs of the call's queue.
    void (*append)(const call_t *call, const promote_request_t *ask);
    // The same for `count` queues of the call's lock, in place of `append`. Redis may spend slice_us. NULL: not in this dialect.
    void (*append_many)(const call_t *call, const promote_request_t *asks, size_t count, int64_t slice_us);
    // Returns the due time of a job with this score, in us since 1970 by Redis's clock, rounded up. INT64_MAX = never.
    int64_t (*due_us)(const queue_config_t *queue, double score);
    int64_t max_batch; // upper limit of a batch; the config's dispatcher.batch may be lower
} promote_ops_t;

// Every promote script replies as promote.lua does, or as promote.lua does for one queue. Sets *error and returns its outcome: an
// error of the whole request. Then `replies`, one for each queue, say nothing.
outcome_t promote_read_replies(conn_t *conn, promote_reply_t *replies, size_t count, redis_error_t *error);
// promote_ops.due_us for scores in the queue's score_unit.
int64_t promote_due_us(const queue_config_t *queue, double score);

// ---- Scans. A scan reads each job in progress. Its stamp, heartbeat and bytes give a verdict. settle.lua settles the job.

typedef struct scan_ops {
    // A scan rotates a backup list until its marker comes. NULL: a scan reads lists in place, by `open` and the functions
    // below `open`.
    const rotation_ops_t *rotation;
    bool bytes_tell; // the bytes of a job hold its age, execution, retries or trouble: read them before a verdict
    bool of_worker;  // a worker writes one heartbeat for all its jobs: a missing heartbeat alone proves that the worker is gone
    bool blank_is_dead; // a heartbeat of white space counts as missing

    // A scan without rotation: a new field of the errors hash begins a scan soon.
    bool reports;
    // Functions for a scan without rotation. The state belongs to one queue in one term. The monitor closes the state and opens
    // it again when the state may be out of date.
    void *(*open)(const queue_keys_t *keys);
    void (*close)(void *state);
    // Begins a scan. Sets in *out: config, stamps, now, and entries, the number of lists to read; armed stays false.
    void (*status_append)(const call_t *call, void *state);
    outcome_t (*status_read)(const call_t *call, void *state, backup_status_t *out);
    // A page holds the jobs of the next lists, at most `count` (1 to BACKUP_PAGE). It has read page->count + page->vacant
    // lists. The caller sets `in_place`.
    void (*page_append)(const call_t *call, void *state, size_t count);
    outcome_t (*page_read)(const call_t *call, void *state, backup_page_t *page);
    // For people, who read some pages at a time: tells where the next page begins, in hex digits, and begins there after
    // status_read. NULL: the lists are read again from the beginning.
    void (*place)(const void *state, char digits[JOBS_PLACE_SIZE]);
    bool (*go_to)(void *state, const char *digits); // false: these are not digits of `place`

    // Reads the bytes of a job. NULL: job_read.
    void (*read)(const queue_config_t *queue, slice_t bytes, job_t *out);
    // Changes the keys and the pushed bytes of a settle. On entry *out has the queue's keys, and `again` is empty. out->again may
    // point into `again`. NULL: nothing to change.
    void (*settle)(const queue_keys_t *keys, const entry_t *entry, const job_t *job, bool retry, settle_where_t *out,
                   buffer_t *again);
    // Appends the dialect's own request in place of settle_append; its reply is that of settle.lua. NULL: settle.lua settles.
    void (*settle_append)(const call_t *call, const settle_ask_t *const *asks, size_t count);
} scan_ops_t;

// ---- Side tasks. A dialect may have tasks beside scans, or in place of scans. The monitor runs the queues in turn, and all
// tasks of a queue in each turn (monitor/tasks.h).

enum { SIDE_TASKS_MAX = 3, SIDE_TASK_STEP_MS = 5, SIDE_TASK_KEYS_MAX = 4, SIDE_TASK_CHANNELS_MAX = 2 };

typedef struct side_task_call {
    call_t redis; // no reply is outstanding, before and after a step
    bool arm;     // tracking works: CLIENT CACHING YES and a read of a watched key ask for one invalidation message
    bool changed; // a watched key may have changed since the last step
    metrics_queue_t *metrics;
    mono_t now;  // when the step began
    mono_t next; // out: when the next step is wanted; mono_never(), the initial value, = only after a change
} side_task_call_t;

typedef struct side_task_ops {
    void *(*open)(const queue_keys_t *keys); // the state of one queue, owned by the monitor; NULL = the queue has no such task
    void (*close)(void *state);
    void (*forget)(void *state); // called for a new term or connection: drops cached state
    // Keys whose change triggers a step, at most SIDE_TASK_KEYS_MAX, borrowed from the state. NULL: none.
    size_t (*watched_keys)(const void *state, const char **out);
    // Called before the step that follows a change of this key. NULL: the task need not know which key has changed.
    void (*on_change)(void *state, const char *key);
    // Channels to subscribe to, at most SIDE_TASK_CHANNELS_MAX, and the function for their messages; a step follows each. Both or
    // neither.
    size_t (*channels)(const void *state, const char **out);
    void (*on_message)(void *state, const char *channel, slice_t message);
    // One bounded step: a few requests that take Redis at most SIDE_TASK_STEP_MS. Reads every reply, unless the connection is
    // lost. OUTCOME_REFUSED pauses the tasks of this queue alone.
    outcome_t (*step)(void *state, side_task_call_t *call);
    // Called when the role ends, if it still holds the lock and a step has run. NULL: nothing to do.
    outcome_t (*leave)(void *state, side_task_call_t *call);
} side_task_ops_t;

// ---- Requeue: an operator puts a failed job of the audit log back (dialects/requeue.h).

enum { REQUEUE_MARK_BYTES = 16 };

// The bytes and the lists of a requeue, for requeue.lua. Borrowed. requeue_prepare fills in the queue's ready list and the
// payload of the row.
typedef struct requeue_push {
    const char *ready; // list that gets the job
    bool takes_left;   // workers take from its left end, so the job goes to the right end, behind all that wait
    slice_t job;
    // Set that gets mark_id too; NULL = none. A mark_id in the set belongs to a waiting job, so the job is not pushed.
    const char *mark;
    slice_t mark_id;
} requeue_push_t;

typedef struct requeue_request {
    size_t queue;       // index of the queue whose stream gets the record
    size_t to;          // index of the queue that gets the job
    const char *marker; // keyspace_requeued_of the failure's queue
    bool discards;
    bool again;                  // ignore an earlier requeue marker
    const requeue_push_t *where; // from requeue_prepare; a discard ignores it
    const digest_t *digest;      // of the job's bytes in the audit log
    const char *by;              // operator, 1 to MAX_REQUEUE_BY bytes
    const event_t *record;       // `answers` is the id of the failure, 64 hex digits; Redis adds `at`
} requeue_request_t;

typedef struct requeue_ops {
    // Changes *out for a row of the audit log. NULL: the payload goes to ready. *out may borrow from `bytes` until the request
    // is appended. `bytes` and `why` come empty. now_ms is Redis's time. False, with *why: this row cannot be requeued.
    bool (*prepare)(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out, buffer_t *bytes,
                    buffer_t *why);
    // Appends the dialect's own request; its replies are those of requeue.lua. A discard does not call this function. NULL: use
    // requeue.lua.
    void (*append)(conn_t *conn, const keyspace_t *keys, const requeue_request_t *ask);
} requeue_ops_t;

// ---- Jobs for people: `jobs list`, `jobs run`, `jobs cancel`.

typedef enum jobs_state { JOBS_DELAYED, JOBS_READY, JOBS_IN_PROGRESS } jobs_state_t;

typedef struct jobs_ops {
    // Sets `hash`, or `prefix` and `fields`, of a range of this state. NULL: an entry is the job itself.
    void (*details)(const queue_config_t *queue, jobs_state_t state, jobs_range_t *range);
    // Reads an entry, and sets *payload, which may borrow from the entry. NULL: as a scan reads an entry.
    void (*read)(const queue_config_t *queue, jobs_state_t state, const jobs_entry_t *entry, job_t *out, slice_t *payload);
    // Read the jobs of a state that no zset or list holds, as a scan without rotation does. NULL: the keys of the config hold
    // them, or, in progress, what scan_ops.open reads.
    const scan_ops_t *ready, *in_progress;
    bool changes;       // an entry of `delayed` is a job: it may be made due, or ended
    const char *advice; // otherwise: what to do instead
} jobs_ops_t;

// ---- Preflight.

// Commands that the sidecar's Redis user needs: the commands of a script, or single commands.
typedef struct right {
    const char *what; // for people: "script NAME", or what the commands are for; NULL ends a list of rights
    const script_t *script;
    const char *const *commands;               // in upper case, each with a sample in probe.lua; ends with NULL
    bool (*when)(const queue_config_t *queue); // whether a queue with these settings needs this right; NULL: always
    bool optional;                             // without it jobs flow, but a check is missing or something is slower
} right_t;

// Gets each result of a survey. `lost`: a warning, as when the sidecar does not see some jobs; otherwise only worth a note.
// `queue` is an index in the keyspace; SIZE_MAX = no queue of the config.
typedef void survey_report_fn(void *self, bool lost, size_t queue, const char *text);

#define RIGHT_SCRIPT(name) .what = "script " #name, .script = &script_##name
#define RIGHT_COMMANDS(...)                                                                                                      \
    .commands = (const char *const[]) { __VA_ARGS__, NULL }

// ---- The dialect.

typedef struct dialect_ops {
    const config_dialect_t *settings; // name and config keys
    const promote_ops_t *promote;
    const scan_ops_t *scan;
    const side_task_ops_t *side_tasks[SIDE_TASKS_MAX + 1]; // in the order of their steps; ends with NULL
    const requeue_ops_t *requeue;
    const jobs_ops_t *jobs; // never NULL
    // Checks before a queue is served whether its keys belong to this system. *refusal stays empty if they may. NULL: no check.
    outcome_t (*adopt)(const call_t *call, buffer_t *refusal);
    // Checks whether the monitor can serve the queue; promotion goes on if it cannot. NULL: no check.
    outcome_t (*monitor_fit)(const call_t *call, buffer_t *refusal);
    // Surveys tell whether workers use the keys that the config names. They only read.
    // Appends EXISTS of keys that the application makes when it uses the queue. NULL: absent keys say nothing.
    void (*used_append)(conn_t *conn, const queue_keys_t *at);
    // Surveys all queues of the dialect; call->queue is the first one. NULL: no more to survey.
    outcome_t (*survey)(const call_t *call, survey_report_fn *report, void *self);
    const right_t *rights; // rights that only queues of this dialect need; NULL: none
    // The harm of a queue of the same name in another database. NULL: the sidecar may look in vain.
    const char *shared_harm;
    // A text about jobs that are lost while no instance leads. NULL: none are.
    const char *leaderless_harm;
} dialect_ops_t;

// Operations of queue_config_t.dialect; never NULL for a loaded config.
const dialect_ops_t *dialect_ops(const config_dialect_t *settings);
// How the queue's jobs in progress are scanned; NULL = they are not: by its dialect, or because it has no backup list.
const scan_ops_t *dialect_scan(const queue_config_t *queue);
