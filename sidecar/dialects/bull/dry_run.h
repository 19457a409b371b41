// Tries what bull's scripts do on keys that are none; see dryrun.h.
#ifndef QS_DIALECTS_BULL_DRY_RUN_H
#define QS_DIALECTS_BULL_DRY_RUN_H

#include "dialects/dialect.h"

bool bull_dry_run(const dry_run_t *room); // as dialect_ops.dry_run

#endif
