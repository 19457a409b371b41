// Counts the last hour: in an audit log, or in the failure streams.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/query/query.h"
#include "base/clock.h"
#include "cli/status/status.h"

enum {
    FIRST_ENTRIES = 8,            // of each stream in the first round; entries may hold payloads
    MAX_ENTRIES = 512,            // in one round
    MAX_BYTES = 16 * 1024 * 1024, // in all
    ROUND_BYTES = 1024 * 1024,    // after a smaller round the next one is larger
    MAX_MS = 500,                 // in all
};

const char *const status_reasons[STATUS_REASONS] = {"retries_exhausted", "reported",    "alive_timeout", "unreadable",
                                                    "invalid_target",    "dead_letter", "worker_failed", "other"};

void status_count(status_recent_t *recent, slice_t kind, slice_t reason, int64_t count) {
    if (slice_is(kind, "retried")) recent->retried += count;
    if (!slice_is(kind, "failed")) return;
    size_t i = 0;
    while (i < STATUS_REASONS - 1 && !slice_is(reason, status_reasons[i])) i++;
    recent->failed += count;
    recent->reasons[i] += count;
}

// ---- In a log.

static void recent_take_rows(void *self, slice_t queue, slice_t kind, slice_t reason, int64_t count) {
    status_t *status = self;
    for (size_t i = 0; i < status->keys->queue_count; i++)
        if (slice_is(queue, status->keys->queues[i].config->name)) status_count(&status->recent[i], kind, reason, count);
}

bool status_read_log(audit_t *audit, status_t *status, buffer_t *why) {
    int64_t since = status->snapshot.now_ms - STATUS_RECENT_MS;
    bool lacks = false;
    memset(status->recent, 0, status->keys->queue_count * sizeof *status->recent);
    if (!audit_has_removed_since(audit, since, &lacks, why)) return false;
    for (size_t i = 0; i < status->keys->queue_count; i++) status->recent[i].partial = lacks;
    return audit_recent(audit, since, recent_take_rows, status, why);
}

// ---- In the streams: forwards from an hour ago, all queues in one request, until all are at their end or a bound is reached.

typedef struct reading {
    status_t *status;
    stream_id_t *positions; // owned; "" = this queue is done
    size_t entries, bytes;  // of this round
} reading_t;

static void recent_take_entry(void *self, size_t queue, const char *id, const event_t *event, size_t bytes) {
    reading_t *reading = self;
    bool last = stream_id_compare(id, reading->status->snapshot.queues[queue].stream.last) >= 0;
    snprintf(reading->positions[queue], STREAM_ID_SIZE, "%s", last ? "" : id);
    reading->entries++;
    reading->bytes += bytes;
    status_count(&reading->status->recent[queue], event->kind, event->reason, 1);
}

static bool recent_is_unfinished(const reading_t *reading) {
    for (size_t i = 0; i < reading->status->keys->queue_count; i++)
        if (*reading->positions[i]) return true;
    return false;
}

static void recent_begin_queue(reading_t *reading, size_t queue) {
    const snapshot_queue_t *snapshot = &reading->status->snapshot.queues[queue];
    int64_t since = reading->status->snapshot.now_ms - STATUS_RECENT_MS;
    if (*snapshot->error) return;
    reading->status->recent[queue] = (status_recent_t){0};
    if (snapshot->stream.length > 0 && stream_id_ms(snapshot->stream.last) >= since)
        snprintf(reading->positions[queue], STREAM_ID_SIZE, "%lld-0", (long long)(since > 0 ? since - 1 : 0));
}

void status_read_streams(conn_t *conn, status_t *status) {
    const keyspace_t *keys = status->keys;
    size_t all = 0;
    int64_t limit = FIRST_ENTRIES;
    mono_t end = mono_add(mono_now(), MAX_MS * NS_PER_MS);
    reading_t reading = {.status = status, .positions = mem_array(keys->queue_count, sizeof *reading.positions)};
    for (size_t i = 0; i < keys->queue_count; i++) recent_begin_queue(&reading, i);
    while (recent_is_unfinished(&reading) && all < MAX_BYTES && !mono_reached(end, mono_now())) {
        redis_error_t error;
        reading.entries = reading.bytes = 0;
        stream_read_append(conn, keys, (const stream_id_t *)reading.positions, limit, 0);
        if (stream_read_take(conn, keys, recent_take_entry, &reading, NULL, &error) != OUTCOME_OK) break;
        if (reading.entries == 0) memset(reading.positions, 0, keys->queue_count * sizeof *reading.positions); // last one deleted
        all += reading.bytes;
        if (reading.bytes < ROUND_BYTES && limit < MAX_ENTRIES) limit *= 4;
    }
    for (size_t i = 0; i < keys->queue_count; i++) // after a trim within the hour some records are unknown
        status->recent[i].partial = *reading.positions[i] || stream_id_ms(status->snapshot.queues[i].stream.trimmed) >=
                                                                 status->snapshot.now_ms - STATUS_RECENT_MS;
    free(reading.positions);
}
