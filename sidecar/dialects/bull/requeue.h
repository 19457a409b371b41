// How an operator's requeue reaches a queue of Bull: the members of bull's requeue_ops.
#ifndef QS_DIALECTS_BULL_REQUEUE_H
#define QS_DIALECTS_BULL_REQUEUE_H

#include "dialects/dialect.h"

// False: the row holds no job of Bull.
bool bull_requeue_prepare(const queue_config_t *queue, const event_t *row, int64_t now_ms, requeue_push_t *out, buffer_t *bytes,
                          buffer_t *why);
void bull_requeue_append(conn_t *conn, const keyspace_t *keys, const struct requeue_request *ask, const requeue_push_t *where);

#endif
