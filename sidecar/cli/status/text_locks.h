// Leaders and standbys, as `status` prints them. Each function adds to a line.
#pragma once

#include "base/buffer.h"
#include "inspect/snapshot.h"

void text_leader(const snapshot_lock_t *lock, int64_t now_ms, buffer_t *line);
void text_leaders(const snapshot_t *snapshot, buffer_t *line); // of many locks
void text_standbys(const snapshot_t *snapshot, buffer_t *line);
