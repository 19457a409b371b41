// Sends the record of one failure that a worker of Bull decided.
#pragma once

#include "dialects/bull/failed_channel.h"
#include "dialects/bull/internal.h"
#include "dialects/bull/job.h"
#include "redis/reply.h"

typedef struct failed_record {
    const queue_keys_t *at;
    const char *failed; // key of the zset; borrowed
    bull_record_t event;
    const char *reason; // of the record sent last; static
} failed_record_t;

// One failure of a page: id, score, state, then its fields.
typedef struct failed_entry {
    bull_job_t job;
    const redisReply *score;
    const redisReply *state;
} failed_entry_t;

// Sends the record of an entry of `failed`.
void failed_record_send_entry(failed_record_t *record, const side_task_call_t *call, const failed_entry_t *entry);
// The same of a job that Bull has removed: records what its message says.
void failed_record_send_message(failed_record_t *record, const side_task_call_t *call, const bull_message_t *message,
                                int64_t now_ms);
void failed_record_log(const failed_record_t *record, slice_t id, const char *reason);
