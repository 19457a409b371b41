// Inside of the monitor: what workers reported is read when a pass begins, and what belongs to no job in progress is removed when
// it ends.
#ifndef QS_MONITOR_REPORTS_H
#define QS_MONITOR_REPORTS_H

#include "monitor/scan.h"

// Tells the ward of all reports that it has room for.
outcome_t monitor_reports_read(conn_t *conn, const keyspace_t *keys, size_t queue, ward_t *ward, redis_error_t *error);

// Removes strays. One that cannot be removed stays, and the next pass tries again. *fenced: lock lost.
outcome_t monitor_reports_drop(conn_t *conn, const keyspace_t *keys, size_t queue, const char *token, ward_t *ward, bool *fenced,
                               redis_error_t *error);

#endif
