// Tries what private_queues asks of Redis beside what every queue does, before anybody leads. For private_queues.c only.
#ifndef QS_DIALECTS_PRIVATE_QUEUES_DRY_RUN_H
#define QS_DIALECTS_PRIVATE_QUEUES_DRY_RUN_H

#include "dialects/dialect.h"

// As dialect_ops has them.
bool private_dry_run(const dry_run_t *room);
unsigned private_dry_needs(const queue_config_t *queue);

#endif
