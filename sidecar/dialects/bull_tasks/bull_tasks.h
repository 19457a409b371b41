// Side tasks that Bull and BullMQ have in common.
#pragma once

#include "dialects/bull_queue.h"
#include "dialects/bull_tasks/scripts.h"
#include "dialects/hash_job.h"
#include "dialects/job_record.h"
#include "queue/scripts.h"
#include "redis/script.h"

extern const side_task_ops_t bull_quarantine_task; // quarantine.c

// ---- The stalled check (stalled.c).

// One stalled job and its verdict.
typedef struct stalled_job {
    hash_job_t job;     // borrows from the reply
    char flags[4];      // for the settle script: r retry, e end or b broken, and what else its header lists
    size_t keys;        // that the settle script gets of this job, besides its hash and its lock
    const char *reason; // for the record
    char error[160];    // for the record of an end; else see the settle script
    char event[EVENT_ID_SIZE];
    int64_t attempts; // as in the record
} stalled_job_t;

static inline bool stalled_job_has(const stalled_job_t *c, char flag) { return strchr(c->flags, flag) != NULL; }

// How a system answers stalled jobs. Keys and arguments of the settle script are as in bull_settle.lua.
typedef struct stalled_layout {
    const hash_fields_t *fields;
    size_t counter;             // index of the field that counts stalls
    const char *const *foreign; // keys that only another system has, `foreign_count`
    size_t foreign_count;
    const script_t *settle;
    size_t settle_keys;                      // without those of jobs
    void (*append_keys)(const call_t *call); // of these KEYS[2] and those that follow
    // Gives the verdict on a job whose hash is there.
    void (*judge)(const queue_config_t *queue, stalled_job_t *c, int64_t now);
    void (*append_job_keys)(conn_t *conn, const queue_keys_t *at, const stalled_job_t *c); // c->keys of them
    void (*append_extra)(conn_t *conn, const stalled_job_t *c); // one argument, between the error and the record
    // Makes the record, without an event id. Free it with job_record_free.
    void (*record)(job_record_t *record, const call_t *call, const stalled_job_t *c);
    // Sets *fits: whether the check can serve the queue now. NULL: it can.
    outcome_t (*fit)(const call_t *call, bool *fits);
} stalled_layout_t;

void *stalled_open(const queue_keys_t *at, const stalled_layout_t *layout);
void stalled_forget(void *state);
outcome_t stalled_step(void *state, side_task_call_t *call);
outcome_t stalled_leave(void *state, side_task_call_t *call);
#define STALLED_TASK .close = free, .forget = stalled_forget, .step = stalled_step, .leave = stalled_leave

// The rights of the check, without those of the settle script; and of the quarantine.
#define STALLED_RIGHTS                                                                                                           \
    {RIGHT_SCRIPT(bull_mark)}, {RIGHT_SCRIPT(bull_stalled)}, {RIGHT_SCRIPT(quarantine_read)}, {RIGHT_SCRIPT(quarantine_settle)}, \
        {"settling many stalled jobs in one pass", RIGHT_COMMANDS("LSET"), .optional = true}, {                                  \
        "removing many marks of jobs at once", RIGHT_COMMANDS("UNLINK"), .optional = true                                        \
    }
