// The operations of a scan on a backup list: read its state, read its entries by rotation (BRPOPLPUSH onto itself), and push the
// sentinel that closes one rotation. Rotation only changes the order of the list. So any number of instances may rotate the
// list, and an instance that dies in the middle harms nothing.
#pragma once

#include "queue/call.h"
#include "queue/page.h"

// Requests the sizes, the sentinel and the time. `known` is an earlier state, or NULL. If no scan has met a sentinel since
// `known`, sentinel_alone means nothing. `arm`: Redis reports the next change of the list or of the errors hash
// (redis/tracking.h).
void backup_status_append(const call_t *call, const rotation_ops_t *rotation, const backup_status_t *known, bool arm);
// Reads the reply. An error names the key.
outcome_t backup_status_read(const call_t *call, const rotation_ops_t *rotation, bool arm, backup_status_t *out);

void backup_page_clear(backup_page_t *page);
// Adds a job to a page with room for it. The caller records the owner of the bytes in page->replies.
entry_t *backup_page_add(backup_page_t *page, slice_t job);

// Requests `count` entries (1 to BACKUP_PAGE) by rotation. `wait`: the first entry may take up to 10 ms to come.
void backup_rotate_append(const call_t *call, size_t count, bool wait);
// Fills a cleared page. Stores in `status` the last sentinel of the page. OUTCOME_RETRY with a text that begins with "OOM": Redis
// is full and refuses to rotate.
outcome_t backup_rotate_read(const call_t *call, backup_status_t *status, size_t count, backup_page_t *page);

// Requests entries without rotation, for a full Redis: `count` entries from the tail, behind `skip` others.
void backup_range_append(const call_t *call, size_t skip, size_t count);
outcome_t backup_range_read(const call_t *call, backup_status_t *status, size_t count, backup_page_t *page);

// Pushes a sentinel after a scan that met no sentinel; fenced. *pushed is false if another instance pushed one first, or if the
// list is empty.
outcome_t backup_push_sentinel(const call_t *call, const backup_status_t *status, bool *pushed);
// Removes a sentinel that is not the current one, and that rotation has just put to the head.
outcome_t backup_remove_sentinel(const call_t *call, slice_t sentinel);
