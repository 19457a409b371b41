// Each worker moves a job into a list of its own (BLMOVE main queue-NAME RIGHT LEFT), works on the last entry of that list and
// then removes the entry (quarkus.io/blog/redis-job-queue-reloaded). So the last entry of each private list is the running job.
// A scan reads these entries in place. A job whose worker is gone goes back to the right end of main.
#include "dialects/private_queues/private_queues.h"

static void private_sizes(const queue_keys_t *at, size_fn *add, void *self) { add(self, SIZE_READY, at->config->ready, NULL); }

// A requeue removes the dead letter, because its readers could requeue it a second time. A dead letter that stayed would also
// look like a later one of equal bytes.
static const requeue_ops_t private_requeue = {.leaves_dlq = true};

const dialect_ops_t dialect_private_queues = {
    .settings = &private_settings,
    .requeue = &private_requeue,
    .dry_run = private_dry_run,
    .dry_run_needs = private_dry_run_needs,
    .scan = &private_scan,
    .side_task = &dead_letters_task,
    .sizes = private_sizes,
};
