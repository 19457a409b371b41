// Settings of dialect stream.
#include "dialects/stream/internal.h"

#include "config/dialect.h"

static const config_key_t stream_keys[] = {
    DIALECT_KEY("stream", KEY_REDIS, "<name>", "1", "1024", offsetof(stream_config_t, stream), false,
                "Key of the stream from which workers read jobs."),
    DIALECT_KEY("group", KEY_TEXT, NULL, "1", "1024", offsetof(stream_config_t, group), false,
                "Name of the consumer group, which must be the only one of the stream."),
    DIALECT_KEY("field", KEY_TEXT, "data", "1", "1024", offsetof(stream_config_t, field), false,
                "Field of an entry whose value is the job; promoted jobs get it."),
    DIALECT_KEY("consumer_timeout", KEY_DURATION, "30s", "50ms", "30d", offsetof(stream_config_t, consumer_timeout_ms), true,
                "With heartbeat = \"consumer\": a consumer that has read within this time is alive; it must exceed twice the "
                "BLOCK of XREADGROUP."),
};

static const config_refusal_t stream_refusals[] = {
    {"ready", "`stream` names the stream that workers read", false},
    {"backup", "the pending entries of `group` are the jobs in progress", false},
    {"ready_limit", "the length of a stream counts finished entries too", false},
};

static void stream_derive(derive_t *derive) {
    if (!derive_is_given(derive, "group"))
        derive_error(derive, "group", "it has no `group`: dialect stream needs the consumer group that workers read by");
    if (!derive_is_given(derive, "heartbeat") && derive_is_in_defaults(derive, "heartbeat"))
        derive_warning(
            derive, "heartbeat",
            "`heartbeat` of `defaults` is not for dialect stream, where * is the consumer's name: give it in the queue, "
            "or \"off\"");
}

static const char *stream_consumer_group(const queue_config_t *queue) { return stream_config(queue)->group; }

static void stream_redis_keys(const queue_config_t *queue, redis_keys_t *out) {
    const queue_policy_t *policy = &queue->policy;
    redis_keys_add_option(out, "stream", stream_config(queue)->stream, "stream", SIZE_GROUP);
    if ((policy->roles & ROLE_DISPATCHER) || policy->retry.backoff != BACKOFF_NONE)
        redis_keys_add_option(out, "delayed", queue->delayed, "zset", SIZE_DELAYED);
    if (!(policy->roles & ROLE_MONITOR)) return;
    redis_keys_add_option(out, "errors", queue->errors, "hash", SIZE_NONE);
    redis_keys_add_option(out, "dlq", queue->dlq, "stream", SIZE_NONE);
}

const config_dialect_t stream_settings = {
    .name = "stream",
    .keys = stream_keys,
    .key_count = sizeof stream_keys / sizeof *stream_keys,
    .own_size = sizeof(stream_config_t),
    .refusals = stream_refusals,
    .refusal_count = sizeof stream_refusals / sizeof *stream_refusals,
    .delays = true,
    .heartbeat_of_consumer = true,
    .derive = stream_derive,
    .consumer_group = stream_consumer_group,
    .redis_keys = stream_redis_keys,
};
