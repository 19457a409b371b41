// The quarantine: entries of delayed that a promotion could not move. Such an entry stays in delayed with a later score. Its
// member is also in sidecar:<queue>:aside until the monitor ends the entry with a record, or sends it. Only dialects whose
// promotion reads more than a score have quarantined entries.
#pragma once

#include "base/pace.h"
#include "model/event.h"
#include "queue/settle.h"

struct redisReply;

enum {
    QUARANTINE_PAGE_JOBS = 64,           // members of one page
    QUARANTINE_PAGE_BYTES = 1024 * 1024, // no further envelope is read after this many bytes
};

// One member; its bytes belong to the page. Its envelope is its value in the dialect's hash of envelopes, if there is one.
typedef struct quarantined {
    slice_t member;
    int64_t since;     // when promote quarantined the member, ms by Redis's clock
    const char *score; // score in delayed, as Redis writes it; "" = the member has left delayed
    bool has_envelope; // false: the envelope is missing or too large
    slice_t envelope;
    int64_t too_large; // bytes of an envelope that is larger than max_payload and was not read; otherwise 0
} quarantined_t;

typedef struct quarantine_page {
    quarantined_t jobs[QUARANTINE_PAGE_JOBS];
    size_t count; // 0 = no member is behind `skip`
    int64_t now;  // ms by Redis's clock
    bool armed;   // Redis sends a wake-up at the next change of the zset
    struct redisReply *reply;
} quarantine_page_t;

// Reads a page after the first `skip` members, the longest quarantined first. `events` is the key of the hash of envelopes, or
// NULL. `arm`: also requests a wake-up. On OUTCOME_OK call quarantine_page_free for *page.
outcome_t quarantine_read(const call_t *call, const char *events, size_t skip, bool arm, quarantine_page_t *page);
void quarantine_page_free(quarantine_page_t *page);

typedef enum quarantine_verdict {
    QUARANTINE_RELEASE, // the member leaves the quarantine and stays in delayed
    QUARANTINE_PUSH,    // the monitor pushes the envelope and schedules the member again
    QUARANTINE_END,     // the member and its envelope are removed; a record enters the stream
} quarantine_verdict_t;

typedef struct quarantine_decision {
    const quarantined_t *job;
    quarantine_verdict_t verdict;
    const char *events;   // key of the hash of envelopes, or NULL
    const char *hash;     // of END: key of a hash that must not have the field `name`; NULL = no condition
    const char *ready;    // of PUSH: the list; of END: the list that may still hold `pushed`; otherwise NULL
    slice_t next;         // of PUSH: the envelope that stays
    slice_t pushed;       // of PUSH and END: the envelope of the last push, which may wait in `ready`; empty = none
    int64_t delay_ms;     // of PUSH: delay until the event is due again
    bool last;            // of PUSH: this push is the last; its score ends in .5, otherwise in .25: no producer writes that
    const event_t *event; // of END: the record; the script adds `at`
} quarantine_decision_t;

// Settles up to QUARANTINE_PAGE_JOBS members, in requests that take Redis about redis.slice each; fenced. out[i] tells what
// became of asks[i]: SETTLED, _CHANGED, _FULL, _TYPE, _REFUSED, or _ALIVE: the event may wait for a worker. Returns the number of
// answers; it is less than `count` after an error. *call->error keeps the worst error of all members.
size_t quarantine_settle(const call_t *call, const quarantine_decision_t *const *asks, size_t count, pace_t *pace,
                         settled_t *out);
