// A plain queue of one zset and lists. A delayed entry is the job itself. The score is the due time.

#include "dialects/list/internal.h"

#include "base/buffer.h"
#include "dialects/dead_letters.h"
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
        const queue_config_t *queue = call->keys->queues[asks[i].queue].config;
        const queue_policy_t *policy = &queue->policy;
        request_int(conn, asks[i].batch);
        request_text(conn, policy->score_unit == SCORE_S ? "s" : "ms");
        request_int(conn, policy->ready_limit, policy->max_payload, asks[i].skip, asks[i].bytes, asks[i].first);
        request_text(conn, list_takes_left(queue) ? "left" : "right");
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

// Retries go to the end of ready from which workers take jobs. Requeued jobs go to the other end, as promoted jobs do.
static void list_settle(const queue_keys_t *keys, const entry_t *entry, const job_t *job, bool retry, settle_where_t *out,
                        buffer_t *again) {
    (void)entry, (void)job, (void)retry, (void)again;
    out->takes_left = list_takes_left(keys->config);
    // If dlq is the list of the workers' dead letters too, an ended job must not get a second record there.
    if (list_watches(keys->config) && strcmp(keys->config->dlq, list_config(keys->config)->watch) == 0)
        out->recorded = keys->recorded;
}

static const scan_ops_t list_scan = {.rotation = &list_rotation, .settle = list_settle};

static bool list_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out, buffer_t *bytes,
                         buffer_t *why) {
    (void)row, (void)now_ms, (void)bytes, (void)why;
    out->takes_left = list_takes_left(queue);
    return true;
}

static const requeue_ops_t list_requeue = {.prepare = list_prepare};

static void list_details(const queue_config_t *queue, jobs_state_t state, jobs_range_t *range) {
    range->from_head = state == JOBS_READY && list_takes_left(queue);
}

static const jobs_ops_t list_jobs = {.details = list_details, .changes = true};

static const right_t list_rights[] = {
    {"script promote", RIGHT_COMMANDS("RPUSH"), .when = list_takes_left},
    {RIGHT_SCRIPT(dead_letters), .when = list_watches},
    {RIGHT_SCRIPT(record_once), .when = list_watches},
    {0},
};

const dialect_ops_t dialect_list = {
    .settings = &list_settings,
    .promote = &list_promote,
    .scan = &list_scan,
    .side_tasks = {&dead_letters_task},
    .requeue = &list_requeue,
    .jobs = &list_jobs,
    .rights = list_rights,
    .survey = names_survey,
};
