// Trekkiii/KMQueue (4241368): a group of lists of JSON tasks, with one backup list for all of them.
//
// A worker of a safe queue pops a task, writes the time into the task and pushes the task to the backup list. A worker that is
// done removes the same bytes. So entries of the backup list are never rewritten. A retry changes two tokens of the task and
// pushes the task to the list that the task names. A task that names a list outside the configuration is pushed nowhere.
#include "base/buffer.h"
#include "base/json/json.h"
#include "dialects/kmqueue/internal.h"
#include "dialects/kmqueue/task.h"

// Ignore dates outside these bounds, as job_read does: they would end a task at once, or never.
#define MIN_CREATED_MS INT64_C(100000000000)    // March 1973
#define MAX_CREATED_MS INT64_C(253402300799999) // the last millisecond of the year 9999

static entry_kind_t kmqueue_kind_of(const backup_status_t *status, slice_t entry) {
    if (!kmqueue_is_marker(entry, status->config->backup)) return ENTRY_JOB;
    bool other = status->marker.len && !slice_equal(entry, (slice_t){status->marker.data, status->marker.len});
    return other ? ENTRY_OLD_MARKER : ENTRY_MARKER;
}

static void kmqueue_write_marker(const backup_status_t *status, char random[MARKER_RANDOM_SIZE], buffer_t *out) {
    kmqueue_marker(status->config->backup, random, status->now, out);
}

static void kmqueue_read_job(const queue_config_t *queue, slice_t bytes, job_t *out) {
    kmqueue_task_t task;
    *out = (job_t){.digest = digest_of(bytes.data, bytes.len), .retries_in_job = -1};
    if (!kmqueue_task_read(bytes, &task) || !json_copy_text(task.id, out->id, MAX_JOB_ID)) {
        digest_hex(&out->digest, out->id);
        out->trouble = JOB_UNREADABLE;
        return;
    }
    if (!json_copy_text(task.type, out->type, MAX_JOB_TYPE)) out->type[0] = '\0';
    if (task.gen >= MIN_CREATED_MS && task.gen <= MAX_CREATED_MS) out->created_ms = task.gen;
    if (task.exc > 0) out->executed_ms = task.exc;
    out->retries_in_job = task.retry;
    if (!kmqueue_find_list(&kmqueue_config(queue)->lists, task.queue, &out->target)) out->trouble = JOB_FOREIGN;
}

static void kmqueue_settle(const queue_keys_t *keys, const entry_t *entry, const job_t *job, bool retry, settle_where_t *out,
                           buffer_t *again) {
    const kmqueue_config_t *own = kmqueue_config(keys->config);
    kmqueue_task_t task;
    out->ready = own->lists.items[job->target];
    out->forget = true; // the next execution has another excTimestamp, and so other bytes
    if (job->trouble != JOB_FINE || !kmqueue_task_read(entry->bytes, &task)) return;
    if (retry) {
        kmqueue_task_rewrite(&task, entry->bytes, task.retry + 1, "retry", task.gen, again); // as BackupQueueMonitor does
        out->again = (slice_t){again->data, again->len};
    } else if (task.unique) {
        out->mark = own->unique_sets.items[job->target];
        out->mark_id = slice_text(job->id);
    }
}

static bool kmqueue_requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out,
                                    buffer_t *bytes, buffer_t *why) {
    kmqueue_task_t task = {0};
    size_t list = 0;
    char id[MAX_JOB_ID + 1];
    if (!kmqueue_task_read(row->payload, &task) || !json_copy_text(task.id, id, MAX_JOB_ID))
        buffer_str(why, "its payload is not a task of KMQueue");
    else if (!kmqueue_find_list(&kmqueue_config(queue)->lists, task.queue, &list))
        buffer_printf(why, "its list `%.*s` is not among `queues`", (int)task.queue.len, task.queue.data);
    if (why->len) return false;
    kmqueue_task_rewrite(&task, row->payload, 0, "normal", now_ms, bytes);
    size_t len = bytes->len;
    buffer_str(bytes, id);
    out->ready = kmqueue_config(queue)->lists.items[list];
    out->job = (slice_t){bytes->data, len};
    if (task.unique) {
        out->mark = kmqueue_config(queue)->unique_sets.items[list];
        out->mark_id = (slice_t){bytes->data + len, bytes->len - len};
    }
    return true;
}

static const rotation_ops_t kmqueue_rotation = {.kind_of = kmqueue_kind_of, .marker = kmqueue_write_marker};

static const scan_ops_t kmqueue_scan = {
    .rotation = &kmqueue_rotation,
    .bytes_tell = true,
    .blank_is_dead = true, // as in KMQueue's example of an AliveDetectHandler (MyAliveDetectHandler.java, check)
    .read = kmqueue_read_job,
    .settle = kmqueue_settle,
};

static const requeue_ops_t kmqueue_requeue = {.prepare = kmqueue_requeue_prepare};

// Rights on the sets of unique ids.
static const right_t kmqueue_rights[] = {
    {"script requeue", RIGHT_COMMANDS("SADD", "SISMEMBER", "SREM")},
    {"script settle", RIGHT_COMMANDS("SREM")},
    {"reading unique ids", RIGHT_COMMANDS("SCARD")},
    {"looking for backup lists of other names", RIGHT_COMMANDS("SCAN"), .optional = true},
    {0},
};

static const jobs_ops_t kmqueue_jobs = {.advice = "it has no delayed jobs"};

const dialect_ops_t dialect_kmqueue = {
    .settings = &kmqueue_settings,
    .scan = &kmqueue_scan,
    .side_tasks = {&kmqueue_unique_ids},
    .requeue = &kmqueue_requeue,
    .jobs = &kmqueue_jobs,
    .survey = kmqueue_survey,
    .rights = kmqueue_rights,
};
