// Settings of dialect bull, and the interfaces between its files.
#pragma once

#include "config/config.h"
#include "dialects/dialect.h"

typedef struct bull_config {
    char *bull_queue;            // the queue's name in Bull
    int64_t stalled_interval_ms; // an active job without a lock has stalled after this time
    int64_t max_stalled;         // how often a job may stall
    bool record_failed;          // record the failures that workers decide
    char *base;                  // derived: the prefix of the queue's keys, without the colon
} bull_config_t;

static inline bull_config_t *bull_config(const queue_config_t *queue) { return queue->own; }

extern const config_dialect_t bull_settings;

// Keys that only BullMQ has. A hash with such a key is a job of Bull 4 with that id.
#define BULLMQ_WORDS "events", "marker", "prioritized", "pc"
enum { BULLMQ_KEYS = 4 };

// Append keys to a request: `bull:video:WORD` for each word ("" = the prefix of all keys), or `bull:video:BEFORE<id>AFTER`.
#define bull_keys(conn, at, ...) bull_key_list(conn, at, LIST_OF(const char *, __VA_ARGS__))
void bull_key_list(conn_t *conn, const queue_keys_t *at, const char *const *words, size_t count);
void bull_job_key(conn_t *conn, const queue_keys_t *at, const char *before, slice_t id, const char *after);

extern const side_task_ops_t bull_stalled_task;    // stalled.c
extern const side_task_ops_t bull_quarantine_task; // quarantine.c
extern const side_task_ops_t bull_failed_task;     // failed.c
