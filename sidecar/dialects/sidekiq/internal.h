// Settings of dialect sidekiq, and the interfaces between its files.
#pragma once

#include "dialects/dialect.h"
#include "dialects/job_record.h"

struct redisReply;

typedef enum sidekiq_set { SIDEKIQ_SCHEDULE, SIDEKIQ_RETRY } sidekiq_set_t;

typedef struct sidekiq_config {
    strings_t queues;   // names of queues, as Sidekiq has them
    int set;            // sidekiq_set_t: the zset that the dispatcher serves
    bool record_failed; // record the failures that workers decide
    int64_t dead_after_ms;
    int64_t min_run_ms;
    int64_t recoveries;
    int64_t recovery_window_ms;
    // Derived: keys.
    strings_t lists; // of the queues, in their order
    char *names;     // set: the names of all queues
    char *processes; // set: identities of processes
    char *dead;      // zset: jobs that failed for good
} sidekiq_config_t;

static inline sidekiq_config_t *sidekiq_config(const queue_config_t *queue) { return queue->own; }

extern const config_dialect_t sidekiq_settings;

// ---- job.c

// Members of a job. Borrowed from its bytes; len 0 = missing. Texts are raw: without quotes, escaped.
typedef struct sidekiq_job {
    slice_t jid, type, queue, created_at, enqueued_at, retry_count, error_class, error_message;
} sidekiq_job_t;

// Reads a job. False: the bytes are no JSON object, or a member that counts is there twice or has another type. Then nothing is
// known of the job.
bool sidekiq_job_read(slice_t bytes, sidekiq_job_t *out);
// The index of the job's list among sidekiq_config_t.lists. False: its queue is not in the config.
bool sidekiq_job_list(const sidekiq_config_t *own, const sidekiq_job_t *job, size_t *out);
// A time of a job in ms since 1970; 0 = unknown. Sidekiq has seconds with a fraction up to 7, whole ms from 8 on.
int64_t sidekiq_time_ms(slice_t raw);
// Appends the job as a push by Sidekiq leaves it: with one enqueued_at, in the unit of created_at. With `again` retry_count is
// one less, as SortedEntry#retry has it.
void sidekiq_job_push(slice_t bytes, const sidekiq_job_t *job, int64_t now_ms, bool again, buffer_t *out);
// Begins the record of a job. `id` names a job that cannot be read. *record comes as {0}.
void sidekiq_record_begin(job_record_t *record, const call_t *call, slice_t bytes, slice_t id, const char *reason);

// Fills in what people and the stamps see of a job. A job that cannot be read has its SHA-256 as id.
void sidekiq_job_describe(slice_t bytes, job_t *out);

// ---- work.c: the processes, and the jobs that each of them runs, as it notes them with each beat.

enum {
    SIDEKIQ_CURSOR = 24, // bytes of a cursor of SSCAN or HSCAN
    SIDEKIQ_LIVING = -1,
};

// Begins a request for names of processes from the cursor on; the caller ends it. The reply is that of SSCAN.
void sidekiq_processes_append(conn_t *conn, const queue_config_t *queue, const char *cursor);
// The key of a process that is not among the known ones; owned. NULL: it is, or may be of no process, or there are too many. Each
// of the `count` known elements of `size` bytes begins with its key.
char *sidekiq_process_key(const queue_config_t *queue, slice_t name, const void *known, size_t count, size_t size);
// "" begins, "0" has ended.
static inline bool sidekiq_cursor_ended(const char *cursor) { return !*cursor || strcmp(cursor, "0") == 0; }

// A page of the jobs of a process. Borrowed.
typedef struct sidekiq_page {
    const char *process; // key
    int64_t left_ms;     // the page is empty while the keys last longer; SIDEKIQ_LIVING = as long as they like
    int64_t bytes, jobs; // the page ends soon behind so many
    const char *cursor;
} sidekiq_page_t;

// Begins the request for it; the caller ends it. The reply is that of sidekiq_work.lua.
void sidekiq_work_append(conn_t *conn, const queue_config_t *queue, const sidekiq_page_t *page);
size_t sidekiq_work_count(const struct redisReply *reply);
slice_t sidekiq_work_field(const struct redisReply *reply, size_t index); // the thread
slice_t sidekiq_work_value(const struct redisReply *reply, size_t index);

typedef struct sidekiq_work {
    buffer_t payload; // the bytes of the job; owned
    size_t list;      // index in sidekiq_config_t.lists
    double run_at;    // when the job began, in s by the clock of the process; 0 = unknown
    char jid[MAX_JOB_ID + 1];
    digest_t stamp; // of the jid: field of stamps
} sidekiq_work_t;

// Reads a value. *out comes as {0}; free its payload in any case. False: it is no job of a queue of the config.
bool sidekiq_work_read(const sidekiq_config_t *own, slice_t value, sidekiq_work_t *out);

extern const scan_ops_t sidekiq_running;                                            // running.c
outcome_t sidekiq_adopt(const call_t *call, buffer_t *refusal);                     // adopt.c
outcome_t sidekiq_survey(const call_t *call, survey_report_fn *report, void *self); // adopt.c
extern const side_task_ops_t sidekiq_processes_task;                                // processes.c
extern const side_task_ops_t sidekiq_dead_task;                                     // dead.c
extern const requeue_ops_t sidekiq_requeue;                                         // requeue.c
