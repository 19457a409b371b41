// Reports that a connection has failed, and that it works again.
#pragma once

#include "redis/error.h"

typedef struct conn conn_t; // as in redis/conn.h

// A role could not use the connection. The log tells of the first failure of all connections to the shard, and then once a
// minute. It tells nothing after a change of the primary, which the watcher has logged. ERROR_IDLE is no failure.
void conn_report_failure(conn_t *conn, const char *role, const redis_error_t *error);
// The connection is open. Ends the failure that conn_report_failure has reported, if the connection was replaced since or has not
// failed for some seconds.
void conn_report_success(conn_t *conn);
// The connection is closed, because its role needs none now.
void conn_report_unused(conn_t *conn);
// The connection is about to be freed: ends it silently.
void conn_forget_failure(conn_t *conn);
