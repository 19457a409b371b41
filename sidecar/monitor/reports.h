// Inside of the monitor: what workers reported is read when a pass begins, and what belongs to no job in progress is removed when
// it ends.
#ifndef QS_MONITOR_REPORTS_H
#define QS_MONITOR_REPORTS_H

#include "monitor/scan.h"

// Tells the scan of all reports that it has room for.
outcome_t monitor_reports_read(const call_t *call, scan_t *scan);

// Removes strays; fenced. One that cannot be removed stays, and the next pass tries again.
outcome_t monitor_reports_drop(const call_t *call, scan_t *scan);

#endif
