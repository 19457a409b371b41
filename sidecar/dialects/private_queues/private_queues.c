// Each worker moves a job into a list of its own (BLMOVE main queue-NAME RIGHT LEFT), works on the last entry of that list and
// then removes the entry (quarkus.io/blog/redis-job-queue-reloaded). So the last entry of each private list is the running job.
// A scan reads these entries in place. A job whose worker is gone goes back to the right end of main.
#include "dialects/dead_letters.h"
#include "dialects/names.h"
#include "dialects/private_queues/internal.h"
#include "dialects/private_queues/scripts.h"
#include "queue/scripts.h"

static bool private_has_registry(const queue_config_t *queue) { return *private_config(queue)->registry; }
static bool private_has_no_registry(const queue_config_t *queue) { return !*private_config(queue)->registry; }
static bool private_has_dedup(const queue_config_t *queue) { return *private_config(queue)->dedup; }
static bool private_has_dlq(const queue_config_t *queue) { return *queue->dlq; }

static const right_t private_rights[] = {
    {RIGHT_SCRIPT(private_tails)},
    {RIGHT_SCRIPT(settle)},
    {"finding private lists", RIGHT_COMMANDS("SCAN"), .when = private_has_no_registry},
    {"reading the registry", RIGHT_COMMANDS("SSCAN"), .when = private_has_registry},
    {"script settle", RIGHT_COMMANDS("SISMEMBER"), .when = private_has_dedup},
    {RIGHT_SCRIPT(dead_letters), .when = private_has_dlq},
    {RIGHT_SCRIPT(record_once), .when = private_has_dlq},
    {0},
};

static const jobs_ops_t private_jobs = {.advice = "it has no delayed jobs"};

const dialect_ops_t dialect_private_queues = {
    .settings = &private_settings,
    .jobs = &private_jobs,
    .rights = private_rights,
    .scan = &private_scan,
    .side_tasks = {&dead_letters_task},
    .survey = names_survey,
};
