/* The facts of a healthy group with a leader, which tests change one by one. */
#pragma once

#include "cli/status/view.h"
#include "fixture.h"

enum { HOUR = 3600000, DAY = 24 * HOUR, MIB = 1024 * 1024 };
#define NOW   INT64_C(1795226400000)
#define TOKEN "0123456789abcdef0123456789abcdef-5000" /* of a TTL of 5 s */
typedef struct world {
    status_t s;
    config_t *config;
    keyspace_t *keys;
} world_t;

static inline world_t well(const char *settings) {
    world_t w = {.config = fixture_config("group = \"app\"; %s", settings)};
    w.keys = keyspace_new(w.config);
    size_t count = w.keys->queue_count;
    w.s = (status_t){.config = w.config,
                     .keys = w.keys,
                     .reached = true,
                     .wall_ms = NOW,
                     .snapshot = {.now_ms = NOW,
                                  .memory_used = 50,
                                  .memory_most = 100,
                                  .locks = mem_array(w.keys->lock_count, sizeof(snapshot_lock_t)),
                                  .queues = mem_array(count, sizeof(snapshot_queue_t)),
                                  .lock_count = w.keys->lock_count,
                                  .queue_count = count},
                     .places = mem_array(count, sizeof(status_place_t)),
                     .sizes = mem_array(count, sizeof(sizes_t)),
                     .recent = mem_array(count, sizeof(status_recent_t)),
                     .source = STATUS_FROM_LOG,
                     .log = {.readable = true},
                     .local = {.state = LOCAL_ANSWERED, .well = true}};
    for (size_t i = 0; i < w.keys->lock_count; i++)
        w.s.snapshot.locks[i] = (snapshot_lock_t){.holder = TOKEN, .pttl_ms = 4000, .leader = "pod-1/1", .since_ms = NOW - HOUR};
    for (size_t i = 0; i < count; i++) {
        w.s.snapshot.queues[i].served = true;
        snprintf(w.s.snapshot.queues[i].owner, sizeof w.s.snapshot.queues[i].owner, "%s",
                 w.keys->locks[w.keys->queues[i].lock].name);
        w.s.sizes[i] = (sizes_t){.now_ms = NOW, .next_due_ms = NOW + 1000, .oldest_in_progress_ms = SIZES_UNKNOWN};
    }
    return w;
}

static inline void end(world_t *w) {
    free(w->s.snapshot.locks);
    free(w->s.snapshot.queues);
    free(w->s.places);
    free(w->s.sizes);
    free(w->s.recent);
    free(w->s.preflight);
    keyspace_free(w->keys);
    config_free(w->config);
}
