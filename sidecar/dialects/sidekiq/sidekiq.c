// Sidekiq without Pro (sidekiq/sidekiq). The sidecar promotes its delayed jobs, gives back the jobs of killed
// processes, and records and requeues failures. A member of its zsets and an entry of its lists is the job itself.
#include "dialects/failed/failed.h"
#include "dialects/sidekiq/internal.h"
#include "dialects/sidekiq/scripts.h"
#include "queue/scripts.h"

static void sidekiq_used_append(conn_t *conn, const queue_keys_t *at) {
    const sidekiq_config_t *own = sidekiq_config(at->config);
    request_append(conn, "EXISTS", own->names, own->processes, own->dead, at->config->delayed);
}

enum { MAX_BATCH = 2000 }; // upper limit of dispatcher.batch: Lua reads each job

static void sidekiq_promote_append(const call_t *call, const promote_request_t *ask) {
    const queue_keys_t *at = call_queue(call);
    const sidekiq_config_t *own = sidekiq_config(at->config);
    call_script(call, &script_sidekiq_promote, 4 + (int)own->lists.count);
    request_text(call->conn, at->config->delayed, at->meta, own->names);
    request_text_list(call->conn, (const char *const *)own->lists.items, own->lists.count);
    request_text(call->conn, call->token, call_group(call));
    request_int(call->conn, ask->batch, at->config->policy.max_payload, ask->skip, ask->bytes, ask->first);
    request_text_list(call->conn, (const char *const *)own->queues.items, own->queues.count);
    request_end(call->conn);
}

static const promote_ops_t sidekiq_promote = {.append = sidekiq_promote_append, .due_us = promote_due_us, .max_batch = MAX_BATCH};

static bool sidekiq_is_monitored(const queue_config_t *queue) { return queue->policy.roles & ROLE_MONITOR; }
static bool sidekiq_is_dispatched(const queue_config_t *queue) { return queue->policy.roles & ROLE_DISPATCHER; }

static void sidekiq_jobs_read(const queue_config_t *queue, jobs_state_t state, const jobs_entry_t *entry, job_t *out,
                              slice_t *payload) {
    (void)queue, (void)state;
    *payload = entry->values[0];
    sidekiq_job_describe(*payload, out);
}

static const jobs_ops_t sidekiq_jobs = {.read = sidekiq_jobs_read,
                                        .in_progress = &sidekiq_running,
                                        .advice = "its jobs belong to Sidekiq: use its Web UI, or Sidekiq::ScheduledSet"};

static const right_t sidekiq_rights[] = {
    FAILED_RIGHTS,
    {"reading the processes of Sidekiq", RIGHT_COMMANDS("SSCAN", "SCARD", "HMGET", "PTTL")},
    {RIGHT_SCRIPT(sidekiq_promote), .when = sidekiq_is_dispatched},
    {RIGHT_SCRIPT(sidekiq_work), .when = sidekiq_is_monitored},
    {RIGHT_SCRIPT(sidekiq_settle), .when = sidekiq_is_monitored},
    {RIGHT_SCRIPT(sidekiq_requeue)},
    {0},
};

const dialect_ops_t dialect_sidekiq = {.settings = &sidekiq_settings,
                                       .promote = &sidekiq_promote,
                                       .side_tasks = {&sidekiq_processes_task, &sidekiq_dead_task},
                                       .requeue = &sidekiq_requeue,
                                       .jobs = &sidekiq_jobs,
                                       .adopt = sidekiq_adopt,
                                       .used_append = sidekiq_used_append,
                                       .survey = sidekiq_survey,
                                       .rights = sidekiq_rights,
                                       .leaderless_harm = "jobs of processes of Sidekiq that are killed now are lost"};
