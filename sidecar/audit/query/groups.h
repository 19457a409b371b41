// Final failures counted by one thing, in slices.
#pragma once

#include "audit/query/query.h"

typedef enum audit_by { AUDIT_BY_ERROR, AUDIT_BY_QUEUE, AUDIT_BY_REASON, AUDIT_BY_HOUR } audit_by_t;
#define AUDIT_BY_WORDS "error queue reason hour" // in this order

enum { AUDIT_GROUPS_MAX = 10000, AUDIT_ERROR_MAX = 160 };

// Of each audit_count_t only the member that the failures have in common is set: error, queue, reason or hour_ms.
typedef struct audit_groups audit_groups_t;

audit_groups_t *audit_groups_new(audit_by_t by); // owned
void audit_groups_free(audit_groups_t *groups);

// Counts failures, newest first, from *place on: as audit_search. The numbers are whole once place->more is false; failures that
// are added, answered or removed between two slices may be missing.
bool audit_groups_read(audit_groups_t *groups, audit_t *audit, const audit_filter_t *filter, audit_place_t *place,
                       int64_t slice_us, buffer_t *why);

// The groups, largest first; hours newest first. Borrowed until the next read.
const audit_count_t *audit_groups_sorted(audit_groups_t *groups, size_t *count);

// When there are more than AUDIT_GROUPS_MAX groups, the smaller half is dropped.
typedef struct audit_dropped {
    int64_t failures; // in dropped groups
    int64_t too_low;  // the count of a group may be too low by so much: a part of it may have been dropped before
} audit_dropped_t;
audit_dropped_t audit_groups_dropped(const audit_groups_t *groups);

// The part of an error that others share: its first line that is not empty, with # for each number, U+FFFD for bytes that are no
// UTF-8, a space for control characters; at most AUDIT_ERROR_MAX bytes. "" = no error. Replaces the text in *out.
void audit_error_group(buffer_t *out, slice_t error);
