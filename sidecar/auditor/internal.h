// Types and functions that the files of auditor/ share. Calls go from auditor.c to read.c, then copy.c, trim.c and reconcile.c.
#pragma once

#include <stdatomic.h>

#include "auditor/share.h"
#include "base/pace.h"
#include "model/metrics.h"
#include "queue/stream.h"
#include "role/lease.h"

typedef struct auditor auditor_t; // as in auditor.h

typedef char event_id_t[EVENT_ID_SIZE];

// A request may take Redis a fourth of redis.slice: in a storm the monitor settles jobs at the same time, and other clients wait
// for both (queue/call.h).
enum { AUDITOR_SHARE = 4 };

#define BACKOFF_TRIM ((backoff_t){.first_ms = 100, .most_ms = 5000})

// The position of the log in one failure stream.
typedef struct stream_cursor {
    stream_id_t read_id;    // entries up to here were read since the stream was last reset, and are on disk
    stream_id_t logged_id;  // position in the log; the log lacks entries above this position that were trimmed
    stream_id_t acked_id;   // the last entry that was acknowledged, so the server was a primary; "0-0" = none
    event_id_t acked_event; // event id of that entry, or STREAM_NO_EVENT
    bool unproved;          // the connection is new, so the stream may have other entries than those that were read
    bool unreadable;        // the stream has an error: skip it
    bool behind;            // the stream had entries above read_id at the last read
    int64_t growth_left; // number of entries that may come before a trim can remove some; negative = a trim can remove some now
    int64_t room_left;   // bytes that may come before the stream is above stream_room; negative = it is, so a trim is urgent
    bool shrinking;      // a series of urgent trims was cut short above stream_room_low: the next one goes on
    bool prune_auditors; // a trim is due even if it can remove no entry, because it removes auditors
    mono_t trim_at;      // no trim before this, unless it is urgent
    backoff_t urgent;    // no urgent trim before urgent.retry_at: the last ones found no record with enough copies
    mono_t early_at;     // when a trim last removed records younger than stream.retain; 0 = never
} stream_cursor_t;

typedef struct auditor_redis {
    conn_t *conn;        // owned
    backoff_t backoff;   // no request before backoff.retry_at
    int64_t now_ms;      // Redis's clock; 0 = unknown
    mono_t now_at;       // when now_ms was read
    int64_t now_took_ms; // how long that read took
    bool full;           // Redis is nearly full, so every copied record makes room for jobs
} auditor_redis_t;

// Progress of pruning: one queue after the other, some markers in each step.
typedef struct requeue_markers {
    size_t queue;
    uint64_t cursor;
    mono_t at; // when the next step is due
} requeue_markers_t;

typedef struct auditor_timers {
    mono_t reconcile_at;
    size_t reconcile_from; // stream with which the next comparison begins, unless it compares all
    int64_t slots_pause_s; // the last pause between comparisons of streams in different slots; 0 = none yet
    mono_t renew_acks_at;
    mono_t certificate_at;
    mono_t auditors_at; // when to remove auditors of every stream
    mono_t memory_at;   // when to ask how full Redis is
    requeue_markers_t markers;
} auditor_timers_t;

// The XREAD that is under construction or in flight.
typedef struct stream_read {
    stream_id_t *positions; // the XREAD reads after these positions; "" = skip the stream; owned
    bool in_flight;
    mono_t deadline;  // deadline of the reply
    bool one_by_one;  // the streams are in different slots: an XREAD for each, and none that waits
    bool catching_up; // read only streams that are behind, one by one and without waiting, because their entries may be large
    size_t first;     // stream to read next
    int64_t budget;   // entries that the next reply may have
    int64_t streams;  // number of streams with entries in the last reply
    int64_t count;    // number of entries requested from each stream
    int64_t received_before; // bytes that the connection had received before this request
    int64_t careful;         // replies to acknowledge one by one before it reads ahead again: one was too large or too late
    int64_t unreleased;      // bytes of replies since memory was released
    bool release_memory;     // SQLite and malloc still have memory of many replies: release it before the next wait
} stream_read_t;

// The entries of the reply.
typedef struct stream_reply {
    stream_id_t *ends;   // id of each stream's last entry in the reply; "" = no entry; owned
    stream_id_t *firsts; // id of each stream's first entry in the reply that is new to the log; "" = no such entry; owned
    int64_t entries;
    int64_t bytes;     // of all texts
    int64_t oldest_ms; // age of the oldest entry that the log lacked
    bool write_failed; // an entry could not be written
    bool full;         // more entries may be in the streams
} stream_reply_t;

// The entries of the open transaction; after its commit, those that are not yet acknowledged.
typedef struct copied {
    stream_id_t *ends;  // id of each stream's last entry among them; "" = no entry; owned
    event_id_t *events; // event id of that entry, or STREAM_NO_EVENT; owned
    int64_t entries;    // not yet committed
    int64_t bytes;      // of their replies
    bool ack_due;       // they are committed, and not yet acknowledged
} copied_t;

struct auditor {
    const keyspace_t *keys;
    leases_t *leases;
    metrics_t *metrics;
    const atomic_bool *stop;
    audit_share_t *share;
    bool owns_share;
    audit_writer_t *writer; // of the share
    unsigned opened;        // the opening of the log to which the cursors belong; 0 = none
    auditor_redis_t redis;
    auditor_timers_t timers;
    stream_cursor_t *cursors; // cursor of each queue; owned
    stream_ends_t *states;    // state of each stream at the last read; owned
    stream_read_t read;
    stream_reply_t reply;
    copied_t copied;
    int64_t committed; // entries of the last transaction
    pace_t trim_pace;
    _Atomic int64_t missing_since_ns; // the log may lack an entry since this time (a mono_t); 0 = the log lacks none
    bool acks_unverified;             // Redis may hold acknowledgements of records that the log lacks
    bool retained;                    // the limits of retention were checked since the last transaction
};

const char *auditor_queue_name(const auditor_t *a, size_t queue);
void stream_id_set(stream_id_t id, const char *text);
int64_t auditor_redis_ms(const auditor_t *a);

// Handles a failed request: no request is sent before the back-off ends. Always false, so that a caller can return it.
bool auditor_back_off(auditor_t *a, const redis_error_t *error);

// Compares every cursor with its stream. False: the request failed. *found: a stream became unreadable.
bool auditor_reconcile(auditor_t *a, bool *found);
// The same for the streams whose turn it is: a part of them while XREAD tells of all new entries.
bool auditor_reconcile_next(auditor_t *a);

// Reads how large the streams with new entries in the reply are, and up to where they are trimmed. Inserts a gap for each that
// was trimmed beyond the position of the log before the new entries were read. False: a write or a request failed.
bool auditor_check_reply(auditor_t *a);

// Acknowledges in Redis every record up to `positions`. Logs a refusal; the next renewal tries again. False: the request
// failed.
bool auditor_acknowledge(auditor_t *a, const stream_id_t *positions);
// The streams have new records, so a leader asks soon how full Redis is.
void auditor_want_memory(auditor_t *a);
// Reconciles, renews acknowledgements, prunes requeue markers and trims, if these are due. False: a request failed.
bool auditor_run_timers(auditor_t *a);
// Prunes some requeue markers of the queues that this instance leads, if it is due. A marker prevents a second requeue. Once a
// marker is older than audit.retain, no log still holds the row of the failure, so the marker can go. `redis_ms` is Redis's time.
// OUTCOME_REFUSED concerns one queue; that queue is skipped.
outcome_t requeue_markers_step(requeue_markers_t *markers, conn_t *conn, const keyspace_t *keys, leases_t *leases,
                               int64_t redis_ms, redis_error_t *error);
mono_t auditor_next_timer(auditor_t *a);

// While the log is closed: trims streams above stream_room, because other auditors may have copied them. Returns when to call it
// again.
mono_t auditor_trim_for_others(auditor_t *a);
// Whether this instance leads any queue.
bool auditor_leads(auditor_t *a);

// Up to where the stream was read, with the entries of the open transaction.
const char *auditor_copied_end(const auditor_t *a, size_t queue);
// The position of the log in the stream, with the entries of the open transaction.
const char *auditor_position(const auditor_t *a, size_t queue);
// Whether the open transaction is to be committed with the entries of this reply.
bool auditor_transaction_ends(const auditor_t *a);
// Writes the entries of the reply to the log. Commits and acknowledges, unless the next reply is under way and has room in the
// same transaction. False: a write or a request failed.
bool auditor_copy_reply(auditor_t *a);
// Commits the open transaction, if there is one, and acknowledges it unless the next reply comes first. False: a write or a
// request failed.
bool auditor_commit_copied(auditor_t *a);
// Acknowledges what is committed and not acknowledged. False: the request failed.
bool auditor_acknowledge_copied(auditor_t *a);
// Rolls the open transaction back, and forgets its entries.
void auditor_drop_copied(auditor_t *a);
// Forgets entries that are committed: their acknowledgement was sent, or all are renewed. Needs no mutex.
void auditor_forget_copied(auditor_t *a);
// Notes that the log lacks an entry of this age. Age 0: the log may lack a new entry.
void auditor_note_missing(auditor_t *a, int64_t age_ms);
// The log lacks entries since then; 0 = it lacks none.
void auditor_set_missing_since(auditor_t *a, int64_t ns);

// Sends the next XREAD. Redis replies when an entry comes, or in time for the next timer. False: there is no stream to read, or
// a request failed.
bool auditor_send_read(auditor_t *a);
// Reads the reply if it has arrived, writes its entries to the log and acknowledges them. False: a request or a write failed.
bool auditor_read_reply(auditor_t *a);
// Updates the time since which the log may lack an entry.
void auditor_note_lag(auditor_t *a);
