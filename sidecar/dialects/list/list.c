// A plain queue of one zset and lists. A delayed entry is the job itself. The score is the due time.

#include "base/buffer.h"
#include "config/dialect.h"
#include "dialects/names.h"
#include "queue/scripts.h"

#define MARKER_PREFIX "sidecar-sentinel:"

enum { MAX_BATCH = 5000 }; // upper limit of dispatcher.batch

static void list_promote_append(const call_t *call, const promote_request_t *asks, size_t count, int64_t slice_us) {
    conn_t *conn = call->conn;
    call_script(call, &script_promote, 1 + 3 * (int)count);
    for (size_t i = 0; i < count; i++) {
        const queue_keys_t *queue = &call->keys->queues[asks[i].queue];
        request_text(conn, queue->config->delayed, queue->config->ready, queue->meta);
    }
    request_text(conn, call->token, call_group(call));
    request_int(conn, slice_us);
    for (size_t i = 0; i < count; i++) {
        const queue_policy_t *policy = &call->keys->queues[asks[i].queue].config->policy;
        request_int(conn, asks[i].batch);
        request_text(conn, policy->score_unit == SCORE_S ? "s" : "ms");
        request_int(conn, policy->ready_limit, policy->max_payload, asks[i].skip, asks[i].bytes, asks[i].first);
    }
    request_end(conn);
}

static const promote_ops_t list_promote = {.append_many = list_promote_append, .due_us = promote_due_us, .max_batch = MAX_BATCH};

enum { RANDOM_DIGITS = MARKER_RANDOM_SIZE - 1, CHOSEN_DIGITS = RANDOM_DIGITS / 2 };

// The second half of the random part is a digest of the first half. So a marker is recognized after the hash with the random
// part (sidecar:<queue>:sentinel) was deleted, and no job looks like a marker by chance.
static void marker_add_check(char random[MARKER_RANDOM_SIZE]) {
    char hex[DIGEST_HEX_SIZE];
    slice_t parts[] = {{MARKER_PREFIX, sizeof MARKER_PREFIX - 1}, {random, CHOSEN_DIGITS}};
    digest_t digest = digest_of_parts(parts, 2);
    digest_hex(&digest, hex);
    memcpy(random + CHOSEN_DIGITS, hex, CHOSEN_DIGITS);
    random[RANDOM_DIGITS] = '\0';
}

static bool marker_has_check(const char *random) {
    char expected[MARKER_RANDOM_SIZE];
    memcpy(expected, random, CHOSEN_DIGITS);
    marker_add_check(expected);
    return memcmp(expected, random, RANDOM_DIGITS) == 0;
}

// The number shows whether a marker with this list's random part is current. A marker with another random part is old: the
// hash with its random part was deleted, or the list was renamed.
static entry_kind_t list_kind_of(const backup_status_t *status, slice_t bytes) {
    static const size_t before = sizeof MARKER_PREFIX - 1 + RANDOM_DIGITS;
    if (bytes.len < before + 2 || bytes.len > before + 20) return ENTRY_JOB;
    if (memcmp(bytes.data, MARKER_PREFIX, sizeof MARKER_PREFIX - 1) != 0) return ENTRY_JOB;
    const char *random = bytes.data + sizeof MARKER_PREFIX - 1;
    const char *digits = bytes.data + before;
    if (*digits++ != ':' || strspn(digits, "0123456789") != bytes.len - before - 1) return ENTRY_JOB;
    if (*status->random && memcmp(random, status->random, RANDOM_DIGITS) == 0)
        return strtoll(digits, NULL, 10) < status->n ? ENTRY_OLD_MARKER : ENTRY_MARKER;
    return marker_has_check(random) ? ENTRY_OLD_MARKER : ENTRY_JOB;
}

static void list_marker(const backup_status_t *status, char random[MARKER_RANDOM_SIZE], buffer_t *out) {
    if (!*status->random) marker_add_check(random);
    buffer_printf(out, MARKER_PREFIX "%s:%lld", random, (long long)status->n + 1);
}

static const rotation_ops_t list_rotation = {.reports = true, .kind_of = list_kind_of, .marker = list_marker};

static const scan_ops_t list_scan = {.rotation = &list_rotation};

// This dialect uses every key that a queue's settings can name.
static void list_redis_keys(const queue_config_t *queue, redis_keys_t *out) {
    const queue_policy_t *policy = &queue->policy;
    redis_keys_add_option(out, "ready", queue->ready, "list", SIZE_READY);
    if ((policy->roles & ROLE_DISPATCHER) || policy->retry.backoff != BACKOFF_NONE)
        redis_keys_add_option(out, "delayed", queue->delayed, "zset", SIZE_DELAYED);
    if (!(policy->roles & ROLE_MONITOR)) return;
    redis_keys_add_option(out, "backup", queue->backup, "list", SIZE_BACKUP);
    redis_keys_add_option(out, "errors", queue->errors, "hash", SIZE_NONE);
    redis_keys_add_option(out, "dlq", queue->dlq, "list", SIZE_NONE);
}

static const config_dialect_t list_settings = {
    .name = "list", .delays = true, .heartbeat_of_job = true, .redis_keys = list_redis_keys};

const dialect_ops_t dialect_list = {
    .settings = &list_settings,
    .promote = &list_promote,
    .scan = &list_scan,
    .survey = names_survey,
};
