// What a promote could not move: it stays where the workers' system keeps it, put off, and its member stands in
// sidecar:<queue>:aside until the monitor has ended it with a record, or has sent it after all. For dialects whose promote reads
// more than a score.
#ifndef QS_QUEUE_QUARANTINE_H
#define QS_QUEUE_QUARANTINE_H

#include "model/event.h"
#include "queue/keys.h"
#include "queue/settle.h"
#include "redis/conn.h"

struct redisReply;

enum {
    QUARANTINE_PAGE_JOBS = 16,           // members of one look
    QUARANTINE_PAGE_BYTES = 1024 * 1024, // no further envelope is read once so many were
};

// One member; its bytes belong to the page.
typedef struct quarantined {
    slice_t member;
    int64_t since;     // when it was put aside, ms by Redis's clock
    const char *score; // in delayed, as Redis writes it; "" = it is not there any more
    bool has_envelope; // else there is none, or it is too large
    slice_t envelope;
    int64_t too_large; // bytes of an envelope that is larger than max_payload, and was not read; else 0
} quarantined_t;

typedef struct quarantine_page {
    quarantined_t jobs[QUARANTINE_PAGE_JOBS];
    size_t count; // 0: none behind `skip`
    int64_t now;  // ms by Redis's clock
    bool armed;   // Redis will tell of the next change of the zset
    struct redisReply *reply;
} quarantine_page_t;

// A look behind the first `skip` members, the longest aside first. `events`: key of the hash of envelopes, NULL = there is none.
// `arm`: asks for a wake-up, too. On OUTCOME_OK *page is ended by quarantine_page_free.
outcome_t quarantine_read(const call_t *call, const char *events, size_t skip, bool arm, quarantine_page_t *page);
void quarantine_page_free(quarantine_page_t *page);

typedef enum quarantine_verdict {
    QUARANTINE_RELEASE, // it is not the monitor's any more: it stays where it is
    QUARANTINE_PUSH,    // it is sent, and scheduled again
    QUARANTINE_END,     // it leaves delayed and events, with a record
} quarantine_verdict_t;

typedef struct quarantine_decision {
    const quarantined_t *job;
    quarantine_verdict_t verdict;
    const char *events;   // as above
    const char *hash;     // of END: key of a hash that must not have a field `name`; NULL = does not matter
    const char *ready;    // of PUSH: the list; of END: the list in which it may wait still; else NULL
    slice_t next;         // of PUSH: the envelope that stays; of END: the one that would wait there
    int64_t delay_ms;     // of PUSH: until it is due again
    bool last;            // of PUSH: it is the last one; the score ends in .5 then
    const event_t *event; // of END: the record; `at` is added in Redis
} quarantine_decision_t;

// Appends one request; fenced. settle_read reads its reply: SETTLED, _CHANGED, _FULL or _TYPE; _ALIVE: it waits for a worker.
void quarantine_settle_append(const call_t *call, const quarantine_decision_t *ask);

#endif
