// The operations of a scan on a backup list: read the state of the list, read its entries by rotation (BRPOPLPUSH from the list
// to itself), and push the marker that closes one rotation. Rotation only changes the order of the list. So any number of
// instances may rotate the list, and an instance that dies in the middle harms nothing.
#pragma once

#include "base/buffer.h"
#include "base/digest.h"
#include "queue/call.h"

enum {
    BACKUP_PAGE = 256,     // entries of one request
    PAGES_BYTES = 4 << 20, // bytes of all entries in memory at once; a larger entry is alone in memory
    BACKUP_RANGE_BYTES = 1 << 20,
    MARKER_RANDOM_SIZE = 33, // 32 hex digits and a NUL
    MAX_MARKER = 1024,       // bytes of the longest marker; a longer entry is a job
};

struct rotation_ops;

typedef struct backup_status {
    const queue_config_t *config;        // the queue of the list; NULL = no queue
    const struct rotation_ops *rotation; // separates markers from jobs; NULL = every entry is a job
    int64_t entries;                     // entries of the list, markers included; for private lists, the number of lists
    int64_t reports;                     // reports in the errors hash; 0 also if the queue has no errors hash
    int64_t stamps;
    char random[MARKER_RANDOM_SIZE]; // random part of this list's markers; "" = the list never had a marker
    int64_t n;                       // number of the current marker; 0 = none
    int64_t now;                     // ms by Redis's clock
    bool open;                       // `entries` is an estimate: the scan reads pages until one has `ended`
    bool marker_alone;               // the current marker is the only entry of the list
    bool armed;                      // Redis sends a wake-up at the next change
    // Not part of the reply: the scan keeps these members from one state to the next.
    bool marker_met; // this scan has met a marker
    buffer_t marker; // the bytes of the last marker, owned; "" = no scan has met a marker yet
} backup_status_t;

typedef enum entry_kind {
    ENTRY_JOB,
    ENTRY_MARKER,     // the current marker: closes one rotation
    ENTRY_OLD_MARKER, // an earlier marker of this list: the scan removes it
} entry_kind_t;

// The functions by which a dialect marks the end of a rotation of its backup list.
typedef struct rotation_ops {
    bool reports; // the queue has an errors hash
    // Returns the kind of an entry. Must be fast, because the scan calls kind_of for each entry. status->marker is the last
    // marker before this entry; this scan has met it if status->marker_met, otherwise an earlier scan.
    entry_kind_t (*kind_of)(const backup_status_t *status, slice_t entry);
    // Appends the bytes of marker number status->n + 1, at most MAX_MARKER. kind_of must recognize these bytes. `random` is
    // status->random, or 32 fresh hex digits. The function may change fresh digits, but not status->random.
    void (*marker)(const backup_status_t *status, char random[MARKER_RANDOM_SIZE], buffer_t *out);
} rotation_ops_t;

// A note about an entry in progress that is not the sidecar's: a pending entry of a consumer group; of a job of Sidekiq only
// `idle_ms` since it began, and `deliveries`.
typedef struct pending_entry {
    const char *id;     // of the entry; borrowed from the reply
    slice_t consumer;   // that has it; borrowed likewise
    int64_t idle_ms;    // since then
    int64_t deliveries; // how often; 0 = no consumer has read it yet
    int64_t life_us;    // when its life began, see stamp_t.born_us; 0 = unknown
    bool deleted;       // the entry has no bytes any more
    digest_t reported;  // digest of the field of the errors hash that has its report
} pending_entry_t;

typedef struct entry {
    slice_t bytes; // owned by the page; data NULL = memory had no room: only length and digest are known
    entry_kind_t kind;
    digest_t digest; // the digest of a job
    bool behind;     // read behind the marker of a rotation: a job that came meanwhile, or one that this scan has met
    // Set if each worker has a list of its own; otherwise NULL. Borrowed from the state of scan_ops.open until the next
    // scan_ops.status_read.
    const char *from;               // the list that holds the entry
    const char *owner;              // the name of the worker
    const pending_entry_t *pending; // owned by the page; NULL: the sidecar's stamp tells all
} entry_t;

// The digest by which a report names the entry.
static inline const digest_t *entry_reported(const entry_t *entry) {
    return entry->pending ? &entry->pending->reported : &entry->digest;
}

// Entries of one request, the longest in progress first.
typedef struct backup_page {
    entry_t entries[BACKUP_PAGE];
    size_t count;
    size_t jobs;                // the number of jobs among the entries
    size_t bytes;               // bytes of the entries
    size_t largest;             // bytes of the largest one; noted by the scan
    size_t held;                // the part of `bytes` that is in memory
    size_t others;              // bytes of the other pages in memory, when this page is read
    size_t vacant;              // number of private lists that were read and are empty, or whose entry was not read
    size_t large;               // number of these lists whose entry is larger than max_payload; their entries are logged already
    const char *large_from;     // one of these lists; borrowed like entry_t.from
    bool ended;                 // the list was empty, or was read to its end
    bool in_place;              // read without rotation
    size_t place;               // in place: entries between the tail and entries[0], when the page was read
    size_t removed;             // and how many jobs the scan had settled by then
    void *replies[BACKUP_PAGE]; // the replies that own the bytes
    size_t reply_count;
    // Memory that a dialect makes for entries; owned. `pending` is NULL, or has BACKUP_PAGE elements and stays for later pages.
    pending_entry_t *pending;
    void *made[BACKUP_PAGE];
    size_t made_count;
} backup_page_t;

// Requests the sizes, the marker and the time. `known` is an earlier state with the last marker, or NULL. If `known` has no
// marker, marker_alone is not valid. `arm`: Redis sends a wake-up at the next change of the list or of the errors hash.
void backup_status_append(const call_t *call, const rotation_ops_t *rotation, const backup_status_t *known, bool arm);
// Reads the reply. An error names the key.
outcome_t backup_status_read(const call_t *call, const rotation_ops_t *rotation, bool arm, backup_status_t *out);

// Requests the number of reports, and a wake-up at the next change of the errors hash.
void backup_reports_append(const call_t *call);
int64_t backup_reports_read(const call_t *call, redis_error_t *error); // an error names the key

void backup_page_clear(backup_page_t *page);
void backup_page_free(backup_page_t *page);
// Adds a job to a page with room for it. The caller adds the reply that owns the bytes to page->replies.
entry_t *backup_page_add(backup_page_t *page, slice_t job);

// Requests `count` entries (1 to BACKUP_PAGE) by rotation. `wait`: Redis waits up to 10 ms for the first entry.
void backup_rotate_append(const call_t *call, size_t count, bool wait);
// Fills a cleared page. Stores in `status` the last marker of the page. OUTCOME_RETRY with a text that begins with "OOM": Redis
// is full and refuses to rotate.
outcome_t backup_rotate_read(const call_t *call, backup_status_t *status, size_t count, backup_page_t *page);

// A part of the list to read without rotation.
typedef struct backup_range {
    size_t skip;  // entries between the tail and the range
    size_t count; // most entries
    // If sizes are unknown, the reply is limited to BACKUP_RANGE_BYTES and one more entry.
    size_t step;  // entries that Redis reads in one step at most; 0 = all entries are small: no limit
    size_t least; // entries to read in spite of the limit
} backup_range_t;

void backup_range_append(const call_t *call, const backup_range_t *range);
outcome_t backup_range_read(const call_t *call, backup_status_t *status, const backup_range_t *range, backup_page_t *page);

// Pushes a marker after a scan that met no marker; fenced. *pushed is false if another instance pushed one first, or if the
// list is empty.
outcome_t backup_push_marker(const call_t *call, const backup_status_t *status, bool *pushed);
// Removes a marker that is not the current one, and that rotation has just put to the head.
outcome_t backup_remove_marker(const call_t *call, slice_t marker);
