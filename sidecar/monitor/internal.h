// Private to monitor/: the state of the monitor, and one step of one queue's scan.
#pragma once

#include <stdatomic.h>

#include "monitor/apply.h"
#include "monitor/pages.h"
#include "monitor/tasks.h"
#include "role/leadership.h"
#include "role/session.h"

typedef struct monitor monitor_t; // as in monitor.h

// The turn of one queue. The turn lasts until all requested pages are judged, because pages_t serves one queue at a time.
typedef struct monitor_turn {
    size_t queue;
    lease_t lease;
    unsigned pages; // pages that were judged in this turn
} monitor_turn_t;

struct monitor {
    const keyspace_t *keys;
    const atomic_bool *stop;
    session_t session;
    leadership_t leadership;
    scan_t *scans;      // one element for each queue
    bool scans_any;     // some queue is scanned
    keymap_t by_key;    // digest of a backup list -> 2 * queue + 1, of an errors hash -> 2 * queue + 2
    size_t cursor;      // the queue whose scan is next
    size_t task_cursor; // the queue whose side task is next
    mono_t safety_at;   // the next safety poll
    mono_t look_at;     // the next look for reports while Redis refuses wake-ups
    apply_buffers_t *buffers;
    pace_t pace;
    tasks_t tasks;
    pages_t *pages;         // pages of turn.queue
    stamped_page_t *search; // page of a search; empty between two steps
    monitor_turn_t turn;
};

bool monitor_serves(const monitor_t *m, size_t queue); // by its roles; the scans of other queues are zero
bool monitor_may_serve(monitor_t *m, size_t queue, lease_t *lease);
bool monitor_may_scan(monitor_t *m, size_t queue, lease_t *lease);
// Everything that the verdicts on a page of call->queue need. Borrows both.
apply_t monitor_apply(monitor_t *m, const call_t *call, const backup_page_t *page, bool from_tail);
call_t monitor_call(monitor_t *m, size_t queue, const char *token, redis_error_t *error);

// Drops the cached state of one queue, or of all queues, because it may be out of date.
void monitor_reset_queue(void *monitor, size_t queue);
void monitor_reset(void *monitor);

// Acts on the outcome of a request for one queue. `term` is the term of the request's token; 0 = the request had no token.
// False: the connection is unusable for now.
bool monitor_handle_outcome(monitor_t *m, const call_t *call, uint64_t term);
// The same for a request about single jobs. A refusal must not abort the scan, or no job of a long list would ever be ended.
bool monitor_handle_job_outcome(monitor_t *m, const call_t *call);
// Reads the outstanding replies, so that another request can be sent. False: the connection is unusable for now.
bool monitor_read_replies(monitor_t *m);

// Reads the state of every queue whose scan is due, in one request, and begins those scans. False: the connection is unusable
// for now.
bool monitor_begin_scans(monitor_t *m);
// Without wake-ups: a changed number of reports begins a search. False: the connection is unusable for now.
bool monitor_look_for_reports(monitor_t *m);
// Chooses the queue of the next step: m->turn. False: no scan is in progress.
bool monitor_next_turn(monitor_t *m);
bool monitor_step_scan(monitor_t *m); // false: the connection is unusable for now
// One step of a search for the jobs of reports; no reply is outstanding. False: the connection is unusable for now.
bool monitor_step_search(monitor_t *m);
