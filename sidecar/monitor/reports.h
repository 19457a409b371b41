// Reads the reports of workers into the table of a scan, and removes those whose job is not in progress.
#pragma once

#include "monitor/scan/scan.h"

// Fills the report table, up to its limit, unless the scan or the search uses the reports that it knows.
outcome_t reports_read(const call_t *call, scan_t *scan);

// Removes the reports whose job two complete scans in a row did not meet; fenced. After an error the next scan tries again.
outcome_t reports_remove_orphans(const call_t *call, scan_t *scan);
