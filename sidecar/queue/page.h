// The parts of a scan, for every dialect: the state of the backup list, pages of entries, and the keys of a settle.
#ifndef QS_QUEUE_PAGE_H
#define QS_QUEUE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/digest.h"
#include "base/slice.h"
#include "config/config.h"

enum {
    BACKUP_PAGE = 256,     // entries of one request
    PAGES_BYTES = 4 << 20, // of entries that are held in memory at once, or a larger one alone
    SENTINEL_RANDOM_SIZE = 33,
    SENTINEL_MOST = 1024, // bytes of a sentinel; what is longer is none
};

struct rotation_ops;

typedef struct backup_look {
    const queue_config_t *config;        // whose list it is; NULL = nobody's
    const struct rotation_ops *rotation; // tells sentinels from jobs; NULL = every entry is a job
    int64_t entries;                     // in the list, sentinels included; of private lists: how many of them there are
    int64_t reports;                     // in the errors hash; 0 where there is none
    int64_t stamps;
    char random[SENTINEL_RANDOM_SIZE]; // of this list's sentinels; "" = it never had one
    int64_t n;                         // the current sentinel; 0 = none
    int64_t now;                       // ms by Redis's clock
    bool open;                         // entries is a guess: pages go on until one has `ended`
    bool sentinel_alone;               // the list holds the sentinel that was asked for, and nothing else
    bool armed;                        // Redis reports the next change
    // From earlier scans; the monitor carries it over.
    bool sentinel_met;            // by this scan
    size_t sentinel_len;          // 0 = none was met yet
    char sentinel[SENTINEL_MOST]; // the bytes of the one that was met last
} backup_look_t;

typedef enum entry_kind {
    ENTRY_JOB,
    ENTRY_SENTINEL,     // it closes one rotation
    ENTRY_OLD_SENTINEL, // of this list, but not the current one: it is removed
} entry_kind_t;

// How one dialect marks the end of a rotation in its backup list.
typedef struct rotation_ops {
    bool reports; // there is an errors hash
    // What kind an entry is. Called for each entry, so it must decide by a few bytes. The caller notes what is met in the look:
    // sentinel_met and sentinel tell which one came before this one, in this scan or an earlier one.
    entry_kind_t (*kind_of)(const backup_look_t *look, slice_t entry);
    // Appends the bytes of the sentinel number look->n + 1: SENTINEL_MOST at the most, and kind_of must know them again.
    // `random` is look->random, or 32 fresh hex digits, which may be changed where the list gets its first sentinel.
    void (*sentinel)(const backup_look_t *look, char random[SENTINEL_RANDOM_SIZE], buffer_t *out);
} rotation_ops_t;

typedef struct entry {
    slice_t bytes; // owned by the page; data NULL = there was no room for it: what is known is its length, and the digest
    entry_kind_t kind;
    digest_t digest; // of a job
    // Where each worker has a list of its own; else NULL. Borrowed from the state of pass_ops.open, until the next look.
    const char *from;  // the list in which it is
    const char *owner; // what names its worker
} entry_t;

// Entries of one request, the longest in progress first.
typedef struct backup_page {
    entry_t entries[BACKUP_PAGE];
    size_t count;
    size_t jobs; // of the entries
    size_t bytes;
    size_t held;                // of the bytes: those in memory
    size_t others;              // that other pages hold when this one is read
    size_t vacant;              // asked for and looked at, but nothing is there: empty private lists
    size_t large;               // of them: those whose entry is larger than max_payload and was not read; they are named already
    bool ended;                 // the list was empty, or was read to its end
    bool standing;              // read without rotation
    void *replies[BACKUP_PAGE]; // what owns the bytes
    size_t reply_count;
} backup_page_t;

// The keys and options of one settle; see settle.lua. All borrowed; NULL = none.
typedef struct settle_where {
    const char *from;    // list
    const char *ready;   // list
    const char *delayed; // zset; only where the queue has a backoff
    const char *errors;  // hash of reports
    slice_t again;       // bytes to push at a retry; len 0 = the job's own
    int64_t depth;       // entries to look at; 0 = as many as usual
    bool forget;         // a retry leaves no stamp: its bytes never come back
    const char *mark;    // set from which mark_id is removed at the end
    slice_t mark_id;
    const char *done; // set of ids: a job whose done_id it holds is neither retried nor ended, but dropped without a record
    slice_t done_id;
    const char *recorded; // zset that remembers by SHA-1 what is pushed to dlq, so that nobody takes it for another's
} settle_where_t;

#endif
