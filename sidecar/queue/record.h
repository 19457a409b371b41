// The record of an event on its way into the failure stream. For files of queue/ only.
#ifndef QS_QUEUE_RECORD_H
#define QS_QUEUE_RECORD_H

#include "model/event.h"
#include "redis/conn.h"

// Bytes of all values that record_append gives.
size_t record_bytes(const event_t *event);

// Appends names and values of what is known of it, to a request that a script turns into an entry; without `at` and `error`,
// which the scripts add.
void record_append(conn_t *conn, const event_t *event);

#endif
