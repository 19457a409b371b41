// Each worker moves a job into a list of its own (BLMOVE main queue-NAME RIGHT LEFT), works on the last entry of that list and
// then removes the entry (quarkus.io/blog/redis-job-queue-reloaded). So the last entry of each private list is the running job.
// A scan reads these entries in place. A job whose worker is gone goes back to the right end of main.
#include <stdlib.h>

#include "dialects/dialect.h"
#include "dialects/private_queues/config.h"
#include "dialects/private_queues/internal.h"
#include "dialects/private_queues/lists.h"

static void *private_open(const queue_keys_t *keys) { return private_lists_new(keys); }

static void private_close(void *lists) { private_lists_free(lists); }

static void private_read_job(const queue_config_t *queue, slice_t bytes, job_t *out) { job_read(&queue->policy, bytes, out); }

// A worker has one heartbeat: * of the pattern is the worker's name.
static char *private_heartbeat(const queue_config_t *queue, const entry_t *entry, const job_t *job) {
    (void)job;
    return job_heartbeat_key(&queue->policy, entry->owner);
}

// A job without an id has its digest as id (model/job.h). No worker knows that digest.
static bool job_has_id(const job_t *job) {
    char hex[DIGEST_HEX_SIZE];
    digest_hex(&job->digest, hex);
    return strcmp(hex, job->id) != 0;
}

// `depth` is 1: settle the job only while it is the last entry.
static void private_settle(const queue_keys_t *keys, const entry_t *entry, const job_t *job, bool retry, settle_where_t *out,
                           buffer_t *again) {
    const queue_config_t *queue = keys->config;
    (void)retry;
    (void)again;
    out->from = entry->from;
    out->ready = queue->ready;
    out->depth = 1;
    if (*private_config(queue)->dedup && job_has_id(job)) {
        out->done = private_config(queue)->dedup;
        out->done_id = slice_text(job->id);
    }
    if (*queue->dlq) out->recorded = keys->recorded;
}

static const pass_ops_t private_pass = {
    .of_worker = true,
    .open = private_open,
    .close = private_close,
    .look_append = private_look_append,
    .look_read = private_look_read,
    .page_append = private_page_append,
    .page_read = private_page_read,
    .read = private_read_job,
    .heartbeat = private_heartbeat,
    .settle = private_settle,
};

static void private_sizes(const queue_keys_t *at, size_fn *add, void *self) { add(self, SIZE_READY, at->config->ready, NULL); }

// A requeue removes the dead letter, because its readers could requeue it a second time. A dead letter that stayed would also
// look like a later one of equal bytes.
static const requeue_ops_t private_requeue = {.leaves_dlq = true};

const dialect_ops_t dialect_private_queues = {
    .settings = &private_settings,
    .requeue = &private_requeue,
    .dry_run = private_dry_run,
    .dry_run_needs = private_dry_run_needs,
    .pass = &private_pass,
    .side_task = &dead_letters_task,
    .sizes = private_sizes,
};
