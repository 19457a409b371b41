// What a dialect says of its queues. Dispatcher, monitor, preflight and the operator's commands know this interface and no
// dialect; what a dialect has not, it leaves NULL, and the role passes its queues over.
#ifndef QS_DIALECTS_DIALECT_H
#define QS_DIALECTS_DIALECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "model/event.h"
#include "model/job.h"
#include "model/metrics.h"
#include "queue/call.h"
#include "queue/page.h"
#include "redis/conn.h"

// ---- Promotion: due jobs go from delayed to ready.

// A promote ends its batch at about so many bytes, so that no script runs for long.
enum { PROMOTE_BYTES = 2 * 1024 * 1024 };

typedef struct promote_request {
    int64_t batch;
    int64_t skip;  // entries at the head that are known to be too large
    int64_t first; // entries to read at once: few, unless those before were small
} promote_request_t;

typedef enum promoted {
    PROMOTED_MOVED, // see moved; may be 0
    PROMOTED_FULL,  // ready is at its limit
    PROMOTED_OWNER, // another group owns the queue: `who`
    PROMOTED_TYPE,  // key `who` holds a `what`
} promoted_t;

typedef struct promote_reply {
    promoted_t kind;
    int64_t moved;
    int64_t now_us;     // Redis's time in the script; 0 where the kind has none
    bool has_oldest;    // false: nothing moved, or its age is not known
    double oldest;      // score of the first job moved
    int64_t bytes;      // of all entries read
    int64_t large;      // entries larger than max_payload in this batch, left where they are
    double large_score; // of the first of them, with its bytes and SHA-1
    int64_t large_bytes;
    char large_sha1[41];
    char who[136];
    char what[24];
} promote_reply_t;

typedef struct promote_ops {
    // Appends one request that moves at most ask->batch due jobs to ready; fenced.
    void (*append)(const call_t *call, const promote_request_t *ask);
    // Reads its reply: promote_read_reply, where the script answers as promote.lua does.
    outcome_t (*read)(conn_t *conn, promote_reply_t *reply, redis_error_t *error);
    // When a job of this score falls due, in us since 1970 by Redis's clock, rounded up; INT64_MAX = never, INT64_MIN = always
    // was.
    int64_t (*due_us)(const queue_config_t *queue, double score);
    int64_t most; // jobs of one batch, whatever dispatcher.batch says
} promote_ops_t;

outcome_t promote_read_reply(conn_t *conn, promote_reply_t *reply, redis_error_t *error);

// ---- Passes: jobs in progress are met one after the other, and each is judged by its stamp, the verdict and settle.lua.

typedef struct pass_ops {
    // One list whose entries are rotated until a sentinel comes. NULL: they are read where they stand, see open.
    const rotation_ops_t *rotation;
    bool tells;         // what the bytes say (age, execution, retries, trouble) counts: they are read before anybody acts on them
    bool of_worker;     // a heartbeat is a worker's, not a job's: its silence alone says that the worker is gone
    bool blank_is_dead; // a heartbeat of nothing but white space is none

    // Not of rotation. The state is of one queue in one term: it is closed and opened anew when everything known may be wrong.
    void *(*open)(const queue_keys_t *keys);
    void (*close)(void *state);
    // A look: out->entries is how many lists there are to be read, armed is false, config is set; stamps and now as everywhere.
    void (*look_append)(const call_t *call, void *state);
    outcome_t (*look_read)(const call_t *call, void *state, backup_look_t *out);
    // A page: the jobs of `count` lists (1 to BACKUP_PAGE) behind `skip` others. page->count + page->vacant is how many lists
    // were read; fewer than asked for are gone on with by the next page. standing is set by the caller.
    void (*page_append)(const call_t *call, void *state, size_t skip, size_t count);
    outcome_t (*page_read)(const call_t *call, void *state, size_t skip, size_t count, backup_page_t *page);

    // Of all. What the bytes of a job say.
    void (*read)(const queue_config_t *queue, slice_t bytes, job_t *out);
    // The key of its heartbeat, owned; NULL = it has none. The policy's `heartbeat` is not "off".
    char *(*heartbeat)(const queue_config_t *queue, const entry_t *entry, const job_t *job);
    // Where it is settled. `out` comes filled with nothing; `again` is empty, and holds what out->again points to.
    void (*settle)(const queue_keys_t *keys, const entry_t *entry, const job_t *job, bool retry, settle_where_t *out,
                   buffer_t *again);
} pass_ops_t;

// ---- A watch: a tick of its own beside or in place of passes, in turns with them (monitor/tasks.h).

enum { SIDE_TASK_STEP_MS = 5, SIDE_TASK_KEYS_MAX = 4, SIDE_TASK_CHANNELS_MAX = 2 };

typedef struct side_task_call {
    conn_t *conn; // no reply is awaited on it, before and after
    const keyspace_t *keys;
    size_t queue;
    const char *token;
    bool arm;     // Redis can tell of changes: a read of a watched key that follows CLIENT CACHING YES arms it, for one message
    bool changed; // a watched key has changed since the last step, or may have
    metrics_queue_t *metrics;
    bool dry;    // of a dry run: what comes of it is no news, and is not logged
    mono_t now;  // when the step began
    mono_t next; // out: when the next step is wanted; mono_never(), as it comes, = only after a change
} side_task_call_t;

// The same for verbs of queue/.
static inline call_t side_task_call(const side_task_call_t *watch, redis_error_t *error) {
    return (call_t){watch->conn, watch->keys, watch->queue, watch->token, error};
}

typedef struct side_task_ops {
    void *(*open)(const queue_keys_t *keys); // the state of one queue; owned by the monitor
    void (*close)(void *state);
    void (*forget)(void *state); // a new term, a new connection: everything known may be wrong
    // Keys whose change wakes it, at most SIDE_TASK_KEYS_MAX; the names live as long as the state. NULL = there are none.
    size_t (*watched_keys)(const void *state, const char **out);
    // Channels that it wants to hear of, at most SIDE_TASK_CHANNELS_MAX, in the same way, and what they say: a step follows. Both
    // or neither.
    size_t (*channels)(const void *state, const char **out);
    void (*heard)(void *state, const char *channel, slice_t message);
    // One bounded step: a few requests, SIDE_TASK_STEP_MS of Redis at the most; every reply that was asked for is read, unless
    // the connection is lost. OUTCOME_REFUSED marks this queue alone: it is left alone for a while.
    outcome_t (*step)(void *state, side_task_call_t *call, redis_error_t *error);
    // An orderly end of the role while the lock is still ours; only after a step. NULL: there is nothing to leave behind.
    outcome_t (*leave)(void *state, side_task_call_t *call, redis_error_t *error);
} side_task_ops_t;

// ---- Requeue: an operator puts a job of the audit log back (queue/requeue.h).

struct requeue_request;

// Where requeue.lua pushes. Borrowed; comes filled with the queue's ready list and the payload of the row.
typedef struct requeue_push {
    const char *ready; // list
    slice_t job;       // what is pushed
    const char *mark;  // set that gets mark_id with it; what it holds already waits there and is not pushed. NULL = none
    slice_t mark_id;
} requeue_push_t;

typedef struct requeue_ops {
    // What is pushed where, from a row of the audit log; NULL: the payload itself, to ready. `bytes` (comes empty) holds what
    // *out points to, until the request is appended. now_ms: by Redis's clock. False, with *why: this row cannot be put back.
    bool (*prepare)(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out, buffer_t *bytes,
                    buffer_t *why);
    // NULL: requeue.lua. Else appends one request in its place, which answers as that does (requeue_read). Never asked to
    // discard.
    void (*append)(conn_t *conn, const keyspace_t *keys, const struct requeue_request *ask, const requeue_push_t *where);
    // A job of this dialect that is put back, wherever, leaves the queue's dlq, and our memory of what stands there.
    bool letters;
} requeue_ops_t;

// ---- Sizes: what a census counts (queue/census.h).

typedef enum size_of {
    SIZE_READY,   // list; there may be several
    SIZE_DELAYED, // zset whose scores promote_ops.due_us understands
    SIZE_BACKUP,  // list that rotation_ops.kind_of understands
    SIZE_ACTIVE,  // list of ids, the oldest last; hash `<prefix><id>` says when it was begun in `processedOn`
} size_of_t;

// `key` and `prefix` (NULL but for SIZE_ACTIVE) are copied.
typedef void size_fn(void *self, size_of_t what, const char *key, const char *prefix);

// ---- Preflight.

// Tries scripts of its own as the same user, through each branch with a command of its own, on keys that begin with `prefix`: in
// the slot of the lock of queue 0 of `keys`, which holds `token`. What it leaves behind must expire within a minute.
typedef struct dry_run {
    conn_t *conn;
    const keyspace_t *keys;       // scratch: one queue, laid out like a list
    const queue_config_t *config; // the real one of the first queue of this dialect
    const char *prefix;           // "sidecar:<scratch name>:"
    const char *token;
    redis_error_t *error;
    // Tells what came of a request, as *error says it; false: the connection is of no use any more.
    bool (*passed)(const struct dry_run *room, const script_t *script, outcome_t outcome);
    void *self; // of passed
} dry_run_t;

// ---- The dialect.

typedef struct dialect_ops {
    const config_dialect_t *settings; // its name and keys of the config
    const promote_ops_t *promote;
    const pass_ops_t *pass;
    const side_task_ops_t *side_task;
    const requeue_ops_t *requeue;
    // Whether these keys are of this dialect at all, before they are served: an empty *refusal = they are, or nobody can tell.
    outcome_t (*adopt)(const call_t *call, buffer_t *refusal);
    bool (*dry_run)(const dry_run_t *room); // false as room->passed
    // What such a run asks for a queue, as bits: of those that are alike one is tried. NULL: all are.
    unsigned (*dry_run_needs)(const queue_config_t *queue);
    // Calls `add` for each key that says how much there is. What workers keep in lists of their own is known by stamps.
    void (*sizes)(const queue_keys_t *at, size_fn *add, void *self);
} dialect_ops_t;

// Of the dialect that a queue has (queue_config_t.dialect); never NULL for one that config_load has made.
const dialect_ops_t *dialect_ops(const config_dialect_t *settings);

#endif
