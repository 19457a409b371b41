// Settings of dialect bullmq, and the key names that BullMQ makes of them.
#include "config/dialect.h"
#include "dialects/bullmq/internal.h"

static const config_key_t setting_keys[] = {BULL_QUEUE_KEY, BULL_STALLED_KEYS, BULL_RECORD_FAILED_KEY};

static const config_refusal_t bullmq_refusals[] = {
    {"ready delayed backup", "`prefix` and `bull_queue` name BullMQ's keys", false},
    {"errors", "BullMQ keeps errors in the job and in its set failed; see `record_failed`", false},
    {"dlq", "BullMQ keeps failed jobs in its set failed", false},
    {"alive_timeout alive_kills", "BullMQ's workers fail a job that stalled too often; see `max_stalled`", false},
    {"protected_timeout",
     "`stalled_interval` takes its place, and the worker's lockDuration says how long a job is safe without a renewal of its "
     "lock",
     false},
    {"heartbeat", "the job's lock is its heartbeat: lockDuration and lockRenewTime of the worker", false},
    {"retry_times", "`max_stalled` takes its place for workers that die, and the job option attempts for handlers that fail",
     false},
    {"retry_window", "BullMQ counts the stalls of a job for ever, in its hash", false},
    {"retry_backoff retry_delay retry_delay_max retry_jitter", "the job option backoff takes its place", false},
    {"ready_limit", "BullMQ's option limiter takes its place", false},
    {"score_unit", "BullMQ has its own unit of scores", false},
    {"id_path created_path type_path", "BullMQ keeps id, timestamp and name in the job's hash", false},
    {"end_duplicates", "BullMQ's jobs have ids, so there are no duplicates", false},
};

// BullMQ's workers promote delayed jobs themselves, so the dispatcher is by choice.
static void bullmq_derive(derive_t *derive) {
    unsigned *roles = &derive->queue->policy.roles;
    bull_derive(derive);
    if (derive_is_given(derive, "roles")) return;
    *roles &= ROLE_MONITOR;
    if (!*roles)
        derive_error(derive, "roles",
                     "`roles` of `defaults` leaves dialect bullmq nothing to do: give the queue roles = [\"monitor\"]");
}

// The names come from BullMQ's sources (src/classes/queue-keys.ts, 5.81.5 and 6.7.0). The id of a job may contain colons, so any
// key that begins with the queue's prefix may be the hash of a job.
static void bullmq_redis_keys(const queue_config_t *queue, redis_keys_t *out) {
    static const redis_key_t keys[] = {
        {"delayed", "prefix", NULL, "zset", KEY_WRITES, SIZE_DELAYED, false, false},
        {"wait", "prefix", NULL, "list", KEY_WRITES, SIZE_READY, false, false},
        {"paused", "prefix", NULL, "list", KEY_WRITES, SIZE_READY, false, false},
        {"prioritized", "prefix", NULL, "zset", KEY_WRITES, SIZE_READY, false, false},
        {"active", "prefix", NULL, "list", KEY_WRITES, SIZE_ACTIVE, false, false},
        {"failed", "prefix", NULL, "zset", KEY_WRITES, SIZE_NONE, false, false},
        {"stalled", "prefix", NULL, "set", KEY_WRITES, SIZE_NONE, false, false},
        {"stalled-check", "prefix", NULL, "string", KEY_WRITES, SIZE_NONE, false, false},
        {"repeat", "prefix", NULL, "zset", KEY_READS, SIZE_NONE, false, false},
        {"events", "prefix", NULL, "stream", KEY_WRITES, SIZE_NONE, false, false},
        {"meta", "prefix", NULL, "hash", KEY_READS, SIZE_NONE, false, false},
        {"waiting-children", "prefix", NULL, "zset", KEY_READS, SIZE_NONE, false, false},
        {"marker", "prefix", NULL, "zset", KEY_WRITES, SIZE_NONE, false, false},
        {"id", "prefix", NULL, "string", KEY_WRITES, SIZE_NONE, false, false},
        {"pc", "prefix", NULL, "string", KEY_WRITES, SIZE_NONE, false, false},
        {"*:lock", "prefix", NULL, "string", KEY_READS, SIZE_NONE, true, false},
        {"*:unsuccessful", "prefix", NULL, "zset", KEY_WRITES, SIZE_NONE, true, false},
        {"*:failed", "prefix", NULL, "hash", KEY_WRITES, SIZE_NONE, true, false},
        {"*:dependencies", "prefix", NULL, "set", KEY_WRITES, SIZE_NONE, true, false},
        {"*", "bull_queue", NULL, "hash", KEY_WRITES, SIZE_NONE, true, true},
    };
    bull_add_keys(queue, keys, sizeof keys / sizeof *keys, out);
}

const config_dialect_t bullmq_settings = {
    .name = "bullmq",
    .keys = setting_keys,
    .key_count = sizeof setting_keys / sizeof *setting_keys,
    .own_size = sizeof(bull_config_t),
    .refusals = bullmq_refusals,
    .refusal_count = sizeof bullmq_refusals / sizeof *bullmq_refusals,
    .prefix = "bull",
    .delays = true,
    .derive = bullmq_derive,
    .release = bull_release,
    .redis_keys = bullmq_redis_keys,
};
