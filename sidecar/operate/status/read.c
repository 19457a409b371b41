// Reads the facts of `status` from Redis, and from the audit log and the instance on this machine.

#include "audit/query/query.h"
#include "base/clock.h"
#include "base/text/time_text.h"
#include "inspect/survey.h"
#include "operate/status/status.h"
#include "role/role.h"

enum {
    STAMPS_MAX = 50000,   // jobs in progress, over all queues, whose stamps are read: some 20 ms of Redis
    LOG_TIMEOUT_MS = 500, // busy timeout of the audit log
    BEHIND_MS = 5000,     // a log that is at most so far behind is still read
    // Limits for reading the last hour from the streams.
    FIRST_ENTRIES = 8,            // of each stream in the first round; entries may hold payloads
    MAX_ENTRIES = 512,            // in one round
    MAX_BYTES = 16 * 1024 * 1024, // in all
    ROUND_BYTES = 1024 * 1024,    // after a smaller round the next one is larger
    MAX_MS = 500,                 // in all
};

status_t *status_new(const config_t *config, const atomic_bool *stop) {
    status_t *status = mem_alloc(sizeof *status);
    *status = (status_t){.config = config,
                         .keys = keyspace_new(config),
                         .stop = stop,
                         .shards = shards_new(config, "queue-sidecar-status", stop),
                         .places = mem_array(config->queue_count, sizeof *status->places),
                         .sizes = mem_array(config->queue_count, sizeof *status->sizes),
                         .recent = mem_array(config->queue_count, sizeof *status->recent)};
    snprintf(status->target, sizeof status->target, "%s", shards_target(status->shards));
    return status;
}

static void status_forget_preflight(status_t *status) {
    for (size_t i = 0; i < status->preflight_count; i++) free(status->preflight[i].text);
    free(status->preflight);
    status->preflight = NULL;
    status->preflight_count = 0;
}

void status_free(status_t *status) {
    status_forget_preflight(status);
    snapshot_free(&status->snapshot);
    servers_free(&status->servers);
    free(status->places);
    free(status->sizes);
    free(status->recent);
    shards_free(status->shards);
    keyspace_free(status->keys);
    free(status);
}

static void status_add_preflight(void *self, preflight_level_t kind, const char *queue, const char *text) {
    status_t *status = self;
    if (kind == PREFLIGHT_QUEUE_MOVING) return; // check_slot tells
    const queue_config_t *found = queue ? config_find_queue(status->config, queue) : NULL;
    size_t index = found ? (size_t)(found - status->config->queues) : SIZE_MAX;
    status->preflight = mem_grown(status->preflight, status->preflight_count, sizeof *status->preflight);
    status->preflight[status->preflight_count++] =
        (status_preflight_t){.kind = kind, .queue = index, .primary = status->servers.primary_count - 1, .text = mem_str(text)};
}

// ---- One primary.

// The dispatcher leaves oversized entries at the head of delayed, so the first job that it should have moved is behind them.
static outcome_t shard_look_behind_large(const queue_shard_t *shard, status_t *status, sizes_t *sizes) {
    anomaly_seen_t large;
    for (size_t i = 0; i < shard->keys->queue_count; i++) {
        const char *field = status->snapshot.queues[shard->keys->queues[i].number].anomalies[ANOMALY_large_delayed];
        const call_t call = {.conn = shard->conn, .keys = shard->keys, .queue = i, .error = &status->error};
        if (!field || sizes[i].delayed <= 0 || !anomaly_read(field, sizes[i].now_ms, &large)) continue;
        outcome_t outcome = sizes_read_behind(&call, large.number, &sizes[i]);
        if (outcome != OUTCOME_OK && outcome != OUTCOME_REFUSED) return outcome;
    }
    return OUTCOME_OK;
}

// Only stamps show the oldest job in progress. Does not read more than STAMPS_MAX, which would keep Redis busy.
static outcome_t shard_count_queues(const queue_shard_t *shard, status_t *status) {
    size_t count = shard->keys->queue_count;
    sizes_t *sizes = mem_array(count, sizeof *sizes);
    int64_t in_progress = 0;
    const call_t call = {.conn = shard->conn, .keys = shard->keys, .error = &status->error};
    outcome_t outcome = sizes_read(&call, count, SIZES_ENDS, sizes);
    for (size_t i = 0; outcome == OUTCOME_OK && i < count; i++)
        if (sizes[i].in_progress > 0) in_progress += sizes[i].in_progress;
    if (outcome == OUTCOME_OK && in_progress <= STAMPS_MAX) outcome = sizes_read(&call, count, SIZES_STAMPS, sizes);
    if (outcome == OUTCOME_OK) outcome = shard_look_behind_large(shard, status, sizes);
    for (size_t i = 0; i < count; i++) status->sizes[shard->keys->queues[i].number] = sizes[i];
    free(sizes);
    return outcome;
}

// Takes over what `part` owns. The memory shown is that of the fullest primary.
static void shard_take_snapshot(const queue_shard_t *shard, snapshot_t *part, status_t *status) {
    snapshot_t *all = &status->snapshot;
    for (size_t i = 0; i < part->lock_count; i++) {
        size_t queue = shard->keys->queues[shard->keys->locks[i].queues[0]].number;
        all->locks[status->keys->queues[queue].lock] = part->locks[i];
    }
    for (size_t i = 0; i < part->queue_count; i++) all->queues[shard->keys->queues[i].number] = part->queues[i];
    bool fuller = (double)part->memory_used * (double)all->memory_most > (double)all->memory_used * (double)part->memory_most;
    if (all->memory_used < 0 || (part->memory_most > 0 && (all->memory_most <= 0 || fuller))) {
        all->memory_used = part->memory_used;
        all->memory_most = part->memory_most;
    }
    if (part->now_ms > all->now_ms) all->now_ms = part->now_ms;
    part->lock_count = part->queue_count = 0;
    snapshot_free(part);
}

static void shard_find_moving(const queue_shard_t *shard, status_t *status) {
    for (size_t i = 0; i < shard->keys->queue_count; i++) {
        size_t queue = shard->keys->queues[i].number;
        const snapshot_lock_t *lock = &status->snapshot.locks[status->keys->queues[queue].lock];
        const redis_error_kind_t kinds[] = {lock->error.kind, status->snapshot.queues[queue].error.kind,
                                            status->sizes[queue].error.kind};
        status_place_t *place = &status->places[queue];
        for (size_t e = 0; e < sizeof kinds / sizeof *kinds; e++)
            if (kinds[e] == ERROR_SLOT_IS_MOVING) place->state = SLOT_MOVING;
        if (place->state == SLOT_MOVING)
            snprintf(place->why, sizeof place->why, "its slot, %u, is being moved to another node", place->slot);
    }
}

static bool shard_read_slow(const queue_shard_t *shard, status_t *status) {
    const preflight_call_t call = {shard->conn, shard->keys, status_add_preflight, status, &status->error};
    if (servers_add_primary(&status->servers, shard->conn, shard->keys->queues[0].absent, &status->error) != OUTCOME_OK)
        return false;
    for (size_t i = 0; i < shard->keys->queue_count; i++)
        status->places[shard->keys->queues[i].number].primary = status->servers.primary_count - 1;
    outcome_t outcome = preflight_read_only(&call);
    if (outcome == OUTCOME_OK) outcome = survey(&call);
    return outcome == OUTCOME_OK || outcome == OUTCOME_REFUSED;
}

static bool shard_read(const queue_shard_t *shard, bool slow, status_t *status) {
    snapshot_t part;
    outcome_t outcome = snapshot_read(shard->conn, shard->keys, &part, &status->error);
    shard_take_snapshot(shard, &part, status);
    if (outcome != OUTCOME_OK || shard_count_queues(shard, status) != OUTCOME_OK) return false;
    shard_find_moving(shard, status);
    snprintf(status->server, sizeof status->server, "%s", conn_server(shard->conn));
    return !slow || shard_read_slow(shard, status);
}

// ---- All primaries.

static void status_cut_off(status_t *status, size_t queue, const char *why) {
    status->places[queue].state = SLOT_CUT_OFF;
    snprintf(status->places[queue].why, sizeof status->places[queue].why, "%s", why);
    status->sizes[queue] = sizes_unknown;
}

static void status_begin(status_t *status, bool slow) {
    snapshot_t *snapshot = &status->snapshot;
    snapshot_free(snapshot);
    *snapshot = (snapshot_t){
        .memory_used = -1, .memory_most = -1, .lock_count = status->keys->lock_count, .queue_count = status->keys->queue_count};
    snapshot->locks = mem_array(snapshot->lock_count, sizeof *snapshot->locks);
    snapshot->queues = mem_array(snapshot->queue_count, sizeof *snapshot->queues);
    for (size_t i = 0; i < snapshot->lock_count; i++) snapshot->locks[i].pttl_ms = STATUS_UNKNOWN;
    for (size_t i = 0; i < snapshot->queue_count; i++) {
        status_place_t *place = &status->places[i];
        *place = (status_place_t){.slot = status->shards->slots[i], .primary = slow ? SIZE_MAX : place->primary};
        if (shards_is_served(status->shards, i)) continue;
        char *why = mem_printf("no node serves its slot, %u", place->slot);
        status_cut_off(status, i, why);
        free(why);
    }
}

// The primary does not answer, so nothing is known about its queues.
static void status_lose_shard(const queue_shard_t *shard, bool slow, status_t *status) {
    if (slow) servers_add_lost(&status->servers, conn_target(shard->conn), &status->error);
    for (size_t i = 0; i < shard->keys->queue_count; i++) {
        size_t queue = shard->keys->queues[i].number;
        bool gone = status->error.outcome == OUTCOME_DISCONNECTED; // then the error names the address
        char *why = gone ? mem_printf("its slot, %u: %s", status->places[queue].slot, status->error.text)
                         : mem_printf("its slot, %u, is at %s, which answers %s", status->places[queue].slot,
                                      conn_target(shard->conn), status->error.text);
        if (slow) status->places[queue].primary = status->servers.primary_count - 1;
        status_cut_off(status, queue, why);
        free(why);
    }
}

static bool status_read_redis(status_t *status, bool slow) {
    size_t reached = 0;
    if (shards_find(status->shards, slow, &status->error) != OUTCOME_OK) return false;
    slow = slow || status->slots_version != status->shards->version;
    status->slots_version = status->shards->version;
    if (slow) status_forget_preflight(status);
    if (slow) servers_forget_primaries(&status->servers);
    status_begin(status, slow);
    for (size_t i = 0; i < status->shards->count; i++) {
        const queue_shard_t *shard = &status->shards->items[i];
        role_extend_tick(0); // each primary may hang for as long as redis.timeout
        if (shard_read(shard, slow, status))
            reached++;
        else
            status_lose_shard(shard, slow, status);
    }
    snprintf(status->target, sizeof status->target, "%s", shards_target(status->shards));
    return reached > 0 || status->shards->count == 0;
}

// ---- The last hour, in a log.

const char *const status_reasons[STATUS_REASONS] = {"retries_exhausted", "reported",       "alive_timeout",
                                                    "unreadable",        "invalid_target", "dead_letter",
                                                    "worker_failed",     "cancelled",      "other"};

void status_count(status_recent_t *recent, slice_t kind, slice_t reason, int64_t count) {
    if (slice_is(kind, "retried")) recent->retried += count;
    if (slice_is(kind, "answered")) recent->answered += count;
    if (!slice_is(kind, "failed")) return;
    size_t i = 0;
    while (i < STATUS_REASONS - 1 && !slice_is(reason, status_reasons[i])) i++;
    recent->failed += count;
    recent->reasons[i] += count;
}

static void recent_add_rows(void *self, slice_t queue, slice_t kind, slice_t reason, int64_t count) {
    status_t *status = self;
    for (size_t i = 0; i < status->keys->queue_count; i++)
        if (slice_is(queue, status->keys->queues[i].config->name)) status_count(&status->recent[i], kind, reason, count);
}

static bool recent_read_log(audit_t *audit, status_t *status, buffer_t *why) {
    int64_t since = status->snapshot.now_ms - STATUS_RECENT_MS;
    bool lacks = false;
    memset(status->recent, 0, status->keys->queue_count * sizeof *status->recent);
    if (!audit_has_removed_since(audit, since, &lacks, why)) return false;
    for (size_t i = 0; i < status->keys->queue_count; i++) status->recent[i].partial = lacks;
    return audit_recent(audit, since, recent_add_rows, status, why);
}

// ---- The last hour, in the streams: reads forwards from an hour ago, all queues in one request, until all streams are at their
// end or a limit is reached.

typedef struct reading {
    const queue_shard_t *shard;
    status_t *status;
    stream_id_t *positions; // owned; "" = this queue is done
    size_t entries, bytes;  // of this round
} reading_t;

static void recent_add_entry(void *self, size_t queue, const char *id, const event_t *event, size_t bytes) {
    reading_t *reading = self;
    size_t number = reading->shard->keys->queues[queue].number;
    bool last = stream_id_compare(id, reading->status->snapshot.queues[number].stream.last) >= 0;
    snprintf(reading->positions[queue], STREAM_ID_SIZE, "%s", last ? "" : id);
    reading->entries++;
    reading->bytes += bytes;
    status_count(&reading->status->recent[number], event->kind, event->reason, 1);
}

static bool recent_is_unfinished(const reading_t *reading) {
    for (size_t i = 0; i < reading->shard->keys->queue_count; i++)
        if (*reading->positions[i]) return true;
    return false;
}

static void recent_begin_queue(reading_t *reading, size_t queue) {
    size_t number = reading->shard->keys->queues[queue].number;
    const snapshot_queue_t *snapshot = &reading->status->snapshot.queues[number];
    int64_t since = reading->status->snapshot.now_ms - STATUS_RECENT_MS;
    int64_t known = *snapshot->error.text ? STATUS_UNKNOWN : 0;
    reading->status->recent[number] = (status_recent_t){.retried = known, .failed = known};
    if (known == 0 && snapshot->stream.length > 0 && stream_id_ms(snapshot->stream.last) >= since)
        snprintf(reading->positions[queue], STREAM_ID_SIZE, "%lld-0", (long long)(since > 0 ? since - 1 : 0));
}

static void recent_read_streams(const queue_shard_t *shard, status_t *status) {
    conn_t *conn = shard->conn;
    const keyspace_t *keys = shard->keys;
    size_t all = 0;
    int64_t limit = FIRST_ENTRIES;
    mono_t end = mono_add(mono_now(), MAX_MS * NS_PER_MS);
    reading_t reading = {.shard = shard, .status = status, .positions = mem_array(keys->queue_count, sizeof *reading.positions)};
    for (size_t i = 0; i < keys->queue_count; i++) recent_begin_queue(&reading, i);
    while (recent_is_unfinished(&reading) && all < MAX_BYTES && !mono_reached(end, mono_now())) {
        redis_error_t error;
        reading.entries = reading.bytes = 0;
        stream_read_append(conn, keys, (const stream_id_t *)reading.positions, limit, 0);
        if (stream_read_take(conn, keys, recent_add_entry, &reading, NULL, &error) != OUTCOME_OK) break;
        // No entry came, because the last ones were deleted: all queues are done.
        if (reading.entries == 0) memset(reading.positions, 0, keys->queue_count * sizeof *reading.positions);
        all += reading.bytes;
        if (reading.bytes < ROUND_BYTES && limit < MAX_ENTRIES) limit *= 4;
    }
    for (size_t i = 0; i < keys->queue_count; i++) { // after a trim within the hour some records are unknown
        size_t number = keys->queues[i].number;
        int64_t trimmed_ms = stream_id_ms(status->snapshot.queues[number].stream.trimmed);
        status->recent[number].partial = *reading.positions[i] || trimmed_ms >= status->snapshot.now_ms - STATUS_RECENT_MS;
    }
    free(reading.positions);
}

// ---- The log on this machine.

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
        if (*snapshot->error.text || snapshot->stream.length == 0 || (copy && status_is_complete(snapshot, copy))) continue;
        if (status->snapshot.now_ms - stream_id_ms(copy ? copy->position : snapshot->stream.first) > BEHIND_MS) return true;
    }
    return false;
}

static void status_read_audit_log(status_t *status, bool slow) {
    int64_t gaps = status->log.open_gaps;
    buffer_t why = {0};
    status->log = (status_log_t){.open_gaps = slow ? STATUS_UNKNOWN : gaps};
    audit_t *audit = audit_open(status->config->audit.path, AUDIT_READ, &why);
    if (audit) {
        audit_set_busy_timeout(audit, LOG_TIMEOUT_MS);
        snprintf(status->log.instance, sizeof status->log.instance, "%s", audit_instance(audit));
        status->log.readable = (!slow || audit_open_gaps(audit, &status->log.open_gaps, &why)) &&
                               audit_count_unscrubbed(audit, &status->log.unscrubbed, &why);
        if (status->log.readable && status->reached && !status_log_is_behind(status) && recent_read_log(audit, status, &why))
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

void status_read(status_t *status) {
    bool slow = mono_reached(status->slow_at, mono_now());
    if (slow) status->slow_at = mono_add(mono_now(), STATUS_SLOW_MS * NS_PER_MS);
    status->wall_ms = time_now_ms();
    if (slow) servers_read_sentinels(&status->servers, &status->config->redis, status->stop);
    status->reached = status_read_redis(status, slow);
    if (!status->reached) status->slow_at = mono_now(); // read everything when Redis is back
    status_forget_recent(status);
    status_read_audit_log(status, slow);
    if (status->reached && status->source == STATUS_FROM_NOTHING) {
        for (size_t i = 0; i < status->shards->count; i++)
            if (conn_is_open(status->shards->items[i].conn)) recent_read_streams(&status->shards->items[i], status);
        status->source = STATUS_FROM_STREAM;
    }
    local_instance_read(status->config, &status->local);
}
