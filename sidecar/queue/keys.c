#include "queue/keys.h"

#include "base/buffer.h"

static char *keyspace_key(const char *name, const char *what) { return mem_printf("sidecar:%s:%s", name, what); }

char *keyspace_lock_of(const char *name) { return keyspace_key(name, "lock"); }

char *keyspace_served_of(const char *name) { return keyspace_key(name, "queues"); }

char *keyspace_answer_of(const char *group, const char *id) { return mem_printf("sidecar:{%s}:answer:%s", group, id); }

char *keyspace_requeued_of(slice_t queue) { return mem_printf("sidecar:%.*s:requeued", (int)queue.len, queue.data); }

// Instances with different queues of one tag must agree on the lock. So its name does not depend on the queues.
static char *keyspace_lock_name(const keyspace_t *keys, const char *queue) {
    slice_t tag = config_hash_tag(queue);
    if (!keys->per_tag) return mem_str(keys->config->group);
    return tag.len ? mem_printf("{%.*s}", (int)tag.len, tag.data) : mem_str(queue);
}

// Finds the lock of the queue, or makes it.
static size_t keyspace_lock_for(keyspace_t *keys, const char *queue) {
    char *name = keyspace_lock_name(keys, queue);
    size_t index = 0;
    while (index < keys->lock_count && strcmp(keys->locks[index].name, name) != 0) index++;
    if (index < keys->lock_count) {
        free(name);
        return index;
    }
    keys->locks[keys->lock_count++] = (lock_keys_t){.name = name,
                                                    .key = keyspace_lock_of(name),
                                                    .served = keyspace_served_of(name),
                                                    .standbys = keyspace_key(name, "standbys")};
    return index;
}

static void keyspace_sort_by_lock(keyspace_t *keys) {
    size_t used = 0;
    for (size_t i = 0; i < keys->queue_count; i++) keys->locks[keys->queues[i].lock].queue_count++;
    for (size_t i = 0; i < keys->lock_count; i++) {
        keys->locks[i].queues = keys->by_lock + used;
        used += keys->locks[i].queue_count;
        keys->locks[i].queue_count = 0;
    }
    for (size_t i = 0; i < keys->queue_count; i++) {
        lock_keys_t *lock = &keys->locks[keys->queues[i].lock];
        lock->queues[lock->queue_count++] = i;
    }
}

static queue_keys_t keyspace_queue(keyspace_t *keys, size_t number) {
    const queue_config_t *queue = &keys->config->queues[number];
    return (queue_keys_t){.config = queue,
                          .number = number,
                          .lock = keyspace_lock_for(keys, queue->name),
                          .meta = keyspace_key(queue->name, "meta"),
                          .failures = keyspace_key(queue->name, "failures"),
                          .stamps = keyspace_key(queue->name, "stamps"),
                          .sentinel = keyspace_key(queue->name, "sentinel"),
                          .auditors = keyspace_key(queue->name, "auditors"),
                          .requeued = keyspace_key(queue->name, "requeued"),
                          .quarantine = keyspace_key(queue->name, "aside"),
                          .recorded = keyspace_key(queue->name, "recorded"),
                          .history = keyspace_key(queue->name, "history"),
                          .absent = keyspace_key(queue->name, "none")};
}

keyspace_t *keyspace_new(const config_t *config) { return keyspace_new_part(config, NULL); }

keyspace_t *keyspace_new_part(const config_t *config, const bool *wanted) {
    keyspace_t *keys = mem_alloc(sizeof *keys);
    size_t count = config->queue_count;
    keys->config = config;
    keys->per_tag = config_lock_scope(config, config_redis_mode(&config->redis)) == LOCK_SCOPE_QUEUE;
    keys->vacant = mem_printf("sidecar:%s:vacant", config->group);
    keys->locks = mem_array(count, sizeof *keys->locks);
    keys->queues = mem_array(count, sizeof *keys->queues);
    keys->by_lock = mem_array(count, sizeof *keys->by_lock);
    for (size_t i = 0; i < count; i++)
        if (!wanted || wanted[i]) keys->queues[keys->queue_count++] = keyspace_queue(keys, i);
    keyspace_sort_by_lock(keys);
    return keys;
}

void keyspace_free(keyspace_t *keys) {
    if (!keys) return;
    for (size_t i = 0; i < keys->lock_count; i++) {
        free(keys->locks[i].name);
        free(keys->locks[i].key);
        free(keys->locks[i].served);
        free(keys->locks[i].standbys);
    }
    for (size_t i = 0; i < keys->queue_count; i++) {
        const queue_keys_t *queue = &keys->queues[i];
        char *const all[] = {queue->meta,     queue->failures,   queue->stamps,   queue->sentinel, queue->auditors,
                             queue->requeued, queue->quarantine, queue->recorded, queue->history,  queue->absent};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
    }
    free(keys->locks);
    free(keys->queues);
    free(keys->by_lock);
    free(keys->vacant);
    free(keys);
}

static unsigned crc16(const char *bytes, size_t len) {
    unsigned crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned)(unsigned char)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
    }
    return crc;
}

unsigned keyspace_slot(const char *key) {
    slice_t tag = config_hash_tag(key);
    slice_t hashed = tag.len ? tag : slice_text(key);
    return crc16(hashed.data, hashed.len) & 16383;
}
