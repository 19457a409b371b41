// A look at a seat from outside, without taking part: for `check --redis`.
#ifndef QS_QUEUE_SEATS_H
#define QS_QUEUE_SEATS_H

#include "lease.h"
#include "queue/conn.h"
#include "queue/keys.h"

typedef struct seat_view {
    char holder[TOKEN_SIZE]; // "" = nobody leads
    int64_t pttl_ms;
    buffer_t unserved; // our queues that the leader does not serve, joined by ", "; owned
} seat_view_t;

outcome_t seat_look(conn_t *conn, const keyspace_t *keys, size_t seat, seat_view_t *view, fault_t *fault);
void seat_view_clear(seat_view_t *view);

#endif
