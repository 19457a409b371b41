// What dialect kmqueue needs beside the scripts of all: the rights on its sets of unique ids.
#ifndef QS_DIALECTS_KMQUEUE_DRY_RUN_H
#define QS_DIALECTS_KMQUEUE_DRY_RUN_H

#include "dialects/dialect.h"

bool kmqueue_dry_run(const dry_run_t *room); // as dialect_ops.dry_run

#endif
