// The servers to which a run sends its requests.
#pragma once

#include "dialects/erase.h"
#include "operate/requeue/requeue.h"
#include "operate/shards.h"

// Owned texts; NULL = none.
typedef struct requeue_queue {
    char *refused;        // Redis's error for all failures of this queue
    char *unusable;       // why no job can be added to the queue
    conn_t *conn;         // to the primary that has the queue; NULL = none, or a dry run; borrowed
    stream_texts_t texts; // of an erasure: entries of the failure stream; owned
    bool searched;        // `texts` was filled
} requeue_queue_t;

typedef struct requeue_servers {
    queue_shards_t *shards;  // NULL in a dry run; owned
    requeue_queue_t *queues; // one for each queue; owned
    int64_t now_ms;          // by Redis's clock, at `began`; 0 in a dry run
    mono_t began;
} requeue_servers_t;

void requeue_servers_free(requeue_servers_t *servers, const requeue_t *requeue); // NULL is fine
