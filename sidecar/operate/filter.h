// The words with which people select events: what is allowed, and what they mean. Each *why is a text for people.
#pragma once

#include "audit/query/query.h"

#define AUDIT_FAILURE_REASONS                                                                                                    \
    "retries_exhausted reported alive_timeout unreadable invalid_target dead_letter worker_failed cancelled"
#define AUDIT_OTHER_REASONS "stalled trimmed removed_by_others log_damaged log_missing log_replaced imported"
#define AUDIT_KINDS         "failed retried requeued discarded erased gap filled"
#define AUDIT_STATES        "failed requeued discarded open" // open is the same as failed

// Reads a time as time_parse does; NULL leaves *ms as it is. False with *why.
bool filter_read_time(const char *word, bool utc, int64_t *ms, buffer_t *why);
// Reads a number of rows. False with *why.
bool filter_read_limit(const char *word, int64_t *limit, buffer_t *why);
// Whether the parts of a filter fit together. `dashes` stands before the names of parameters: "--" for a command. False with
// *why. Replaces the state open by failed.
bool filter_check(audit_filter_t *filter, const char *dashes, buffer_t *why);

// Whether the filter has any condition besides the kind.
bool filter_is_given(const audit_filter_t *filter);
// Whether it has one by which people choose among failures. State and group may hold for the whole log.
bool filter_narrows(const audit_filter_t *filter);
