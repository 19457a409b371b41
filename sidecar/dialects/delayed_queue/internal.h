// Settings of dialect delayed_queue, and the interfaces between its files.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"
#include "config/config.h"
#include "dialects/dialect.h"

typedef struct delayed_config {
    strings_t types;        // CLASS or CLASS=LIST, as in the file
    int64_t retry_attempts; // an event's attempts, with the first
    delay_steps_t delays;   // time until the next attempt
    strings_t classes;      // derived: the Java class of each of `types`
    strings_t lists;        // derived: key of the ready list of each class; two may be equal
    char *events;           // derived: key of the hash of envelopes
} delayed_config_t;

static inline delayed_config_t *delayed_config(const queue_config_t *queue) { return queue->own; }

extern const config_dialect_t delayed_settings;

extern const side_task_ops_t delayed_task;           // quarantine.c
extern const side_task_ops_t delayed_scheduler_task; // scheduler.c

// Field of the queue's meta hash: when the leader last saw a run of the library's own scheduler, ms by Redis's clock.
#define DELAYED_SCHEDULER "scheduler"

// ---- reschedule.c: after Redis's clock was set back, events that were sent before keep no time of the future.

// A pass through the events whose time is later than a send would set it now; see delayed_reschedule.lua. The texts are for the
// script and come from its last reply. A pass that is cut off begins again.
typedef struct delayed_pass {
    mono_t next;    // when the next page is wanted, or the next look at the clock
    int64_t moved;  // by this pass
    char began[64]; // "" = no pass is on
    char from[40];
    int64_t skip;
} delayed_pass_t;

// Makes one step of the pass if it is time. *moved: members of zset or quarantine have another time now.
outcome_t delayed_reschedule(delayed_pass_t *pass, const side_task_call_t *call, bool *moved);

// survey.c: tells of events whose class is unknown, and of the library's own scheduler.
outcome_t delayed_survey(const call_t *call, survey_report_fn *report, void *self);

// ---- envelope.c: an event, its member in zset and hash, and its envelope.

#define DELAYED_DELIMITER "###" // between class and id (DelayedEventService.java, DELIMITER)

enum { DELAYED_LATER_MS = 10000 }; // the promote script postpones a quarantined event by this

// A member, split at its first delimiter: class names hold no #. The parts are borrowed from the member.
typedef struct delayed_name {
    slice_t class; // "" = the member has no delimiter
    slice_t id;
} delayed_name_t;

delayed_name_t delayed_name(slice_t member);

// Index of a class in delayed_config_t.classes; false: not configured.
bool delayed_class(const delayed_config_t *own, slice_t class, size_t *out);

typedef struct delayed_envelope {
    int64_t attempt; // the next attempt, from 1
    slice_t digits;  // the digits of `attempt` in the text
} delayed_envelope_t;

// False: not an envelope of this class. Stricter than Jackson: `attempt` must occur exactly once, unquoted.
bool delayed_read(slice_t text, slice_t class, delayed_envelope_t *out);

// Whether delayed_promote.lua can read this envelope: the envelope ends exactly as Jackson writes it.
bool delayed_is_fast(slice_t text, slice_t class, const delayed_envelope_t *envelope);

// Appends the text with another attempt; every other byte stays.
void delayed_splice(slice_t text, const delayed_envelope_t *envelope, int64_t attempt, buffer_t *out);

// The delay before attempt number `attempt` (DelayedEventService.java, nextDelay).
int64_t delayed_delay_ms(const delayed_config_t *own, int64_t attempt);
