#include "queue/keys.h"

#include "base/buffer.h"

static char *keyspace_key(const char *name, const char *what) { return mem_printf("sidecar:%s:%s", name, what); }

char *keyspace_lock_of(const char *name) { return keyspace_key(name, "lock"); }

char *keyspace_requeued_of(slice_t queue) { return mem_printf("sidecar:%.*s:requeued", (int)queue.len, queue.data); }

static void keyspace_init_lock(lock_keys_t *lock, const char *name, size_t first_queue, size_t queue_count) {
    *lock = (lock_keys_t){.name = name,
                          .key = keyspace_lock_of(name),
                          .served = keyspace_key(name, "queues"),
                          .standbys = keyspace_key(name, "standbys"),
                          .first_queue = first_queue,
                          .queue_count = queue_count};
}

keyspace_t *keyspace_new(const config_t *config) {
    keyspace_t *keys = mem_alloc(sizeof *keys);
    bool per_queue = config->lock.scope == LOCK_SCOPE_QUEUE;
    keys->config = config;
    keys->vacant = mem_printf("sidecar:%s:vacant", config->group);
    keys->queue_count = config->queue_count;
    keys->lock_count = per_queue ? config->queue_count : 1;
    keys->locks = mem_array(keys->lock_count, sizeof *keys->locks);
    keys->queues = mem_array(keys->queue_count, sizeof *keys->queues);
    if (!per_queue) keyspace_init_lock(&keys->locks[0], config->group, 0, keys->queue_count);
    for (size_t i = 0; i < keys->queue_count; i++) {
        const queue_config_t *queue = &config->queues[i];
        keys->queues[i] = (queue_keys_t){.config = queue,
                                         .lock = per_queue ? i : 0,
                                         .meta = keyspace_key(queue->name, "meta"),
                                         .failures = keyspace_key(queue->name, "failures"),
                                         .stamps = keyspace_key(queue->name, "stamps"),
                                         .sentinel = keyspace_key(queue->name, "sentinel"),
                                         .auditors = keyspace_key(queue->name, "auditors"),
                                         .requeued = keyspace_key(queue->name, "requeued"),
                                         .quarantine = keyspace_key(queue->name, "aside"),
                                         .recorded = keyspace_key(queue->name, "recorded"),
                                         .absent = keyspace_key(queue->name, "none")};
        if (per_queue) keyspace_init_lock(&keys->locks[i], queue->name, i, 1);
    }
    return keys;
}

void keyspace_free(keyspace_t *keys) {
    if (!keys) return;
    for (size_t i = 0; i < keys->lock_count; i++) {
        free(keys->locks[i].key);
        free(keys->locks[i].served);
        free(keys->locks[i].standbys);
    }
    for (size_t i = 0; i < keys->queue_count; i++) {
        const queue_keys_t *queue = &keys->queues[i];
        char *const all[] = {queue->meta,     queue->failures,   queue->stamps,   queue->sentinel, queue->auditors,
                             queue->requeued, queue->quarantine, queue->recorded, queue->absent};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
    }
    free(keys->locks);
    free(keys->queues);
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
    const char *open = strchr(key, '{');
    const char *close = open ? strchr(open + 1, '}') : NULL;
    if (close && close > open + 1) return crc16(open + 1, (size_t)(close - open - 1)) & 16383;
    return crc16(key, strlen(key)) & 16383;
}
