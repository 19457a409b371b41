// What Bull and BullMQ have in common: settings of a queue, key names, and how people see its jobs.
#pragma once

#include "config/dialect.h"
#include "dialects/dialect.h"

typedef struct bull_config {
    char *bull_queue;            // the queue's name in Bull
    int64_t stalled_interval_ms; // an active job without a lock has stalled after this time
    int64_t max_stalled;         // how often a job may stall
    bool record_failed;          // record the failures that workers decide
    char *base;                  // derived: the prefix of the queue's keys, without the colon
} bull_config_t;

static inline bull_config_t *bull_config(const queue_config_t *queue) { return queue->own; }

// Rows of the keys that both dialects have.
#define BULL_QUEUE_KEY                                                                                                           \
    DIALECT_KEY("bull_queue", KEY_TEXT, "<name>", "1", "256", offsetof(bull_config_t, bull_queue), false,                        \
                "Name of the queue in Bull or BullMQ, if it differs from `name`.")
#define BULL_STALLED_KEYS                                                                                                        \
    DIALECT_KEY("stalled_interval", KEY_DURATION, "30s", "1s", "1h", offsetof(bull_config_t, stalled_interval_ms), true,         \
                "How long a job without a lock must have been active before it counts as stalled; Bull's stalledInterval."),     \
        DIALECT_KEY("max_stalled", KEY_INT, "1", "0", "1000", offsetof(bull_config_t, max_stalled), true,                        \
                    "How often a job may stall before it fails; Bull's maxStalledCount.")
#define BULL_RECORD_FAILED_KEY                                                                                                   \
    DIALECT_KEY("record_failed", KEY_BOOL, "true", NULL, NULL, offsetof(bull_config_t, record_failed), true,                     \
                KEY_HELP_RECORD_FAILED)

// For config_dialect_t.
void bull_derive(derive_t *derive);
void bull_release(void *settings);
// Adds the keys; the role of each is its name behind the prefix of the queue.
void bull_add_keys(const queue_config_t *queue, const redis_key_t *keys, size_t count, redis_keys_t *out);

// Append keys to a request: `bull:video:WORD` for each word ("" = the prefix of all keys), or `bull:video:BEFORE<id>AFTER`.
#define bull_keys(conn, at, ...) bull_key_list(conn, at, LIST_OF(const char *, __VA_ARGS__))
void bull_key_list(conn_t *conn, const queue_keys_t *at, const char *const *words, size_t count);
void bull_job_key(conn_t *conn, const queue_keys_t *at, const char *before, slice_t id, const char *after);

// The field failedReason of a job that stalled too often (lib/commands/moveStalledJobsToWait-7.lua; in BullMQ
// src/commands/moveStalledJobsToWait-8.lua).
#define BULL_STALLED_REASON "job stalled more than allowable limit"

int64_t bull_due_us(const queue_config_t *queue, double score); // for promote_ops_t

// For jobs_ops_t. The fields of a hash are, in this order: data, name, timestamp, processedOn, and the number of attempts.
enum { BULL_JOBS_FIELDS = 5 };
void bull_jobs_range(const queue_config_t *queue, const char *const fields[BULL_JOBS_FIELDS], jobs_range_t *range);
void bull_jobs_read(const queue_config_t *queue, jobs_state_t state, const jobs_entry_t *entry, job_t *out, slice_t *payload);
