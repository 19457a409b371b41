// The servers to which a run of `audit requeue` or `audit discard` sends its requests.
#pragma once

#include "cli/audit/requeue.h"
#include "cli/shards.h"

// Owned texts; NULL = none.
typedef struct requeue_queue {
    char *refused;  // Redis's error for all failures of this queue
    char *unusable; // why no job can be added to the queue
    conn_t *conn;   // to the primary that has the queue; NULL = none, or a dry run; borrowed
} requeue_queue_t;

typedef struct requeue_servers {
    cli_shards_t *shards;    // NULL in a dry run; owned
    requeue_queue_t *queues; // one for each queue; owned
    int64_t now_ms;          // by Redis's clock, at `began`; 0 in a dry run
    mono_t began;
} requeue_servers_t;

// Fills *servers, which is empty. Returns CLI_OK, or an exit code after a message. End it with requeue_servers_end in any case.
int requeue_servers_connect(requeue_servers_t *servers, const requeue_t *requeue);
// Waits a second for one replica to have all that `conn` has written, if there is a replica: a failover to one that lacks it
// would undo it. Says so if none has it.
void requeue_servers_wait(conn_t *conn);
void requeue_servers_end(requeue_servers_t *servers, const requeue_t *requeue);
