#include "dialects/bull_queue.h"

#include <math.h>

#include "base/json/json.h"

enum { SCORE_PER_MS = 4096 }; // Bull keeps 12 bits of a counter in a score

void bull_derive(derive_t *derive) {
    queue_config_t *queue = derive->queue;
    bull_config_t *own = bull_config(queue);
    if (!*queue->prefix) derive_error(derive, "prefix", "`prefix` is \"\", but a prefix of Bull has 1 to 256 bytes");
    derive_text(&own->base, mem_printf("%s:%s", queue->prefix, own->bull_queue));
    derive_text(&queue->delayed, mem_printf("%s:delayed", own->base));
    derive_text(&queue->ready, mem_printf("%s:wait", own->base));
}

void bull_release(void *settings) { free(((bull_config_t *)settings)->base); }

void bull_add_keys(const queue_config_t *queue, const redis_key_t *keys, size_t count, redis_keys_t *out) {
    for (size_t i = 0; i < count; i++) {
        redis_key_t key = keys[i];
        key.name = mem_printf("%s:%s", bull_config(queue)->base, key.role);
        redis_keys_add(out, &key);
        free(key.name);
    }
}

void bull_job_key(conn_t *conn, const queue_keys_t *at, const char *before, slice_t id, const char *after) {
    buffer_t key = {0};
    buffer_printf(&key, "%s:%s", bull_config(at->config)->base, before);
    buffer_add(&key, id.data, id.len);
    buffer_str(&key, after);
    request_bytes(conn, key.data, key.len);
    buffer_free(&key);
}

void bull_key_list(conn_t *conn, const queue_keys_t *at, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) bull_job_key(conn, at, words[i], (slice_t){0}, "");
}

int64_t bull_due_us(const queue_config_t *queue, double score) {
    (void)queue;
    double ms = floor(score / SCORE_PER_MS);
    if (ms >= 9e15) return INT64_MAX;
    if (ms <= -9e15) return INT64_MIN;
    return (int64_t)ms * 1000;
}

void bull_jobs_range(const queue_config_t *queue, const char *const fields[BULL_JOBS_FIELDS], jobs_range_t *range) {
    range->prefix = (slice_t){queue->delayed, strlen(queue->delayed) - strlen("delayed")};
    range->fields = fields;
    range->field_count = BULL_JOBS_FIELDS;
}

void bull_jobs_read(const queue_config_t *queue, jobs_state_t state, const jobs_entry_t *entry, job_t *out, slice_t *payload) {
    const slice_t *field = &entry->values[1];
    (void)queue;
    *payload = field[0];
    *out = (job_t){.digest = digest_of(payload->data, payload->len)};
    snprintf(out->id, sizeof out->id, "%.*s", (int)entry->values[0].len, entry->values[0].data);
    snprintf(out->type, sizeof out->type, "%.*s", (int)field[1].len, field[1].data);
    json_integer(field[2], &out->created_ms);
    if (state == JOBS_IN_PROGRESS) json_integer(field[3], &out->executed_ms);
    json_integer(field[4], &out->retries_in_job);
}
