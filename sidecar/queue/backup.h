// A backup list seen by a pass: a look at it, its entries by rotation (BRPOPLPUSH onto itself), and the sentinel that closes one
// rotation. Rotation only reorders, so any number of instances may do it, and one that dies in the middle harms nothing.
#ifndef QS_QUEUE_BACKUP_H
#define QS_QUEUE_BACKUP_H

#include "queue/keys.h"
#include "queue/page.h"
#include "redis/conn.h"

// For dialects whose entries are rotated (pass_ops.orders). `arm`: Redis will tell of the next change of the list or the errors
// (queue/wake.h). `known` (or NULL): an earlier look; where no pass has met a sentinel since, sentinel_alone means nothing. A
// fault names the key.
void backup_look_append(conn_t *conn, const keyspace_t *keys, size_t queue, const backup_look_t *known, bool arm);
outcome_t backup_look_read(conn_t *conn, const keyspace_t *keys, size_t queue, bool arm, backup_look_t *out,
                           redis_error_t *error);

void backup_page_clear(backup_page_t *page);
// Adds a job to a page that has room for it; the caller says in page->replies what owns its bytes.
entry_t *backup_page_add(backup_page_t *page, slice_t job);

// Asks for `count` entries (1 to BACKUP_PAGE) by rotation. `wait`: the first one may be up to 10 ms in coming.
void backup_rotate_append(conn_t *conn, const keyspace_t *keys, size_t queue, size_t count, bool wait);
// Fills a cleared page with the replies, and notes in the look which sentinel was met. OUTCOME_RETRY with a text that begins with
// "OOM": Redis is full and refuses to rotate.
outcome_t backup_rotate_read(conn_t *conn, backup_look_t *look, size_t count, backup_page_t *page, redis_error_t *error);

// The same without rotation, for a full Redis: `count` entries from the tail, behind `skip` others.
void backup_range_append(conn_t *conn, const keyspace_t *keys, size_t queue, size_t skip, size_t count);
outcome_t backup_range_read(conn_t *conn, backup_look_t *look, size_t count, backup_page_t *page, redis_error_t *error);

// Puts a sentinel where a pass met none. *planted is false when somebody else did, or the list is empty; *fenced: not our lock.
outcome_t backup_plant(conn_t *conn, const keyspace_t *keys, size_t queue, const char *token, const backup_look_t *look,
                       bool *planted, bool *fenced, redis_error_t *error);
// Removes a sentinel that is not the current one, and that rotation has just put to the head.
outcome_t backup_remove_sentinel(conn_t *conn, const keyspace_t *keys, size_t queue, slice_t sentinel, redis_error_t *error);

#endif
