// Reads the facts of `status` from Redis, from the audit log here, and from the instance here.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/query/query.h"
#include "base/clock.h"
#include "cli/status/status.h"
#include "cli/time_text.h"

enum {
    STAMPS_MAX = 50000, // jobs in progress, over all queues, whose stamps are read: some 20 ms of Redis
    LOG_TIMEOUT_MS = 500,
    BEHIND_MS = 5000, // a log that is at most so far behind still counts
};

struct status_reader {
    status_t status;
    keyspace_t *keys;
    conn_t *conn;
    mono_t slow_at; // when the expensive facts are read again
};

status_reader_t *status_reader_new(const config_t *config, const atomic_bool *stop) {
    status_reader_t *reader = mem_alloc(sizeof *reader);
    reader->keys = keyspace_new(config);
    reader->conn = conn_new(&config->redis, "queue-sidecar-status", stop);
    reader->status.config = config;
    reader->status.keys = reader->keys;
    reader->status.sizes = mem_array(config->queue_count, sizeof *reader->status.sizes);
    reader->status.recent = mem_array(config->queue_count, sizeof *reader->status.recent);
    snprintf(reader->status.target, sizeof reader->status.target, "%s", conn_target(reader->conn));
    return reader;
}

static void status_forget_preflight(status_t *status) {
    for (size_t i = 0; i < status->preflight_count; i++) free(status->preflight[i].text);
    free(status->preflight);
    status->preflight = NULL;
    status->preflight_count = 0;
}

void status_reader_free(status_reader_t *reader) {
    status_forget_preflight(&reader->status);
    snapshot_free(&reader->status.snapshot);
    free(reader->status.sizes);
    free(reader->status.recent);
    conn_free(reader->conn);
    keyspace_free(reader->keys);
    free(reader);
}

// ---- Redis.

static void status_take_preflight(void *self, preflight_level_t kind, const char *queue, const char *text) {
    status_t *status = self;
    size_t index = SIZE_MAX;
    for (size_t i = 0; queue && i < status->keys->queue_count; i++)
        if (strcmp(status->keys->queues[i].config->name, queue) == 0) index = i;
    status->preflight = mem_grown(status->preflight, status->preflight_count, sizeof *status->preflight);
    status->preflight[status->preflight_count++] = (status_preflight_t){.kind = kind, .queue = index, .text = mem_str(text)};
}

// Only stamps know the oldest job in progress. Too many of them would keep Redis busy, so then they are not read.
static outcome_t status_count_queues(status_reader_t *reader) {
    status_t *status = &reader->status;
    const keyspace_t *keys = reader->keys;
    int64_t in_progress = 0;
    const call_t call = {.conn = reader->conn, .keys = keys, .error = &status->error};
    outcome_t outcome = sizes_read(&call, keys->queue_count, SIZES_ENDS, status->sizes);
    for (size_t i = 0; outcome == OUTCOME_OK && i < keys->queue_count; i++)
        if (status->sizes[i].in_progress > 0) in_progress += status->sizes[i].in_progress;
    if (outcome != OUTCOME_OK || in_progress > STAMPS_MAX) return outcome;
    return sizes_read(&call, keys->queue_count, SIZES_STAMPS, status->sizes);
}

static bool status_read_redis(status_reader_t *reader, bool slow) {
    status_t *status = &reader->status;
    snapshot_free(&status->snapshot);
    if (snapshot_read(reader->conn, reader->keys, &status->snapshot, &status->error) != OUTCOME_OK) return false;
    snprintf(status->server, sizeof status->server, "%s", conn_server(reader->conn));
    if (status_count_queues(reader) != OUTCOME_OK) return false;
    if (!slow) return true;
    status_forget_preflight(status);
    outcome_t outcome = preflight_read_only(reader->conn, reader->keys, status_take_preflight, status, &status->error);
    return outcome == OUTCOME_OK || outcome == OUTCOME_REFUSED;
}

// ---- The last hour, and the log here.

static void status_forget_recent(status_t *status) {
    status->source = STATUS_FROM_NOTHING;
    for (size_t i = 0; i < status->keys->queue_count; i++)
        status->recent[i] = (status_recent_t){.retried = STATUS_UNKNOWN, .failed = STATUS_UNKNOWN};
}

const snapshot_copy_t *status_own_copy(const status_t *s, size_t queue) {
    const snapshot_queue_t *snapshot = &s->snapshot.queues[queue];
    for (size_t i = 0; i < snapshot->copy_count; i++)
        if (strcmp(snapshot->copies[i].instance, s->log.instance) == 0) return &snapshot->copies[i];
    return NULL;
}

bool status_is_complete(const snapshot_queue_t *queue, const snapshot_copy_t *copy) {
    return stream_id_compare(copy->position, queue->stream.last) >= 0;
}

// After a full disk, or when its instance is gone, the log lacks recent records, which the streams have.
static bool status_log_is_behind(const status_t *status) {
    for (size_t i = 0; i < status->keys->queue_count; i++) {
        const snapshot_queue_t *snapshot = &status->snapshot.queues[i];
        const snapshot_copy_t *copy = status_own_copy(status, i);
        if (*snapshot->error || snapshot->stream.length == 0 || (copy && status_is_complete(snapshot, copy))) continue;
        if (status->snapshot.now_ms - stream_id_ms(copy ? copy->position : snapshot->stream.first) > BEHIND_MS) return true;
    }
    return false;
}

static void status_read_audit_log(status_reader_t *reader, bool slow) {
    status_t *status = &reader->status;
    int64_t gaps = status->log.open_gaps;
    buffer_t why = {0};
    status->log = (status_log_t){.open_gaps = slow ? STATUS_UNKNOWN : gaps};
    audit_t *audit = audit_open(status->config->audit.path, AUDIT_READ, &why);
    if (audit) {
        audit_set_busy_timeout(audit, LOG_TIMEOUT_MS);
        snprintf(status->log.instance, sizeof status->log.instance, "%s", audit_instance(audit));
        status->log.readable = !slow || audit_open_gaps(audit, &status->log.open_gaps, &why);
        if (status->log.readable && status->reached && !status_log_is_behind(status) && status_read_log(audit, status, &why))
            status->source = STATUS_FROM_LOG;
        else if (why.len)
            status->log.readable = false;
    } else {
        status->log.absent = access(status->config->audit.path, F_OK) != 0 && errno == ENOENT;
    }
    snprintf(status->log.why, sizeof status->log.why, "%s", buffer_text(&why));
    audit_close(audit);
    buffer_free(&why);
}

const status_t *status_read(status_reader_t *reader) {
    status_t *status = &reader->status;
    bool slow = mono_reached(reader->slow_at, mono_now());
    if (slow) reader->slow_at = mono_add(mono_now(), STATUS_SLOW_MS * NS_PER_MS);
    status->wall_ms = time_now_ms();
    status->reached = status_read_redis(reader, slow);
    if (!status->reached) reader->slow_at = mono_now(); // read everything when it is back
    status_forget_recent(status);
    status_read_audit_log(reader, slow);
    if (status->reached && status->source == STATUS_FROM_NOTHING) {
        status_read_streams(reader->conn, status);
        status->source = STATUS_FROM_STREAM;
    }
    local_instance_read(status->config, &status->local);
    return status;
}
