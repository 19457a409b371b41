// Settings of dialect bull, and the key names that Bull makes of them.
#include "dialects/bull/internal.h"

#include "config/dialect.h"

static const config_key_t setting_keys[] = {BULL_QUEUE_KEY, BULL_STALLED_KEYS, BULL_RECORD_FAILED_KEY};

static const config_refusal_t bull_refusals[] = {
    {"ready delayed backup", "`prefix` and `bull_queue` name Bull's keys", false},
    {"errors", "Bull keeps errors in the job and in its set failed; see `record_failed`", false},
    {"dlq", "Bull keeps failed jobs in its set failed", false},
    {"protected_timeout",
     "`stalled_interval` takes its place, and the worker's lockDuration says how long a job is safe without a renewal of its "
     "lock",
     false},
    {"alive_kills", "a worker that renews the lock of a job could not complete the job after the sidecar had ended it", false},
    {"heartbeat", "the job's lock is its heartbeat: lockDuration and lockRenewTime of the worker's settings", false},
    {"retry_times", "`max_stalled` takes its place for workers that die, and the job option attempts for handlers that fail",
     false},
    {"retry_window", "Bull counts the stalls of a job for ever, in its hash", false},
    {"retry_backoff retry_delay retry_delay_max retry_jitter", "Bull's job option backoff takes its place", false},
    {"ready_limit", "Bull's option limiter takes its place", false},
    {"score_unit", "Bull has its own unit of scores", false},
    {"id_path created_path type_path", "Bull keeps id, timestamp and name in the job's hash", false},
    {"end_duplicates", "Bull's jobs have ids, so there are no duplicates", false},
};

// The names come from Bull's sources (OptimalBits/bull, lib/queue.js, 4.16.5). The id of a job may contain colons, so any key
// that begins with the queue's prefix may be the hash of a job.
static void bull_redis_keys(const queue_config_t *queue, redis_keys_t *out) {
    static const redis_key_t keys[] = {
        {"delayed", "prefix", NULL, "zset", KEY_WRITES, SIZE_DELAYED, false, false},
        {"wait", "prefix", NULL, "list", KEY_WRITES, SIZE_READY, false, false},
        {"paused", "prefix", NULL, "list", KEY_WRITES, SIZE_READY, false, false},
        {"meta-paused", "prefix", NULL, NULL, KEY_READS, SIZE_NONE, false, false},
        {"priority", "prefix", NULL, "zset", KEY_WRITES, SIZE_NONE, false, false},
        {"active", "prefix", NULL, "list", KEY_WRITES, SIZE_ACTIVE, false, false},
        {"failed", "prefix", NULL, "zset", KEY_WRITES, SIZE_NONE, false, false},
        {"stalled", "prefix", NULL, "set", KEY_WRITES, SIZE_NONE, false, false},
        {"stalled-check", "prefix", NULL, "string", KEY_WRITES, SIZE_NONE, false, false},
        {"meta", "prefix", NULL, "hash", KEY_READS, SIZE_NONE, false, false},
        {"id", "prefix", NULL, "string", KEY_WRITES, SIZE_NONE, false, false},
        {"*", "bull_queue", NULL, "hash", KEY_WRITES, SIZE_NONE, true, true},
        {"*:lock", "prefix", NULL, "string", KEY_READS, SIZE_NONE, true, false},
        {"*:logs", "prefix", NULL, "list", KEY_WRITES, SIZE_NONE, true, false},
        {"de:*", "prefix", NULL, "string", KEY_WRITES, SIZE_NONE, true, false},
    };
    bull_add_keys(queue, keys, sizeof keys / sizeof *keys, out);
}

const config_dialect_t bull_settings = {
    .name = "bull",
    .keys = setting_keys,
    .key_count = sizeof setting_keys / sizeof *setting_keys,
    .own_size = sizeof(bull_config_t),
    .refusals = bull_refusals,
    .refusal_count = sizeof bull_refusals / sizeof *bull_refusals,
    .prefix = "bull",
    .delays = true,
    .derive = bull_derive,
    .release = bull_release,
    .redis_keys = bull_redis_keys,
};
