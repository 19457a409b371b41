// Tries what bull's scripts do on keys that are none; see dryrun.h.
#ifndef QS_QUEUE_DIALECTS_BULL_DRYRUN_H
#define QS_QUEUE_DIALECTS_BULL_DRYRUN_H

#include "queue/dialects/dialect.h"

bool bull_dry_run(const dryrun_room_t *room); // as dialect_ops.dry_run

#endif
