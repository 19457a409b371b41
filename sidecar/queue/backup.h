// A backup list seen by a pass: a look at it, its entries by rotation (BRPOPLPUSH onto itself), and the sentinel that closes one
// rotation. Rotation only reorders, so any number of instances may do it, and one that dies in the middle harms nothing.
#ifndef QS_QUEUE_BACKUP_H
#define QS_QUEUE_BACKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/slice.h"
#include "queue/conn.h"
#include "queue/keys.h"

enum { BACKUP_PAGE = 256, SENTINEL_RANDOM_SIZE = 33 };

typedef struct backup_look {
    int64_t entries; // in the list, sentinels included
    int64_t reports; // in the errors hash
    int64_t stamps;
    char random[SENTINEL_RANDOM_SIZE]; // of this list's sentinels; "" = it never had one
    int64_t n;                         // the current sentinel; 0 = none
    int64_t now;                       // ms by Redis's clock
    bool sentinel_alone;               // the list holds the sentinel that was asked for, and nothing else
    bool armed;                        // Redis will tell of the next change
} backup_look_t;

// `arm`: Redis will tell of the next change of the list or the errors (queue/wake.h). `known` (or NULL): an earlier look, whose
// sentinel may be the only entry. A fault names the key.
void backup_look_append(conn_t *conn, const keyspace_t *keys, size_t queue, const backup_look_t *known, bool arm);
outcome_t backup_look_read(conn_t *conn, const keyspace_t *keys, size_t queue, bool arm, backup_look_t *out, fault_t *fault);

typedef enum entry_kind {
    ENTRY_JOB,
    ENTRY_SENTINEL,
    ENTRY_OLD_SENTINEL, // of this list, with a lower number; or one that some sidecar made and that nobody here knows
} entry_kind_t;

typedef struct entry {
    slice_t bytes; // owned by the page
    entry_kind_t kind;
    digest_t digest; // of a job
} entry_t;

// Entries of one request, in the order in which they were met, the longest in backup first.
typedef struct backup_page {
    entry_t entries[BACKUP_PAGE];
    size_t count;
    size_t jobs; // of the entries
    size_t bytes;
    bool ended;                 // the list was empty, or was read to its end
    bool standing;              // read without rotation
    void *replies[BACKUP_PAGE]; // what owns the bytes
    size_t reply_count;
} backup_page_t;

void backup_page_clear(backup_page_t *page);

// Asks for `count` entries (1 to BACKUP_PAGE) by rotation. `wait`: the first one may be up to 10 ms in coming.
void backup_rotate_append(conn_t *conn, const keyspace_t *keys, size_t queue, size_t count, bool wait);
// Fills a cleared page with the replies. OUTCOME_LATER with a text that begins with "OOM": Redis is full and refuses to rotate.
outcome_t backup_rotate_read(conn_t *conn, const backup_look_t *look, size_t count, backup_page_t *page, fault_t *fault);

// The same without rotation, for a full Redis: `count` entries from the tail, behind `skip` others.
void backup_range_append(conn_t *conn, const keyspace_t *keys, size_t queue, size_t skip, size_t count);
outcome_t backup_range_read(conn_t *conn, const backup_look_t *look, size_t count, backup_page_t *page, fault_t *fault);

// Puts a sentinel where a pass met none. *planted is false when somebody else did, or the list is empty; *fenced: not our lock.
outcome_t backup_plant(conn_t *conn, const keyspace_t *keys, size_t queue, const char *token, const backup_look_t *look,
                       bool *planted, bool *fenced, fault_t *fault);
// Removes a sentinel that is not the current one, and that rotation has just put to the head.
outcome_t backup_remove_sentinel(conn_t *conn, const keyspace_t *keys, size_t queue, slice_t sentinel, fault_t *fault);

#endif
