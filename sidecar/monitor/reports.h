// Reads the failures that workers reported when a scan begins, and removes orphan reports when it ends.
#ifndef QS_MONITOR_REPORTS_H
#define QS_MONITOR_REPORTS_H

#include "monitor/scan.h"

// Fills the scan's report table, as far as it has room.
outcome_t reports_read(const call_t *call, scan_t *scan);

// Removes orphan reports; fenced. After an error the next scan tries again.
outcome_t reports_remove_orphans(const call_t *call, scan_t *scan);

#endif
