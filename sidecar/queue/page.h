// The parts of a scan, for every dialect: the state of the backup list, pages of entries, and the keys of a settle.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/digest.h"
#include "base/slice.h"
#include "config/config.h"

enum {
    BACKUP_PAGE = 256,     // entries of one request
    PAGES_BYTES = 4 << 20, // bytes of all entries in memory at once; a larger entry is held alone
    SENTINEL_RANDOM_SIZE = 33,
    SENTINEL_MOST = 1024, // bytes of the longest sentinel; a longer entry is a job
};

struct rotation_ops;

typedef struct backup_status {
    const queue_config_t *config;        // the queue of the list; NULL = no queue
    const struct rotation_ops *rotation; // separates sentinels from jobs; NULL = every entry is a job
    int64_t entries;                     // entries of the list, sentinels included; for private lists, the number of lists
    int64_t reports;                     // reports in the errors hash; 0 = the queue has no errors hash
    int64_t stamps;
    char random[SENTINEL_RANDOM_SIZE]; // random part of this list's sentinels; "" = the list never had a sentinel
    int64_t n;                         // number of the current sentinel; 0 = none
    int64_t now;                       // ms by Redis's clock
    bool open;                         // entries is a guess: pages go on until one has `ended`
    bool sentinel_alone;               // the current sentinel is the only entry of the list
    bool armed;                        // Redis reports the next change
    // From earlier scans; the monitor carries it over.
    bool sentinel_met;            // this scan has met a sentinel
    size_t sentinel_len;          // 0 = no scan has met a sentinel yet
    char sentinel[SENTINEL_MOST]; // the bytes of the last sentinel
} backup_status_t;

typedef enum entry_kind {
    ENTRY_JOB,
    ENTRY_SENTINEL,     // the current sentinel: closes one rotation
    ENTRY_OLD_SENTINEL, // an earlier sentinel of this list: the scan removes it
} entry_kind_t;

// The functions by which a dialect marks the end of a rotation of its backup list.
typedef struct rotation_ops {
    bool reports; // the queue has an errors hash
    // The kind of an entry. The scan calls kind_of for each entry, so a few bytes must decide. The caller stores each sentinel
    // in the state of the list. So sentinel_met and sentinel name the last sentinel before this entry, in this scan or an
    // earlier one.
    entry_kind_t (*kind_of)(const backup_status_t *status, slice_t entry);
    // Appends the bytes of sentinel number status->n + 1, at most SENTINEL_MOST. kind_of must recognize these bytes. `random` is
    // status->random, or 32 fresh hex digits. The function may change fresh digits for the first sentinel of a list.
    void (*sentinel)(const backup_status_t *status, char random[SENTINEL_RANDOM_SIZE], buffer_t *out);
} rotation_ops_t;

typedef struct entry {
    slice_t bytes; // owned by the page; data NULL = memory had no room: only length and digest are known
    entry_kind_t kind;
    digest_t digest; // the digest of a job
    // Set if each worker has a list of its own; otherwise NULL. Borrowed from the state of scan_ops.open until the next state is
    // read.
    const char *from;  // the list that holds the entry
    const char *owner; // the name of the worker
} entry_t;

// Entries of one request, the longest in progress first.
typedef struct backup_page {
    entry_t entries[BACKUP_PAGE];
    size_t count;
    size_t jobs; // the number of jobs among the entries
    size_t bytes;
    size_t held;                // the part of `bytes` that is in memory
    size_t others;              // bytes that other pages hold when this page is read
    size_t vacant;              // number of private lists that were read and are empty, or whose entry was not read
    size_t large;               // number of these lists whose entry is larger than max_payload; their entries are logged already
    bool ended;                 // the list was empty, or was read to its end
    bool in_place;              // read without rotation
    void *replies[BACKUP_PAGE]; // the replies that own the bytes
    size_t reply_count;
} backup_page_t;

// The keys and options of one settle; see settle.lua. All borrowed; NULL = none.
typedef struct settle_where {
    const char *from;    // list
    const char *ready;   // list
    const char *delayed; // zset; only where the queue has a backoff
    const char *errors;  // hash of reports
    slice_t again;       // bytes to push at a retry; len 0 = the job's own
    int64_t depth;       // number of entries to search; 0 = the usual number
    bool forget;         // a retry leaves no stamp, because the same bytes never come back
    const char *mark;    // set from which the settle removes mark_id when the job ends
    slice_t mark_id;
    const char *done; // set of ids of finished jobs; if it holds done_id, the job is dropped without a record
    slice_t done_id;
    // Zset of the SHA-1 of each job that the settle pushes to dlq, so that no scan of dlq records the job again.
    const char *recorded;
} settle_where_t;
