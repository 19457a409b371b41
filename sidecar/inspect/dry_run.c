#include "inspect/dry_run.h"

#include <stdio.h>
#include <stdlib.h>

#include "dialects/registry.h"
#include "dialects/requeue.h"
#include "inspect/scratch.h"
#include "inspect/sizes.h"
#include "queue/heartbeat.h"
#include "queue/lock.h"
#include "queue/next_due.h"
#include "queue/scripts.h"
#include "queue/settle.h"
#include "queue/stream.h"
#include "redis/reply.h"
#include "redis/tracking.h"

// Reports a refusal. Returns whether the run can continue.
static bool dry_run_check(scratch_t *scratch, refusal_t refusal, const char *what, outcome_t outcome) {
    if (outcome == OUTCOME_REFUSED) scratch->refused(scratch->self, refusal, scratch->like, what, scratch->error->text);
    return outcome != OUTCOME_RETRY && outcome != OUTCOME_DISCONNECTED;
}

static bool dry_run_required(scratch_t *scratch, const char *what, outcome_t outcome) {
    return dry_run_check(scratch, REFUSAL_ALL, what, outcome);
}

static bool dry_run_script_as(scratch_t *scratch, refusal_t refusal, const script_t *script, outcome_t outcome) {
    char *what = mem_printf("script %s", script->name);
    bool goes_on = dry_run_check(scratch, refusal, what, outcome);
    free(what);
    return goes_on;
}

static bool dry_run_script(scratch_t *scratch, const script_t *script, outcome_t outcome) {
    return dry_run_script_as(scratch, REFUSAL_ALL, script, outcome);
}

static bool dry_run_optional(scratch_t *scratch, const char *what, outcome_t outcome) {
    return dry_run_check(scratch, REFUSAL_AID, what, outcome);
}

static bool dry_run_acquire(scratch_t *scratch, const char *token) {
    lock_state_t state = {0};
    const lock_call_t call = scratch_lock(scratch, token);
    outcome_t outcome = lock_acquire(&call, &state);
    lock_state_clear(&state);
    return dry_run_script(scratch, &script_acquire, outcome);
}

// Gives the queue to another group without a leader. The lock of that group would be in the same slot.
static bool dry_run_claim(scratch_t *scratch) {
    other_owner_t other_owner = {.queue = 0};
    bool yes;
    snprintf(other_owner.owner, sizeof other_owner.owner, "x%s", scratch->queue.name);
    outcome_t outcome = scratch_write(scratch, "HSET", scratch->keys->queues[0].meta, "group", other_owner.owner, &yes);
    const lock_call_t call = scratch_lock(scratch, scratch->token);
    if (outcome == OUTCOME_OK) outcome = lock_claim(&call, &other_owner, &yes);
    return dry_run_script(scratch, &script_claim, outcome);
}

static bool dry_run_lock(scratch_t *scratch) {
    char other[TOKEN_SIZE];
    const lock_call_t call = scratch_lock(scratch, scratch->token);
    token_new(other, SCRATCH_TTL_MS);
    return dry_run_acquire(scratch, scratch->token) && dry_run_acquire(scratch, other) &&
           dry_run_script(scratch, &script_renew, lock_renew(&call)) && dry_run_claim(scratch) &&
           scratch_for_all_keys(scratch, "PEXPIRE", SCRATCH_TTL_MS) == OUTCOME_OK;
}

// Two jobs. `max_payload` lets one or both pass. Promote removes one job in another way than two. A full Redis refuses the ZADD.
// An instance must be able to lead there, so promote then runs without a job.
static bool dry_run_promote(scratch_t *scratch, int64_t max_payload) {
    const dialect_ops_t *ops = dialect_ops(scratch->queue.dialect);
    promote_reply_t promoted;
    bool full;
    scratch->queue.policy.max_payload = max_payload;
    outcome_t outcome = scratch_write(scratch, "ZADD", scratch->queue.delayed, "0", "x", &full);
    if (outcome == OUTCOME_OK) outcome = scratch_write(scratch, "ZADD", scratch->queue.delayed, "0", "scratch", &full);
    if (!dry_run_script(scratch, &script_promote, outcome)) return false;
    const call_t call = scratch_call(scratch);
    ops->promote->append(&call, &(promote_request_t){.batch = 2, .first = 2});
    return dry_run_script(scratch, &script_promote, promote_read_reply(scratch->conn, &promoted, scratch->error));
}

static bool dry_run_queue(scratch_t *scratch) {
    next_due_t head;
    int64_t now_us;
    scratch->queue.policy.ready_limit = SCRATCH_LIMIT;
    if (!dry_run_promote(scratch, 1024) || !dry_run_promote(scratch, 1)) return false;
    next_due_append(scratch->conn, scratch->keys, &(next_due_request_t){0}, 1, false);
    return dry_run_script(scratch, &script_next_due, next_due_read(scratch->conn, 1, false, &head, &now_us, scratch->error));
}

// Jobs flow without this script. Only /metrics and `status` lack sizes.
static bool dry_run_sizes(scratch_t *scratch) {
    sizes_t sizes;
    const call_t call = scratch_call(scratch);
    unsigned roles = scratch->queue.policy.roles;
    scratch->queue.policy.roles = ROLE_DISPATCHER | ROLE_MONITOR;
    outcome_t outcome = sizes_read(&call, 1, SIZES_ENDS, &sizes);
    scratch->queue.policy.roles = roles;
    if (outcome == OUTCOME_OK && *sizes.error) outcome = redis_error_set(scratch->error, OUTCOME_REFUSED, "%s", sizes.error);
    return dry_run_optional(scratch, "script sizes", outcome);
}

// XADD with an id of the past, as a final failure does it. A full Redis refuses it here.
static outcome_t dry_run_add_record(scratch_t *scratch) {
    request_begin(scratch->conn, "XADD", scratch->keys->queues[0].failures, "1-2", "event", "scratch");
    outcome_t outcome = request_ask(scratch->conn, NULL, scratch->error);
    return scratch_out_of_memory(scratch->error) ? OUTCOME_OK : outcome;
}

// Waits in Redis as the auditor does, but only for a moment. In a full Redis the stream may be empty.
static outcome_t dry_run_read_stream(scratch_t *scratch) {
    redisReply *reply;
    stream_read_append(scratch->conn, scratch->keys, &(const stream_id_t){STREAM_ID_NONE}, 1, 1);
    outcome_t outcome = conn_read(scratch->conn, 0, &reply, scratch->error);
    conn_reply_free(reply);
    return outcome;
}

// Two records. The trim may remove one of them once they are acknowledged.
static bool dry_run_stream(scratch_t *scratch) {
    stream_ends_t look;
    stream_trimmed_t trimmed;
    int64_t now_ms;
    if (!dry_run_script(scratch, &script_trim, dry_run_add_record(scratch))) return false;
    if (!dry_run_script(scratch, &script_stream_ends,
                        stream_read_ends(scratch->conn, scratch->keys, &look, &now_ms, scratch->error)))
        return false;
    if (*look.error)
        dry_run_script(scratch, &script_stream_ends, redis_error_set(scratch->error, OUTCOME_REFUSED, "%s", look.error));
    if (!dry_run_required(scratch, "reading a failure stream", dry_run_read_stream(scratch))) return false;
    const call_t call = scratch_call(scratch);
    outcome_t outcome =
        stream_acknowledge(scratch->conn, scratch->keys, "preflight", &(const stream_id_t){"1-2"}, scratch->error);
    return dry_run_script(scratch, &script_acknowledge, outcome) &&
           dry_run_script(scratch, &script_trim, stream_trim(&call, &trimmed));
}

// Reads the state of the list, pushes one sentinel, rotates a little and reads the same list without rotation. A full Redis
// refuses to rotate.
static bool dry_run_backup(scratch_t *scratch) {
    backup_status_t look;
    bool pushed;
    const rotation_ops_t *rotation = dialect_ops(scratch->queue.dialect)->scan->rotation;
    const call_t call = scratch_call(scratch);
    backup_status_append(&call, rotation, NULL, false);
    outcome_t outcome = backup_status_read(&call, rotation, false, &look);
    if (!dry_run_required(scratch, "looking at a backup list", outcome)) return false;
    outcome = backup_push_sentinel(&call, &look, &pushed);
    if (!dry_run_script(scratch, &script_push_sentinel, outcome)) return false;
    backup_page_t *page = mem_alloc(sizeof *page);
    backup_rotate_append(&call, 2, true);
    outcome = backup_rotate_read(&call, &look, 2, page);
    if (scratch_out_of_memory(scratch->error)) outcome = OUTCOME_OK;
    bool ok = dry_run_required(scratch, "rotating a backup list", outcome);
    backup_page_clear(page);
    if (ok) {
        backup_range_append(&call, 0, 1);
        outcome = backup_range_read(&call, &look, 1, page);
        ok = dry_run_required(scratch, "reading a backup list", outcome);
        backup_page_clear(page);
    }
    free(page);
    return ok;
}

// Settles a job that has no stamp.
static bool dry_run_settle(scratch_t *scratch, const char *job, stamp_raw_t stamp) {
    const digest_t digest = digest_of(job, strlen(job));
    const event_t event = {.kind = slice_text("scratch")};
    const settle_where_t where = {.from = scratch->queue.backup,
                                  .ready = scratch->queue.ready,
                                  .delayed = scratch->queue.delayed,
                                  .errors = scratch->queue.errors};
    settled_t settled;
    const call_t call = scratch_call(scratch);
    settle_append(
        &call,
        &(settle_ask_t){
            .job = slice_text(job), .digest = &digest, .where = &where, .new = stamp, .depth = 9, .report = "", .event = &event});
    return dry_run_script(scratch, &script_settle, settle_read(scratch->conn, &settled, scratch->error));
}

// An operator's requeue. A full Redis refuses the script, with or without the right.
static bool dry_run_requeue(scratch_t *scratch) {
    const digest_t digest = digest_of("", 0);
    char id[DIGEST_HEX_SIZE];
    requeue_reply_t reply;
    digest_hex(&digest, id);
    const event_t event = {.kind = slice_text("scratch"), .answers = slice_text(id)};
    requeue_append(scratch->conn, scratch->keys,
                   &(requeue_request_t){.job = slice_text("again"), .digest = &digest, .by = "preflight", .record = &event});
    outcome_t outcome = requeue_read(scratch->conn, &reply, scratch->error);
    if (scratch_out_of_memory(scratch->error)) outcome = OUTCOME_OK;
    if (outcome == OUTCOME_OK && reply.kind == REQUEUE_FAILED)
        outcome = redis_error_set(scratch->error, OUTCOME_REFUSED, "%s", reply.why);
    return dry_run_script(scratch, &script_requeue, outcome);
}

static void dry_run_ignore_report(void *self, const report_ref_t *report) {
    (void)self;
    (void)report;
}

static bool dry_run_keep_none(void *self, slice_t field, slice_t value) {
    (void)self;
    (void)field;
    (void)value;
    return false;
}

// The monitor reads heartbeats by GETRANGE and EXISTS. GETRANGE gives the worker's name. Without both rights the monitor counts
// each job as alive.
static bool dry_run_heartbeat(scratch_t *scratch) {
    heartbeat_check_t look = {.key = scratch->queue.errors}; // a hash: the key exists and names no worker
    request_begin(scratch->conn, "GETRANGE");
    request_text(scratch->conn, scratch->keys->locks[0].key); // a key with a text
    request_int(scratch->conn, 0, 0);
    outcome_t outcome = request_ask(scratch->conn, NULL, scratch->error);
    return dry_run_optional(scratch, "reading a worker's name from its heartbeat", outcome) &&
           dry_run_required(scratch, "looking at a heartbeat", heartbeats_read(scratch->conn, &look, 1, scratch->error));
}

static bool dry_run_monitor(scratch_t *scratch) {
    const digest_t digest = {.bytes = {0}};
    const stamp_change_t change = {.digest = &digest};
    reports_walk_t walk = {0};
    uint64_t cursor = 0;
    const call_t call = scratch_call(scratch);
    if (!dry_run_backup(scratch) || !dry_run_heartbeat(scratch)) return false;
    outcome_t outcome = stamps_change(&call, &change, 1);
    if (!dry_run_script(scratch, &script_stamp, outcome)) return false;
    outcome = reports_scan(&call, &walk, dry_run_ignore_report, NULL);
    if (!dry_run_script(scratch, &script_reports, outcome)) return false;
    if (!dry_run_settle(scratch, "stays", (stamp_raw_t){.len = 1}) || !dry_run_settle(scratch, "ends", (stamp_raw_t){.len = 0}))
        return false;
    outcome = stamps_prune(&call, &cursor, dry_run_keep_none, NULL);
    return dry_run_script(scratch, &script_prune, outcome);
}

static bool dry_run_release(scratch_t *scratch) {
    bool removed;
    const lock_call_t call = scratch_lock(scratch, scratch->token);
    return dry_run_script(scratch, &script_break_stale_lock, lock_break_stale(&call, scratch->token, &removed)) &&
           dry_run_script(scratch, &script_release, lock_release(&call));
}

static outcome_t dry_run_publish(scratch_t *scratch) {
    request_begin(scratch->conn, "PUBLISH", scratch->keys->vacant, "");
    return request_ask(scratch->conn, NULL, scratch->error);
}

// Tests wake-ups and the vacant channel on a pair of separate connections.
static bool dry_run_tracking(scratch_t *scratch) {
    conn_t *data = conn_like(scratch->conn, "queue-sidecar-preflight");
    conn_t *ear = conn_like(scratch->conn, "queue-sidecar-preflight");
    next_due_t head;
    int64_t now_us = 0;
    outcome_t outcome = tracking_start(data, ear, scratch->error);
    if (outcome == OUTCOME_OK) {
        next_due_append(data, scratch->keys, &(next_due_request_t){0}, 1, true);
        outcome = next_due_read(data, 1, true, &head, &now_us, scratch->error);
    }
    bool ok = dry_run_optional(scratch, "waking up on a change", outcome) &&
              dry_run_optional(scratch, "listening for a vacant lock", lock_listen(ear, scratch->keys, scratch->error)) &&
              dry_run_optional(scratch, "telling of a vacant lock", dry_run_publish(scratch));
    conn_free(data);
    conn_free(ear);
    return ok;
}

static bool dry_run_dialect_script(const dry_run_t *room, const script_t *script, outcome_t outcome) {
    return dry_run_script_as(room->self, REFUSAL_DIALECT, script, outcome);
}

static unsigned dry_run_needs_of(const queue_config_t *queue) {
    const dialect_ops_t *ops = dialect_ops(queue->dialect);
    return ops->dry_run_needs ? ops->dry_run_needs(queue) : 0;
}

size_t dry_run_like(const keyspace_t *keys, size_t queue) {
    const queue_config_t *of = keys->queues[queue].config;
    size_t i = 0;
    while (keys->queues[i].config->dialect != of->dialect || dry_run_needs_of(keys->queues[i].config) != dry_run_needs_of(of))
        i++;
    return i;
}

// Runs the dialects' own scripts, once for queues that are alike. `wanted` NULL = all queues.
static bool dry_run_each_dialect(scratch_t *scratch, const keyspace_t *keys, const bool *wanted) {
    char *prefix = mem_printf("sidecar:%s:", scratch->queue.name);
    bool goes_on = true;
    for (size_t i = 0; i < keys->queue_count && goes_on; i++) {
        const queue_config_t *config = keys->queues[i].config;
        bool (*dry_run)(const dry_run_t *) = dialect_ops(config->dialect)->dry_run;
        if (!dry_run || dry_run_like(keys, i) != i || (wanted && !wanted[i])) continue;
        scratch->like = i;
        goes_on = dry_run(&(dry_run_t){.conn = scratch->conn,
                                       .keys = scratch->keys,
                                       .config = config,
                                       .prefix = prefix,
                                       .token = scratch->token,
                                       .error = scratch->error,
                                       .passed = dry_run_dialect_script,
                                       .self = scratch});
    }
    free(prefix);
    return goes_on;
}

static bool dry_run_is_monitored(const keyspace_t *keys) {
    bool any = false;
    for (size_t i = 0; i < keys->queue_count; i++) any |= (keys->queues[i].config->policy.roles & ROLE_MONITOR) != 0;
    return any;
}

// Deletes the scratch keys. `ran` false: *error is the reason of an early end.
static outcome_t dry_run_end(scratch_t *scratch, bool ran) {
    redis_error_t *error = scratch->error;
    outcome_t outcome = ran ? OUTCOME_OK : error->outcome;
    if (conn_is_open(scratch->conn)) { // the lost connection may be one of the pair
        const redis_error_t said = *error;
        if (scratch_for_all_keys(scratch, "DEL", 0) == OUTCOME_DISCONNECTED)
            outcome = OUTCOME_DISCONNECTED;
        else
            *error = said;
    }
    scratch_free(scratch);
    return outcome;
}

outcome_t dry_run_shared(conn_t *conn, const keyspace_t *keys, dry_run_fn *refused, void *self, redis_error_t *error) {
    scratch_t scratch = {.conn = conn, .refused = refused, .self = self, .error = error};
    scratch_init(&scratch, keys);
    bool ran = scratch_lay_out(&scratch) == OUTCOME_OK && dry_run_lock(&scratch) && dry_run_queue(&scratch) &&
               dry_run_stream(&scratch) && dry_run_sizes(&scratch) &&
               (!dry_run_is_monitored(keys) || (dry_run_monitor(&scratch) && dry_run_requeue(&scratch))) &&
               dry_run_each_dialect(&scratch, keys, NULL) && dry_run_tracking(&scratch) && dry_run_release(&scratch);
    return dry_run_end(&scratch, ran);
}

outcome_t dry_run_dialects(conn_t *conn, const keyspace_t *keys, const bool *wanted, dry_run_fn *refused, void *self,
                           redis_error_t *error) {
    scratch_t scratch = {.conn = conn, .refused = refused, .self = self, .error = error};
    lock_state_t state = {0};
    scratch_init(&scratch, keys);
    const lock_call_t call = scratch_lock(&scratch, scratch.token);
    bool ran = scratch_lay_out(&scratch) == OUTCOME_OK && lock_acquire(&call, &state) == OUTCOME_OK &&
               dry_run_each_dialect(&scratch, keys, wanted);
    lock_state_clear(&state);
    return dry_run_end(&scratch, ran);
}
