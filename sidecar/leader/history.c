#include "leader/history.h"

#include "base/buffer.h"
#include "base/condition.h"
#include "base/log.h"
#include "queue/history/history.h"

enum { SPREAD_MS = 2000, FIRST_MS = 100 }; // after the end of a step: other instances use the same Redis

static const char ROLE[] = "leader";

typedef struct queue_history {
    metrics_queue_t *metrics;
    int64_t step;           // that was under way at the last count; 0 = none in this term
    int64_t failures;       // counted by this instance until the end of the step before
    history_sample_t ended; // of the step before `step`, if `pending`
    bool pending;
} queue_history_t;

struct history_writer {
    const keyspace_t *keys;
    leases_t *leases;
    queue_history_t *queues;  // owned
    history_entry_t *entries; // of the requests under way; room for each queue; owned
    int step;                 // minutes; 0 = the histories are removed
    int64_t ahead_ms;         // Redis's clock minus mono_now() at the last count
    int64_t spread_ms;
    condition_t error;
};

history_writer_t *history_writer_new(const keyspace_t *keys, leases_t *leases, metrics_t *metrics) {
    history_writer_t *writer = mem_alloc(sizeof *writer);
    *writer = (history_writer_t){.keys = keys, .leases = leases, .step = history_step(keys->config)};
    writer->spread_ms = FIRST_MS + (int64_t)(SPREAD_MS * random_unit());
    writer->queues = mem_array(keys->queue_count, sizeof *writer->queues);
    writer->entries = mem_array(keys->queue_count, sizeof *writer->entries);
    for (size_t i = 0; i < keys->queue_count; i++) {
        writer->queues[i].metrics = metrics_queue(metrics, keys->queues[i].config->name);
        history_writer_restart(writer, i);
    }
    return writer;
}

void history_writer_free(history_writer_t *writer) {
    if (!writer) return;
    condition_free(&writer->error);
    free(writer->entries);
    free(writer->queues);
    free(writer);
}

// A slot has the failures that a leader has counted, and only a leader counts them: at the begin of the next term the counters
// are as they are now. `jobs cancel` ends jobs too, which no leader counts.
void history_writer_restart(history_writer_t *writer, size_t queue) {
    queue_history_t *history = &writer->queues[queue];
    *history = (queue_history_t){.metrics = history->metrics, .failures = metric_get(&history->metrics->ended)};
    metric_set(&history->metrics->lateness_step_us, 0);
}

static int64_t history_step_ms(const history_writer_t *writer) { return writer->step * INT64_C(60000); }

static int64_t history_redis_ms(const history_writer_t *writer, mono_t now) { return now.ns / NS_PER_MS + writer->ahead_ms; }

mono_t history_writer_next(const history_writer_t *writer, mono_t now) {
    if (!writer->step) return mono_never();
    int64_t step_ms = history_step_ms(writer), into_ms = history_redis_ms(writer, now) % step_ms;
    return mono_add(now, (step_ms - into_ms + writer->spread_ms) * NS_PER_MS);
}

bool history_writer_wants(const history_writer_t *writer, size_t queue, mono_t now) {
    int64_t step = writer->queues[queue].step;
    return writer->step && step && history_redis_ms(writer, now) / history_step_ms(writer) != step;
}

void history_writer_count(history_writer_t *writer, size_t queue, const sizes_t *sizes, bool whole, int64_t in_progress,
                          mono_t now) {
    queue_history_t *history = &writer->queues[queue];
    if (sizes->now_ms <= 0) return; // an error of the whole request
    writer->ahead_ms = sizes->now_ms - now.ns / NS_PER_MS;
    int64_t step = writer->step ? sizes->now_ms / history_step_ms(writer) : 1;
    if (!writer->step) history->pending = history->step != step; // once in a term
    if (!history->step || !writer->step) history->step = step;
    if (!whole || step == history->step) return;
    int64_t failures = metric_get(&history->metrics->ended), overdue_ms = sizes_overdue_ms(sizes);
    int64_t late_ms = atomic_exchange(&history->metrics->lateness_step_us, 0) / 1000;
    history->ended = (history_sample_t){.ready = sizes->ready,
                                        .delayed = sizes->delayed,
                                        .in_progress = in_progress,
                                        .late_ms = sizes->delayed < 0     ? HISTORY_UNKNOWN
                                                   : late_ms > overdue_ms ? late_ms
                                                                          : overdue_ms,
                                        .failures = failures - history->failures};
    history->failures = failures;
    history->step = step;
    history->pending = true;
}

// One request, and the part of `entries` that it stores.
typedef struct history_request {
    const history_entry_t *entries;
    size_t count;
} history_request_t;

// Moves pending samples of the lock's queues to `entries`: those of one step, for one request.
static size_t history_take_pending(history_writer_t *writer, const lock_keys_t *lock, history_entry_t *entries, int64_t *step) {
    size_t count = 0, most = history_request_queues(writer->keys->config);
    for (size_t i = 0; i < lock->queue_count && count < most; i++) {
        queue_history_t *history = &writer->queues[lock->queues[i]];
        if (!history->pending || (count && history->step != *step)) continue;
        *step = history->step;
        history->pending = false;
        entries[count++] = (history_entry_t){lock->queues[i], history->ended};
    }
    return count;
}

// Appends the requests for one lock. `request` and `entries` have room for all its queues. Returns how many there are.
static size_t history_append_lock(history_writer_t *writer, conn_t *conn, size_t lock, history_entry_t *entries,
                                  history_request_t *requests) {
    lease_t lease;
    int64_t step = 0;
    bool led = lease_get(writer->leases, lock, &lease);
    size_t count = 0, taken;
    while ((taken = history_take_pending(writer, &writer->keys->locks[lock], entries, &step)) > 0) {
        if (!led) continue;
        const call_t call = {.conn = conn, .keys = writer->keys, .queue = entries->queue, .token = lease.token};
        history_append(&call, writer->step, step - 1, entries, taken);
        requests[count++] = (history_request_t){entries, taken};
        entries += taken;
    }
    return count;
}

// Whether the error concerns the histories alone. A full Redis and a moving slot do; so does a lost lock, which the next renewal
// finds.
static bool history_is_own_error(const redis_error_t *error) {
    return error->outcome == OUTCOME_REFUSED || error->outcome == OUTCOME_FENCED || error->kind == ERROR_FULL;
}

static void history_log_error(history_writer_t *writer, const char *refusal) {
    condition_change_t change = condition_update_reason(&writer->error, refusal);
    if (change == CONDITION_BEGAN)
        log_warn(ROLE, NULL, "cannot store the history of some queues; its slots stay empty", F_STR("reason", refusal));
    if (change == CONDITION_ENDED) log_info(ROLE, NULL, "the history of all queues is stored again");
}

outcome_t history_writer_store(history_writer_t *writer, conn_t *conn, redis_error_t *error) {
    history_request_t *requests = mem_array(writer->keys->queue_count, sizeof *requests);
    history_entry_t *entries = writer->entries;
    size_t count = 0;
    redis_error_t refusal = {0};
    for (size_t i = 0; i < writer->keys->lock_count; i++) {
        size_t added = history_append_lock(writer, conn, i, entries, &requests[count]);
        for (; added > 0; added--) entries += requests[count++].count;
    }
    *error = (redis_error_t){0};
    for (size_t i = 0; i < count; i++) {
        redis_error_t found;
        const call_t call = {.conn = conn, .keys = writer->keys, .error = &found};
        if (history_read_stored(&call, requests[i].entries, requests[i].count) == OUTCOME_OK) continue;
        redis_error_keep_worse(history_is_own_error(&found) ? &refusal : error, &found);
    }
    free(requests);
    if (count && error->outcome == OUTCOME_OK) history_log_error(writer, refusal.outcome == OUTCOME_FENCED ? "" : refusal.text);
    return error->outcome;
}
