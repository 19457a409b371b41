// Keeps the histories of the queues that this instance leads (queue/history/history.h), from the sizes that the leader counts
// anyway: once a minute by Redis's clock one request for each lock.
#pragma once

#include "base/clock.h"
#include "inspect/sizes.h"
#include "model/metrics.h"
#include "queue/keys.h"
#include "redis/conn.h"
#include "role/lease.h"

typedef struct history_writer history_writer_t;

history_writer_t *history_writer_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics); // borrows; owned
void history_writer_free(history_writer_t *writer);                                                 // NULL is fine

// The leader of the queue changes. The step in which a term begins gets a slot at its end, but no earlier one does.
void history_writer_restart(history_writer_t *writer, size_t queue);

// When the next step has ended; mono_never() = nothing to write.
mono_t history_writer_next(const history_writer_t *writer, mono_t now);
// Whether a step of the queue may have ended, so that its sizes are wanted.
bool history_writer_wants(const history_writer_t *writer, size_t queue, mono_t now);

// Takes what was counted. `whole`: by SIZES_JOBS or more; otherwise only the time of the count is used.
void history_writer_count(history_writer_t *writer, size_t queue, const sizes_t *sizes, bool whole, int64_t in_progress,
                          mono_t now);

// Stores what history_writer_count took for steps that have ended. An error of the histories is logged once until it changes, and
// is none of the caller's: returns RETRY or DISCONNECTED only if every other request would fail, too.
outcome_t history_writer_store(history_writer_t *writer, conn_t *conn, redis_error_t *error);
