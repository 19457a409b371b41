// Reads the reports when a scan begins. Removes orphan reports when a scan ends.
#pragma once

#include "monitor/scan.h"

// Fills the scan's report table, up to its limit.
outcome_t reports_read(const call_t *call, scan_t *scan);

// Removes orphan reports; fenced. After an error the next scan tries again.
outcome_t reports_remove_orphans(const call_t *call, scan_t *scan);
